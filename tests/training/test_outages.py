"""Saves that fail, storage that is away, and runs that hang."""

import json
import pathlib
import shutil
import threading
import time
import types

import pytest
import tensorflow as tf

from albert_tf.checkpoints import checkpointer
from albert_tf.core import failures, strict_json
from albert_tf.training import (
    hangs,
    metrics_log,
    pauses,
    preemption,
    watchdog,
)
from tests.support import counting_run

LOSSES = {step: {"mlm_loss": 9.0 - step / 5} for step in range(0, 25, 5)}


class Run(counting_run.Run):
    """A run whose loop waits until the checkpoint before it is written, or not."""

    def __init__(self, folder, held_out, **more):
        folder.mkdir(exist_ok=True)
        super().__init__(folder, held_out, **more)

    def loop(self, batches, num_steps):
        while self.trainer.checkpointer.is_writing:
            time.sleep(0.01)
        return super().loop(batches, num_steps)


# ---- Saves ----


class _Storage:
    """Fails to write the list of checkpoints a number of times, from a step on."""

    def __init__(self, monkeypatch, error: Exception, num_failures: int, first_step=0):
        self.num_failures = num_failures
        self._write = checkpointer.files.write_bytes
        self._error = error
        self._first = first_step
        monkeypatch.setattr(checkpointer.files, "write_bytes", self.write)
        monkeypatch.setattr(pauses, "_FIRST_SECONDS", 0.0)

    def write(self, path: str, data: bytes) -> None:
        if path.endswith("/run/checkpoint") and self.num_failures:
            if checkpointer.step_of(data.decode().partition('"\n')[0]) >= self._first:
                self.num_failures -= 1
                raise self._error
        self._write(path, data)


FULL = OSError("no space is left")
AWAY = tf.errors.UnavailableError(None, None, "no answer")


def _kept(folder: pathlib.Path) -> list[int]:
    return sorted(int(path.stem.split("-")[1]) for path in folder.glob("*.index"))


def test_a_save_that_fails_is_made_good_at_the_next_return_of_the_loop(
    tmp_path, monkeypatch, capsys
):
    storage = _Storage(monkeypatch, FULL, num_failures=2, first_step=5)
    run = Run(tmp_path / "run", LOSSES)
    save, saved_at = run.trainer.checkpointer.save, []

    def noting_save(step, *arguments, **more):
        saved_at.append(step)
        save(step, *arguments, **more)

    run.trainer.checkpointer.save = noting_save
    run.execute()
    assert storage.num_failures == 0 and run.loops[-1] == 20
    # That of step 5 fails, and that of step 6.
    assert saved_at == [0, 5, 6, 9, 10, 15, 20]
    said = capsys.readouterr().err
    assert said.count("model.ckpt-5 could not be written: no space is left") == 1
    assert said.count("model.ckpt-6 could not be written: no space is left") == 1
    assert "That was attempt 2; the state is in memory" in said
    assert _kept(tmp_path / "run") == [20]


def test_saves_that_fail_for_good_end_the_run_with_its_state_elsewhere(
    tmp_path, monkeypatch
):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    _Storage(monkeypatch, AWAY, num_failures=99, first_step=5)
    run = Run(tmp_path / "run", LOSSES, save_retry_seconds=0.0)
    with pytest.raises(
        OSError, match="The state of step 6 is in .*: copy its"
    ) as found:
        run.execute()
    assert failures.is_outage(found.value)
    # The save of step 5 failed, and the one attempt after it.
    assert run.loops == [3, 5, 6]
    (copy,) = tmp_path.glob("albert_tf-unsaved-*")
    monkeypatch.undo()
    shutil.copytree(copy, tmp_path / "run", dirs_exist_ok=True)
    again = Run(tmp_path / "run", LOSSES)
    assert again.restored == 6
    again.execute()
    assert again.step == 20


def test_the_last_save_waits_for_the_storage(tmp_path, monkeypatch, capsys):
    storage = _Storage(monkeypatch, AWAY, num_failures=3, first_step=20)
    run = Run(tmp_path / "run", LOSSES)
    run.execute()
    assert storage.num_failures == 0
    assert "That was attempt 3" in capsys.readouterr().err
    assert Run(tmp_path / "run", LOSSES).restored == 20


