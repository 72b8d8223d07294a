"""Trainer between loops, with a fake loop and a fake evaluation."""

import json
import math

import pytest
import tensorflow as tf

from albert_tf.checkpoints import checkpointer
from albert_tf.devices import strategies
from albert_tf.training import flags as training_flags
from albert_tf.training import guard, metrics_log, preemption
from tests.support import counting_run


@pytest.mark.parametrize(
    ("losses", "patience", "last"),
    [
        ((9.0, 8.0, 7.0, 6.0, 5.0), 1, 20),  # each the best yet
        ((9.0, 4.0, 5.0, 6.0, 7.0), 1, 10),
        ((9.0, 4.0, 5.0, 6.0, 7.0), 2, 15),
        ((9.0, 4.0, 5.0, 3.0, 7.0), 2, 20),  # the best comes in time
    ],
)
def test_patience_ends_a_run_after_so_many_evaluations_that_were_no_better(
    tmp_path, losses, patience, last
):
    held_out = {5 * n: {"mlm_loss": loss} for n, loss in enumerate(losses)}
    run = counting_run.Run(tmp_path, held_out, patience=patience)
    run.execute()
    assert run.step == last
    again = counting_run.Run(tmp_path, held_out, patience=patience)
    again.execute()
    assert (again.restored, again.step, again.loops) == (last, last, [])


@pytest.mark.parametrize("stop", [{"stop_in_evaluation": 10}, {"stop_at": 10}])
def test_patience_is_not_judged_without_the_evaluation_of_the_step(
    tmp_path, capsys, stop
):
    losses = (9.0, 4.0, 3.0, 2.0, 1.0)
    held_out = {5 * n: {"mlm_loss": loss} for n, loss in enumerate(losses)}
    with pytest.raises(preemption.Stopped, match="saved at step 10"):
        counting_run.Run(tmp_path, held_out, patience=1, **stop).execute()
    assert "is the last one" not in "".join(capsys.readouterr())
    again = counting_run.Run(tmp_path, held_out, patience=1)
    again.execute()
    assert again.step == 20


def test_patience_without_the_metric_that_it_judges_is_an_error(tmp_path):
    held_out = {5 * n: {"accuracy": 0.5, "loss": 1.0} for n in range(5)}
    rule = "must return the metric .*, mlm_loss .* received accuracy, loss. Return it"
    with pytest.raises(ValueError, match=rule):
        counting_run.Run(tmp_path / "patient", held_out, patience=2).execute()
    run = counting_run.Run(tmp_path / "other", held_out)
    run.execute()
    assert run.step == 20


LOSSES = {
    step: {"mlm_loss": loss, "mlm_accuracy": 1.0 - loss / 10.0}
    for step, loss in {0: 9.0, 5: 4.0, 10: 1.0, 15: 3.0, 20: 2.0}.items()
}


def _best(folder):
    return json.loads((folder / checkpointer.BEST_FILE).read_text())


def test_a_run_stops_where_the_host_has_something_to_do(tmp_path):
    run = counting_run.Run(tmp_path, LOSSES)
    assert run.execute() == LOSSES[20]
    assert run.loops == [3, 5, 6, 9, 10, 12, 15, 18, 20]
    rows = metrics_log.read_metrics(str(tmp_path))
    assert [r["step"] for r in rows if r["split"] == "train"] == run.loops
    assert [r["step"] for r in rows if r["split"] == "heldout"] == [0, 5, 10, 15, 20]
    assert _best(tmp_path) == {"step": 10, "metric": 1.0}


def test_workers_leave_together_once_all_is_saved(tmp_path, monkeypatch):
    newest = []
    monkeypatch.setattr(
        strategies,
        "leave_together",
        lambda _: newest.append(checkpointer.newest_path(str(tmp_path))),
    )
    with pytest.raises(preemption.Stopped):
        counting_run.Run(tmp_path, LOSSES, stop_at=7).execute()
    counting_run.Run(tmp_path, LOSSES).execute()
    assert newest == [str(tmp_path / f"model.ckpt-{step}") for step in (7, 20)]


@pytest.mark.parametrize("metric", ["mlm_loss", "mlm_accuracy"])
@pytest.mark.parametrize(
    "stop", [{"stop_at": 10}, {"stop_at": 7}, {"stop_in_evaluation": 10}]
)
def test_the_best_checkpoint_does_not_depend_on_where_a_run_was_stopped(
    tmp_path, stop, metric
):
    with pytest.raises(preemption.Stopped, match="saved at step") as stopped:
        counting_run.Run(tmp_path, LOSSES, best_metric=metric, **stop).execute()
    assert stopped.value.exit_code == 75
    assert (
        counting_run.Run(tmp_path, LOSSES, best_metric=metric).execute() == LOSSES[20]
    )
    assert _best(tmp_path) == {"step": 10, "metric": LOSSES[10][metric]}
    rows = metrics_log.read_metrics(str(tmp_path))
    assert [r["step"] for r in rows if r["split"] == "heldout"] == [0, 5, 10, 15, 20]
    names = {path.stem for path in tmp_path.glob("*.index")}
    assert names == {"model.ckpt-10", "model.ckpt-20"}


