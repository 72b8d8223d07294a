"""A run that is stopped anywhere and resumes equals one that was not, bitwise."""

import itertools
import os
import random
import signal

import pytest

from albert_tf.checkpoints import checkpointer
from albert_tf.training import pretraining
from tests.support import small_run
from tests.support import training_processes as processes

# Everything that is random is on, and rows, evaluations and checkpoints do not fall
# together.
SETTINGS = (
    "data.masking=dynamic",
    "data.dupe_factor=1",
    "model.hidden_dropout_rate=0.1",
    "model.attention_dropout_rate=0.1",
    "model.num_layers=1",
    "train.num_steps=2400",
    "train.steps_per_loop=50",
    "train.save_every_steps=35",
    "train.eval_every_steps=700",
    "train.keep_checkpoints=2",
    "optimizer.warmup_steps=100",
    "optimizer.learning_rate=0.002",
)


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory):
    return small_run.write_records(tmp_path_factory.mktemp("small"), *SETTINGS)


@pytest.fixture(scope="module")
def whole(data_dir, tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole") / "run"
    pretraining.train(small_run.small_config(*SETTINGS), str(data_dir), str(folder))
    return folder


def _assert_bitwise_equal(whole, other):
    expected, found = processes.variables(whole), processes.variables(other)
    assert processes.largest_difference(expected, found) == 0.0
    assert processes.computed_rows(whole) == processes.computed_rows(other)
    best = [(run / checkpointer.BEST_FILE).read_text() for run in (whole, other)]
    assert best[0] == best[1]


def _train(data_dir, model_dir):
    """What a process does that may be killed at any moment."""
    pretraining.train(small_run.small_config(*SETTINGS), str(data_dir), str(model_dir))


# `make test-faults` kills runs at fifty moments.
@pytest.mark.slow
def test_a_run_killed_at_eight_random_moments_ends_in_the_same_bytes(
    data_dir, whole, tmp_path
):
    rng = random.Random(20)
    model_dir = tmp_path / "run"
    num_killed, steps = 0, []
    for attempt in itertools.count():
        process = processes.forkserver().Process(
            target=_train, args=(data_dir, model_dir)
        )
        process.start()
        try:
            if num_killed < 8:
                # From its start on, and more often while it trains and saves.
                if attempt % 4:
                    processes.wait_for_step(model_dir, steps[-1] + 35 if steps else 0)
                process.join(timeout=rng.uniform(0.0, 0.4 if attempt % 4 else 6.0))
            else:
                process.join(timeout=processes.TIMEOUT)
        finally:
            if process.is_alive():
                process.kill()
                num_killed += 1
            process.join()
        if process.exitcode == 0:
            break
        assert process.exitcode == -signal.SIGKILL
        steps.append(processes.newest_step(model_dir))
    assert num_killed == 8 and len(set(steps)) > 4, steps
    _assert_bitwise_equal(whole, model_dir)


@pytest.mark.slow
def test_a_run_that_is_asked_to_end_saves_within_a_loop_and_goes_on(
    data_dir, whole, tmp_path
):
    words = processes.command(data_dir, tmp_path / "run", SETTINGS)
    steps = [0]
    stops = ((signal.SIGTERM, 75), (signal.SIGINT, 130), (signal.SIGTERM, 75))
    for number, code in stops:
        with processes.running([words], tmp_path / "log") as started:
            processes.wait_for_step(tmp_path / "run", steps[-1] + 35)
            os.kill(started[0].pid, number)
            assert processes.exit_codes(started) == [code]
        steps.append(processes.newest_step(tmp_path / "run"))
        said = (tmp_path / "log" / "0.err").read_text().splitlines()[-1]
        expected = f"asked to end: saved at step {steps[-1]}; the same command resumes"
        assert said == expected
    assert any(step % 35 and step % 50 for step in steps), steps
    _train(data_dir, tmp_path / "run")
    _assert_bitwise_equal(whole, tmp_path / "run")