def test_the_directory_is_confirmed_before_each_attempt_to_save(tmp_path, monkeypatch):
    """Another run may have taken it while the storage was away."""

    class Ended(BaseException):
        pass

    storage = _Storage(monkeypatch, AWAY, num_failures=99, first_step=20)
    run, checks = Run(tmp_path / "run", LOSSES), []

    def check_held():
        checks.append(run.step)
        if checks.count(20) == 7:
            raise Ended

    with pytest.raises(Ended):
        run.execute(check_held)
    # Each fifth step has two rows and is the best so far; steps 3, 6 ... have a row.
    rows = [0, 3, 5, 5, 6, 9, 10, 10, 12, 15, 15, 18, 20, 20]
    begun, complete = [0, 5, 10, 15, 20, 20, 20], [0, 5, 10, 15, 20, 20]
    assert checks == sorted(rows + begun + complete)
    assert storage.num_failures == 97


def test_a_run_that_lost_its_directory_writes_no_row(tmp_path):
    class Ended(BaseException):
        pass

    run = Run(tmp_path, LOSSES)

    def check_held():
        if run.step == 6:
            raise Ended

    with pytest.raises(Ended):
        run.execute(check_held)
    rows = metrics_log.read_metrics(str(tmp_path))
    assert [(r["split"], r["step"]) for r in rows] == [
        ("heldout", 0),
        ("train", 3),
        ("train", 5),
        ("heldout", 5),
    ]


def test_a_run_that_is_asked_to_end_does_not_wait_for_the_storage(
    tmp_path, monkeypatch
):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    storage = _Storage(monkeypatch, AWAY, num_failures=99, first_step=7)
    run = Run(tmp_path / "run", LOSSES, stop_at=7)
    run.trainer.signals.stop.assign(1.0)
    with pytest.raises(OSError, match="The state of step 7 is in "):
        run.execute()
    assert storage.num_failures == 98


def test_an_outage_in_an_evaluation_costs_no_step(tmp_path):
    run = Run(tmp_path, LOSSES)

    def evaluate():
        if run.step == 10:
            raise AWAY
        return LOSSES[run.step]

    run.evaluate = evaluate
    with pytest.raises(tf.errors.UnavailableError):
        run.execute()
    again = Run(tmp_path, LOSSES)
    assert again.restored == 10
    again.execute()
    rows = metrics_log.read_metrics(str(tmp_path))
    assert [r["step"] for r in rows if r["split"] == "heldout"] == [0, 5, 10, 15, 20]
    best = json.loads((tmp_path / checkpointer.BEST_FILE).read_text())
    assert best == {"step": 20, "metric": 5.0}


def test_an_outage_stays_one_where_there_is_no_directory_for_a_copy(
    tmp_path, monkeypatch
):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "missing"))
    _Storage(monkeypatch, AWAY, num_failures=99, first_step=5)
    run = Run(tmp_path / "run", LOSSES, save_retry_seconds=0.0)
    with pytest.raises(OSError, match="The state of step 6 is lost: ") as found:
        run.execute()
    assert failures.is_outage(found.value)


def test_where_nothing_can_be_written_the_message_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    _Storage(monkeypatch, FULL, num_failures=99, first_step=5)

    def fail(*_):
        raise FULL

    monkeypatch.setattr(checkpointer.Checkpointer, "save_copy", fail)
    run = Run(tmp_path / "run", LOSSES, save_retry_seconds=0.0)
    with pytest.raises(OSError, match="The state of step 6 is lost: no space is left"):
        run.execute()
    assert not list(tmp_path.glob("albert_tf-unsaved-*"))


def test_early_stopping_does_not_depend_on_whether_the_best_could_be_saved(
    tmp_path, monkeypatch
):
    losses = zip(range(0, 25, 5), (9.0, 4.0, 5.0, 6.0, 7.0), strict=True)
    held_out = {step: {"mlm_loss": loss} for step, loss in losses}
    _Storage(monkeypatch, FULL, num_failures=1, first_step=5)
    run = Run(tmp_path / "run", held_out, patience=2)
    run.execute()
    assert run.step == 15
    best = json.loads((tmp_path / "run" / checkpointer.BEST_FILE).read_text())
    assert best == {"step": 10, "metric": 5.0}  # the best that could be saved
    assert _kept(tmp_path / "run") == [10, 15]


# ---- Hangs ----


class _Ended(Exception):
    """Raised in the main thread by what os._exit would have ended."""


