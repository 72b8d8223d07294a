"""Steps that must not be taken: not finite, exploding; and input that does not come."""

import time

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.data import schema
from albert_tf.training import (
    loops,
    metrics_log,
    objectives,
    pretraining,
    step_log,
    watchdog,
)
from tests.support import small_run
from tests.support import training_processes as processes

_OBJECTIVE = objectives.PretrainingObjective("sop")


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory):
    return small_run.write_records(tmp_path_factory.mktemp("small"))


class _Counter(tf.Module):
    """Stands for the model: a step adds its batch to a variable, unless it is bad."""

    def __init__(self, max_rise=3.0):
        super().__init__()
        self.total = tf.Variable(0.0)
        self._max_rise = max_rise

    def step(self, features, stop, mean_loss, num_skipped):
        del num_skipped
        loss = features["loss"]
        is_bad = ~(tf.math.is_finite(loss) & (loss <= mean_loss + self._max_rise))
        self.total.assign_add(tf.where(is_bad, 0.0, features["loss"]))
        values = dict.fromkeys(objectives.PRETRAINING_SUMS, loss)
        return {
            **values,
            "stop": stop,
            "loss": loss,
            "gradient_norm": 2 * loss,
            "is_bad": tf.cast(is_bad, tf.float32),
        }


def _loop(losses, max_skipped=0, signals=None):
    counter, state = _Counter(), loops.TrainState(_OBJECTIVE)
    loop = loops.make_train_loop(
        tf.distribute.get_strategy(),
        counter.step,
        state,
        signals or loops.Signals(),
        max_skipped,
    )
    features = {"loss": np.array(losses, np.float32)}
    batches = iter(tf.data.Dataset.from_tensor_slices(features))
    outcome = loop(batches, tf.constant(len(losses)))
    return counter, state, {k: v.numpy().item() for k, v in outcome.items()}


@pytest.mark.parametrize("bad", [np.nan, np.inf, 5.5])
def test_a_loop_ends_at_the_step_that_is_bad(bad):
    counter, state, outcome = _loop([2.0, 2.0, bad, 1.0])
    assert outcome["failed"] and outcome["num_steps"] == 3
    assert counter.total.numpy() == 4.0
    assert state.take_sums(3) == (dict.fromkeys(objectives.PRETRAINING_SUMS, 4.0), 3)
    assert float(state.gradient_norm) == 4.0
    np.testing.assert_equal(outcome["bad_loss"], bad)
    np.testing.assert_equal(outcome["bad_norm"], 2 * bad)


def test_bad_steps_are_skipped_up_to_their_number():
    counter, state, outcome = _loop([2.0, np.nan, 2.0, 9.0, 2.0], max_skipped=2)
    assert not outcome["failed"] and outcome["num_steps"] == 5
    assert counter.total.numpy() == 6.0 and int(state.num_skipped) == 2
    _, state, outcome = _loop([2.0, np.nan, 2.0, 9.0, 2.0], max_skipped=1)
    assert outcome["failed"] and outcome["num_steps"] == 4
    assert int(state.num_skipped) == 2


def test_a_loop_of_more_steps_than_the_log_has_rows_counts_all():
    losses = np.linspace(2.0, 3.0, 2 * step_log.NUM_ROWS + 10).tolist()
    bad = losses[: step_log.NUM_ROWS + 3] + [np.nan, 2.0]
    _, whole, outcome = _loop(losses)
    assert outcome["num_steps"] == len(losses) and not outcome["failed"]
    total = sum(np.array(losses, np.float32).tolist())
    assert set(whole.take_sums(1)[0].values()) == {total}
    _, state, outcome = _loop([np.inf, *bad], max_skipped=1)
    assert outcome["failed"] and outcome["num_steps"] == len(bad)
    assert int(state.num_skipped) == 2
    _, state, outcome = _loop([np.inf, *losses], max_skipped=1)
    assert outcome["bad_loss"] == np.inf  # though the last rows have none


def test_an_explosion_is_one_above_the_running_mean():
    _, state, outcome = _loop([2.0, 5.0, 5.0])  # the mean is 2, then 2.03
    assert not outcome["failed"]
    np.testing.assert_allclose(float(state.mean_loss), 2.0597, rtol=1e-6)
    _, _, outcome = _loop([2.0, 5.01])
    assert outcome["failed"] and outcome["num_steps"] == 2


def test_a_loop_that_is_asked_to_end_does_so_after_its_step():
    signals = loops.Signals()
    signals.stop.assign(1.0)
    counter, _, outcome = _loop([2.0, 2.0, 2.0], signals=signals)
    assert outcome["stopped"] and not outcome["failed"]
    assert outcome["num_steps"] == 1 and counter.total.numpy() == 2.0