def test_an_evaluation_that_is_no_number_is_not_the_best_for_long(tmp_path):
    losses = {0: math.nan, 5: 4.0, 10: math.nan, 15: 5.0, 20: 6.0}
    held_out = {step: {"mlm_loss": loss} for step, loss in losses.items()}
    counting_run.Run(tmp_path, held_out).execute()
    assert _best(tmp_path) == {"step": 5, "metric": 4.0}


def test_a_run_that_is_asked_to_end_at_its_last_step_ends_when_called_again(tmp_path):
    with pytest.raises(preemption.Stopped, match="saved at step 20"):
        counting_run.Run(tmp_path, LOSSES, stop_at=20).execute()
    again = counting_run.Run(tmp_path, LOSSES)
    assert again.execute() == LOSSES[20] and again.loops == []
    once_more = counting_run.Run(tmp_path, LOSSES)
    assert once_more.execute() == LOSSES[20] and once_more.loops == []


def _alarm_at_10(rows):
    return guard.Alarm(10, "no progress") if rows[-1]["step"] >= 10 else None


def test_a_run_without_progress_ends_where_so_set_and_is_saved(tmp_path, capsys):
    ending = {"find_alarm": _alarm_at_10, "on_no_progress": "end"}
    for loops in ([3, 5, 6, 9, 10], []):  # when called again it ends at once
        run = counting_run.Run(tmp_path, LOSSES, **ending)
        with pytest.raises(guard.NoProgressError, match="ended and saved at step 10"):
            run.execute()
        assert (run.step, run.loops) == (10, loops)
        assert "no progress" in capsys.readouterr().err
    warned = counting_run.Run(tmp_path, LOSSES, find_alarm=_alarm_at_10)
    assert warned.execute() == LOSSES[20]
    assert warned.restored == 10


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (preemption.Stopped(75, 3), 75),
        (preemption.Stopped(130, 3), 130),
        (guard.NoProgressError(3), 78),
        (strategies.WorkerLostError("worker 2 is lost"), 75),
    ],
)
def test_a_command_ends_with_a_code_for_why_its_run_did(
    error, code, monkeypatch, capsys
):
    codes = []
    monkeypatch.setattr(preemption, "exit_now", codes.append)
    with training_flags.exiting_early():
        raise error
    assert codes == [code]
    assert str(error) in capsys.readouterr().err


def test_a_run_that_is_ended_by_an_earlier_alarm_says_which(tmp_path, capsys):
    with pytest.raises(preemption.Stopped):
        counting_run.Run(
            tmp_path, LOSSES, find_alarm=_alarm_at_10, stop_at=15
        ).execute()
    capsys.readouterr()
    ending = {"find_alarm": _alarm_at_10, "on_no_progress": "end"}
    with pytest.raises(guard.NoProgressError):
        counting_run.Run(tmp_path, LOSSES, **ending).execute()
    assert "no progress" in capsys.readouterr().err


def test_a_warning_of_no_progress_is_said_once_and_changes_nothing(tmp_path, capsys):
    run = counting_run.Run(tmp_path, LOSSES, find_alarm=_alarm_at_10)
    assert run.execute() == LOSSES[20]
    assert capsys.readouterr().err.count("no progress") == 1


class _Profiler:
    def __init__(self, monkeypatch, run):
        self.calls = []
        for name in ("start", "stop"):
            monkeypatch.setattr(
                tf.profiler.experimental,
                name,
                lambda *_, name=name: self.calls.append((name, run.step)),
            )


@pytest.mark.parametrize(
    ("steps", "stop_at", "expected"),
    [
        ((7, 8), None, [("start", 6), ("stop", 8)]),
        ((1, 20), None, [("start", 0), ("stop", 20)]),
        ((20, 20), None, [("start", 19), ("stop", 20)]),
        ((15, 99), None, [("start", 14), ("stop", 20)]),
        ((7, 12), 9, [("start", 6), ("stop", 9)]),
        ((21, 22), None, []),
    ],
)
def test_chosen_steps_are_profiled_as_far_as_they_come(
    tmp_path, monkeypatch, steps, stop_at, expected
):
    run = counting_run.Run(tmp_path, LOSSES, stop_at=stop_at, profile_steps=steps)
    profiler = _Profiler(monkeypatch, run)
    try:
        run.execute()
    except preemption.Stopped:
        assert stop_at
        # The same command goes on within the range, and profiles no more.
        again = counting_run.Run(tmp_path, LOSSES, profile_steps=steps)
        again.execute()
    assert profiler.calls == expected


def test_a_bad_step_names_its_batch_and_the_last_good_checkpoint(tmp_path):
    run = counting_run.Run(tmp_path, LOSSES)
    good = run.loop

    def bad(batches, num_steps):
        outcome = good(batches, num_steps)
        if run.loops[-1] == 9:
            run.trainer.state.num_skipped.assign(1)
            outcome |= {"failed": tf.constant(True), "bad_loss": tf.constant(50.0)}
        return outcome

    run.loop = bad
    message = (
        "step 9 failed: the loss rose to 50, .* in .*bad_batch-9.npz; .*model.ckpt-5"
    )
    with pytest.raises(FloatingPointError, match=message):
        run.execute()