class _Hanging:
    """Hangs where it is told to, until the watchdog ends the process."""

    def __init__(self, monkeypatch):
        self._skipped_seconds = 0.0
        self._codes: list[int] = []
        clock = lambda: time.monotonic() + self._skipped_seconds  # noqa: E731
        fake_time = types.SimpleNamespace(monotonic=clock)
        monkeypatch.setattr(watchdog, "time", fake_time)
        self._ended = threading.Event()
        monkeypatch.setattr(preemption, "exit_now", self._exit)

    def _exit(self, code: int) -> None:
        self._codes.append(code)
        self._ended.set()

    def hang(self) -> None:
        """Returns never: raises when the process would have ended."""
        deadline = time.monotonic() + 60.0
        while not self._ended.is_set() and time.monotonic() < deadline:
            self._skipped_seconds += 600.0
            time.sleep(0.05)
        raise _Ended

    def code(self, run: Run) -> int:
        """The exit code of a run that hangs."""
        self._ended.clear()
        self._codes.clear()
        with pytest.raises(_Ended):
            run.execute()
        (code,) = self._codes
        return code


def _run_hanging_in_step(hanging: _Hanging, folder, step: int, **settings) -> Run:
    run = Run(folder, LOSSES, stall_seconds=0.4, **settings)
    good = run.loop

    def loop(batches, num_steps):
        if run.step < step <= run.step + int(num_steps):
            run.trainer.signals.heartbeat.assign(2 * (step - run.step - 1) + 1)
            hanging.hang()
        return good(batches, num_steps)

    run.loop = loop
    return run


def _error(capsys) -> str:
    """The one line that says why a process ended."""
    said = capsys.readouterr().err.splitlines()
    (line,) = [line for line in said if line.startswith("error: ")]
    return line


def test_a_step_that_hangs_ends_with_75_then_with_1_and_may_be_skipped(
    tmp_path, monkeypatch, capsys
):
    hanging = _Hanging(monkeypatch)
    assert hanging.code(_run_hanging_in_step(hanging, tmp_path, 8)) == 75
    line = _error(capsys)
    assert line.startswith("error: step 8 has been running for ")
    assert line.endswith("The process ends; the same command resumes")
    assert hanging.code(_run_hanging_in_step(hanging, tmp_path, 8)) == 1
    line = _error(capsys)
    assert line.startswith("error: step 8 has been running for ")
    assert "that was time 2 at this place, so the run ends for good" in line
    run = _run_hanging_in_step(hanging, tmp_path, 8, max_skipped_steps=1)
    iterations = int(run.trainer.optimizer.iterations)
    run.execute()
    assert run.restored == 5 and run.loops == [6, 7, 9, 10, 12, 15, 18, 20]
    assert int(run.trainer.state.num_skipped) == 1
    assert int(run.trainer.optimizer.iterations) == iterations + 1
    assert "step 8 is skipped: the run hung there twice" in capsys.readouterr().err
    assert not (tmp_path / hangs.FILE).exists()


def test_an_evaluation_that_hangs_ends_with_75(tmp_path, monkeypatch, capsys):
    hanging = _Hanging(monkeypatch)
    run = Run(tmp_path, LOSSES, stall_seconds=0.4)

    def evaluate():
        if run.step == 10:
            run.trainer.signals.heartbeat.assign(3)
            hanging.hang()
        return LOSSES[run.step]

    run.evaluate = evaluate
    assert hanging.code(run) == 75
    said = "error: the evaluation at step 10 has been in its batch 4 for "
    assert _error(capsys).startswith(said)
    assert json.loads((tmp_path / hangs.FILE).read_text())["step"] == 10


@pytest.mark.parametrize(
    ("method", "step", "name"),
    [("wait", 10, "the last save"), ("save", 20, "the save of step 20")],
)
def test_a_save_that_hangs_ends_with_75(
    tmp_path, monkeypatch, capsys, method, step, name
):
    hanging = _Hanging(monkeypatch)
    run = Run(tmp_path, LOSSES, stall_seconds=0.4)
    good = getattr(run.trainer.checkpointer, method)

    def hang(*arguments, **more):
        if run.step == step:
            hanging.hang()
        return good(*arguments, **more)

    setattr(run.trainer.checkpointer, method, hang)
    assert hanging.code(run) == 75
    assert _error(capsys).startswith(f"error: {name} has been running for ")
    assert not (tmp_path / hangs.FILE).exists()