def test_sums_are_carried_from_loop_to_loop_until_they_are_taken():
    counter, state = _Counter(), loops.TrainState(_OBJECTIVE)
    loop = loops.make_train_loop(
        tf.distribute.get_strategy(), counter.step, state, loops.Signals(), 0
    )
    batches = iter(tf.data.Dataset.from_tensors({"loss": 1.5}).repeat())
    loop(batches, tf.constant(2))
    loop(batches, tf.constant(1))
    assert state.take_sums(103) == (
        dict.fromkeys(objectives.PRETRAINING_SUMS, 4.5),
        103,
    )
    assert state.take_sums(105) == (dict.fromkeys(objectives.PRETRAINING_SUMS, 0.0), 2)


# ---- A whole run ----


def _train(data_dir, model_dir, *overrides):
    config = small_run.small_config(*overrides)
    return pretraining.train(config, str(data_dir), str(model_dir))


def test_a_bad_step_changes_nothing_but_the_step(data_dir, tmp_path):
    """With the loss held below its mean, no step is taken after the first."""
    settings = ("train.max_loss_rise=1e-9", "optimizer.learning_rate=1e-12")
    _train(data_dir, tmp_path, *settings, "train.max_skipped_steps=12")
    first = tf.train.load_checkpoint(str(tmp_path / "model.ckpt-6"))
    last = tf.train.load_checkpoint(str(tmp_path / "model.ckpt-12"))
    num_skipped = [
        int(reader.get_tensor("loop/num_skipped/.ATTRIBUTES/VARIABLE_VALUE"))
        for reader in (first, last)
    ]
    assert 0 < num_skipped[0] < num_skipped[1] < 12
    row = metrics_log.read_metrics(str(tmp_path))[-2]
    assert row["split"] == schema.TRAIN and row["skipped_steps"] == num_skipped[1]
    with pytest.raises(FloatingPointError, match="by more than train.max_loss_rise"):
        _train(data_dir, tmp_path / "other", *settings, "train.max_skipped_steps=1")


def test_a_run_skips_steps_that_are_not_finite(data_dir, tmp_path, capsys):
    """The third step of this rate is not finite, and no later one is."""
    rate = "optimizer.learning_rate=1e30"
    _train(data_dir, tmp_path, rate, "train.max_skipped_steps=12")
    said = capsys.readouterr().err
    assert "2 of the steps 1 to 4 skipped: the loss is nan" in said
    before = tf.train.load_checkpoint(str(tmp_path / "model.ckpt-6"))
    after = processes.variables(tmp_path)
    for name, value in after.items():
        if name.startswith("model/"):
            np.testing.assert_array_equal(value, before.get_tensor(name))
    assert int(after["optimizer/_iterations/.ATTRIBUTES/VARIABLE_VALUE"]) == 12
    rows = metrics_log.read_metrics(str(tmp_path))
    assert [r["skipped_steps"] for r in rows if r["split"] == "train"][-1] == 10
    assert "mlm_loss" not in rows[-2] and rows[-2]["step"] == 12


# ---- Silence ----


def _no_end(place, seconds):
    raise AssertionError(f"{place} is no hang after {seconds} seconds")


def test_a_batch_that_does_not_come_is_reported_and_what_is_slow_is_told_apart():
    signals, said = loops.Signals(), []

    def batches():
        yield {"loss": 1.0}
        yield {"loss": 1.0}
        time.sleep(1.5)
        yield {"loss": 1.0}

    dataset = tf.data.Dataset.from_generator(
        batches, output_signature={"loss": tf.TensorSpec([], tf.float32)}
    )
    counter = _Counter()
    loop = loops.make_train_loop(
        tf.distribute.get_strategy(),
        counter.step,
        loops.TrainState(_OBJECTIVE),
        signals,
        0,
    )
    with watchdog.Watchdog(signals.heartbeat, 0.4, 3600, said.append, _no_end) as watch:
        with watch.steps(41):
            loop(iter(dataset), tf.constant(3))
        time.sleep(0.5)
        num_said = len(said)
        time.sleep(1.0)  # the host is busy with other things: no silence of the loop
        assert len(said) == num_said
    assert any(line.startswith("step 44 has waited for its batch for") for line in said)


def test_a_step_that_does_not_end_is_reported():
    said = []
    heartbeat = tf.Variable(-1, dtype=tf.int64)
    with (
        watchdog.Watchdog(heartbeat, 0.2, 3600, said.append, _no_end) as watch,
        watch.steps(10),
    ):
        time.sleep(0.6)  # before the loop began, nothing is waited for
        assert not said
        heartbeat.assign(5)
        deadline = time.monotonic() + 20.0
        while not said and time.monotonic() < deadline:
            time.sleep(0.05)
    assert said and said[0].startswith("step 13 has been running for")