def test_a_prediction_after_the_last_step_hangs_once_with_75_then_with_1(
    tmp_path, monkeypatch, capsys
):
    hanging = _Hanging(monkeypatch)

    def predict(is_hanging: bool) -> Run:
        run = Run(tmp_path, LOSSES, stall_seconds=0.4)
        train = run.execute

        def execute():
            train()
            with run.trainer.watch_prediction("the prediction"):
                if is_hanging:
                    hanging.hang()

        run.execute = execute
        return run

    assert hanging.code(predict(is_hanging=True)) == 75
    assert _error(capsys).startswith("error: the prediction has been running for ")
    assert hanging.code(predict(is_hanging=True)) == 1
    assert "that was time 2 at this place" in _error(capsys)
    predict(is_hanging=False).execute()
    assert not (tmp_path / hangs.FILE).exists()


def test_the_chief_ends_a_run_that_hangs_before_the_other_workers(
    tmp_path, monkeypatch
):
    """Else it might lose them before it records the step."""
    limits, make = [], watchdog.Watchdog

    def note(heartbeat, stall_seconds, hang_seconds, *arguments):
        limits.append(hang_seconds)
        return make(heartbeat, stall_seconds, hang_seconds, *arguments)

    monkeypatch.setattr(watchdog, "Watchdog", note)
    for is_chief in (True, False):
        run = Run(tmp_path / str(is_chief), LOSSES, hang_seconds=7.0)
        run.trainer.is_chief = is_chief
        run.execute()
    assert limits == [7.0, 67.0]


def _place(step: int, is_step: bool = True) -> watchdog.Place:
    name = f"step {step}" if is_step else f"the evaluation at step {step}"
    return watchdog.Place(name, "has been running", "slow", step, is_step)


def _add(folder: pathlib.Path, place: watchdog.Place, may_skip: bool = False) -> int:
    """The exit code of a process that hangs, which knows what the file says."""
    return hangs.HangRecord(str(folder), is_chief=True).add(place, may_skip)[0]


def test_a_run_ends_for_good_when_it_hangs_twice_in_a_row_at_one_place(tmp_path):
    assert _add(tmp_path, _place(8)) == 75
    assert json.loads((tmp_path / hangs.FILE).read_text()) == {
        "name": "step 8",
        "step": 8,
        "is_step": True,
        "times": 1,
    }
    # Elsewhere it is another hang.
    assert _add(tmp_path, _place(9)) == 75
    assert _add(tmp_path, _place(9, is_step=False)) == 75
    assert _add(tmp_path, _place(9, is_step=False), may_skip=True) == 1
    assert _add(tmp_path, _place(8)) == 75
    storage = watchdog.Place("the save of step 8", "has been running", "slow")
    assert _add(tmp_path, storage) == _add(tmp_path, storage) == 75
    assert _add(tmp_path, _place(8), may_skip=True) == 75
    assert hangs.HangRecord(str(tmp_path), is_chief=False).step_to_skip == 8
    assert _add(tmp_path, _place(8)) == 1


def test_a_hang_is_forgotten_once_the_run_is_saved_after_it(tmp_path):
    _add(tmp_path, _place(8))
    record = hangs.HangRecord(str(tmp_path), is_chief=True)
    record.passed(8)
    assert (tmp_path / hangs.FILE).exists()
    hangs.HangRecord(str(tmp_path), is_chief=False).passed(9)
    assert (tmp_path / hangs.FILE).exists()
    record.passed(9)
    assert not (tmp_path / hangs.FILE).exists()
    assert _add(tmp_path, _place(8)) == 75


def test_a_record_that_the_chief_removes_meanwhile_is_none(tmp_path, monkeypatch):
    _add(tmp_path, _place(8))
    load_as = strict_json.load_as

    def remove_before(path, type_):
        (tmp_path / hangs.FILE).unlink()
        return load_as(path, type_)

    monkeypatch.setattr(strict_json, "load_as", remove_before)
    assert hangs.HangRecord(str(tmp_path), is_chief=False).step_to_skip is None


def test_a_hang_is_judged_though_its_record_cannot_be_written(tmp_path):
    (tmp_path / hangs.FILE).mkdir()
    with pytest.raises(OSError):
        hangs.HangRecord(str(tmp_path), is_chief=True)
    (tmp_path / hangs.FILE).rmdir()
    record = hangs.HangRecord(str(tmp_path), is_chief=True)
    (tmp_path / hangs.FILE).mkdir()
    assert record.add(_place(8), False)[0] == 75
    assert record.add(_place(8), False)[0] == 1


def test_a_damaged_record_of_a_hang_is_named(tmp_path):
    (tmp_path / hangs.FILE).write_text('{"name": "step 3"}')
    with pytest.raises(ValueError, match="hang.json: .* must have step; .*Remove it"):
        hangs.HangRecord(str(tmp_path), is_chief=True)
