"""Training in float16: the scale of the loss, and the steps skipped for it."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.checkpoints import checkpointer
from albert_tf.core import config, config_io
from albert_tf.devices import strategies
from albert_tf.model import compute, pretraining_model
from albert_tf.planning import step_export
from albert_tf.serving import load
from albert_tf.training import (
    compute_dtype,
    loss_scale,
    metrics_log,
    objectives,
    pretraining,
    train_step,
)
from tests.support import linear_run, small_run
from tests.support import training_processes as processes

_NUM_STEPS = 12
# Its gradients are too large at a scale of 2**13; those of the other steps are not.
_LARGE = 4
_SETTINGS = config.OptimizerConfig(
    name="lamb",
    learning_rate=0.1,
    warmup_steps=2,
    bias_correction=True,
    exclude_patterns=("bias",),
)
_RNG = np.random.default_rng(7)
_X = _RNG.normal(size=(_NUM_STEPS, 8, 3))
_Y = _RNG.normal(size=(_NUM_STEPS, 8))
_X[_LARGE] *= 4.0


class _Run(linear_run.Run):
    """Three good steps in a row double the scale."""

    def __init__(self, first_scale=2.0**12, **options):
        self.scale = loss_scale.LossScale(growth_steps=3)
        self.scale.loss_scale.assign(first_scale)
        super().__init__(
            _SETTINGS, _NUM_STEPS, scale=self.scale, max_loss_rise=1e6, **options
        )

    def take(self, first, end, x=_X):
        return self.train({"x": x[first:end], "y": _Y[first:end]})

    def everything(self):
        """Weights, slots and averages by name."""
        values = (*self.model.variables, *self.adam.variables)
        return {value.name: value.numpy() for value in values}

    def scales(self):
        return tuple(
            getattr(self.scale, name).numpy().item() for name in loss_scale.CARRIED
        )


def test_an_overflow_halves_the_scale_and_changes_nothing_else():
    run = _Run(ema_decay=0.9)
    run.take(0, _LARGE)
    assert run.scales() == (2.0**13, 1, 0)
    before, averages = run.everything(), run.averages()
    norm, mean = float(run.state.gradient_norm), float(run.state.mean_loss)
    run.take(_LARGE, _LARGE + 1)
    assert run.scales() == (2.0**12, 0, 1)
    assert int(run.state.num_skipped) == 0
    assert float(run.state.gradient_norm) == norm
    assert float(run.state.mean_loss) == mean
    for name, value in run.everything().items():
        if "iteration" in name:
            assert value == _LARGE + 1  # the schedule counts it
        else:
            np.testing.assert_array_equal(value, before[name], err_msg=name)
    for name, value in run.averages().items():
        np.testing.assert_array_equal(value, averages[name], err_msg=name)
    run.take(_LARGE + 1, _LARGE + 4)
    assert run.scales() == (2.0**13, 0, 1)


def test_steps_skipped_for_an_overflow_do_not_count_as_taken():
    """Bias correction is that of the same steps without the one that overflowed."""
    run, reference = _Run(), _Run(2.0**4)
    run.take(0, _NUM_STEPS)
    reference.take(0, _LARGE)
    # As if the step was bad.
    reference.adam.iterations.assign_add(1)
    reference.state.num_skipped.assign(1)
    reference.take(_LARGE + 1, _NUM_STEPS)
    assert run.scales()[2] == 1 and reference.scales()[2] == 0
    # Clipping and LAMB would hide a gradient that is still scaled.
    norms = [float(one.state.gradient_norm) for one in (run, reference)]
    assert norms[0] == pytest.approx(norms[1], rel=1e-3)
    for name, value in run.weights().items():
        # The scales differ, which changes what float16 rounds to zero.
        np.testing.assert_allclose(value, reference.weights()[name], atol=1e-6)


def test_a_bad_step_is_no_overflow():
    run = _Run(max_skipped=1)
    x = _X.copy()
    x[1] = np.nan
    run.take(0, 3, x)
    assert run.scales() == (2.0**12, 2, 0)
    assert int(run.state.num_skipped) == 1


def test_at_the_least_scale_a_gradient_that_is_not_finite_is_bad():
    run = _Run(2.0, max_skipped=1)
    x, y = _X[:2].copy(), _Y[:2] * 1e4
    x *= 100.0  # the loss is finite, its gradients are too large for float16
    run.train({"x": x, "y": y})
    assert run.scales() == (1.0, 0, 1)
    assert int(run.state.num_skipped) == 1


def test_a_run_that_resumes_equals_one_not_interrupted(tmp_path):
    whole, first, resumed = _Run(), _Run(), _Run(2.0**3)
    whole.take(0, _NUM_STEPS)
    first.take(0, 5)
    path = first.checkpoint.write(str(tmp_path / "checkpoint"))
    resumed.checkpoint.read(path).assert_consumed()
    assert resumed.scales() == first.scales()
    resumed.take(5, _NUM_STEPS)
    assert resumed.scales() == whole.scales()
    assert whole.scales()[2] > 0
    for name, value in whole.everything().items():
        np.testing.assert_array_equal(resumed.everything()[name], value, name)


def _train_on_two_devices(path):
    strategies.split_cpu(2)
    run = _Run(strategy=strategies.create_strategy("mirrored"))
    np.savez(path, scales=run.scales(), **run.take(0, _NUM_STEPS))
    np.savez(path, **run.weights(), scales=run.scales())


@pytest.mark.slow
def test_two_devices_scale_as_one_does(tmp_path):
    one = _Run()
    expected = one.take(0, _NUM_STEPS)
    path = tmp_path / "variables.npz"
    process = processes.forkserver().Process(target=_train_on_two_devices, args=(path,))
    process.start()
    assert processes.exit_codes([process]) == [0]
    found = dict(np.load(path))
    assert tuple(found.pop("scales")) == one.scales()
    for name, value in expected.items():
        # The two sums of each gradient are rounded to float16.
        np.testing.assert_allclose(found[name], value, atol=2e-3, err_msg=name)


# ---- The model ----

_CONFIG = small_run.small_config("model.num_layers=1", "train.jit_compile=off")


def _gradients(dtype, scale):
    model = pretraining_model.build_pretraining_model(
        _CONFIG.model, 1, compute.Compute(dtype)
    )
    rng = np.random.default_rng(0)
    ids, positions = rng.integers(5, 4000, (3, 24)), rng.integers(0, 24, (3, 4))
    features = {
        "input_ids": ids,
        "input_mask": np.ones((3, 24)),
        "segment_ids": rng.integers(0, 2, (3, 24)),
        "masked_lm_positions": np.sort(positions, axis=1),
        "masked_lm_ids": rng.integers(5, 4000, (3, 4)),
        "next_sentence_labels": [0, 1, 1],
    }
    batch = {name: tf.constant(value, tf.int32) for name, value in features.items()}
    batch["masked_lm_weights"] = tf.ones([3, 4])
    objective = objectives.PretrainingObjective("sop")
    # As of a batch of 4,096 sequences, for which each gradient is small.
    weights = [1365.0 * weight for weight in objective.weights(batch)]
    gradients, _ = train_step.compute_gradients(
        objective, model, batch, None, *weights, scale=scale
    )
    return {
        variable.name: gradient.numpy() / (scale or 1.0)
        for variable, gradient in zip(model.trainable_variables, gradients, strict=True)
    }


def _relative_errors(found, expected):
    norms = {name: np.linalg.norm(value) for name, value in expected.items()}
    largest = max(norms.values())
    return {
        name: np.linalg.norm(found[name] - value) / norms[name]
        for name, value in expected.items()
        if norms[name] > 1e-4 * largest  # a key's bias has none but for rounding
    }


def test_scaled_gradients_are_those_of_float32_but_for_rounding():
    expected = _gradients("float32", None)
    scaled = _relative_errors(_gradients("float16", 2.0**15), expected)
    # float16 has 11 bits; a gradient passes through some ten products.
    assert len(scaled) > 20 and max(scaled.values()) < 5e-3
    # Without a scale the small ones are lost.
    bare = _relative_errors(_gradients("float16", None), expected)
    assert max(bare.values()) > 10 * max(scaled.values())


def test_the_exported_step_takes_the_scale():
    float16 = config_io.override(_CONFIG, ["train.compute_dtype=float16"])
    step, program = step_export.lower(step_export.make_trainer(float16, 3))
    (argument,) = (one for one in step.arguments if one.name == "loss_scale")
    assert (argument.dtype, argument.shape, argument.fill) == ("float32", (), 32768.0)
    assert "is_overflow" in [one.name for one in step.outputs]
    assert "xf16>" in program and "dot_general" in program


# ---- A run ----


def test_a_run_records_scale_and_overflows_and_is_served_in_float32(tmp_path, capsys):
    data_dir = small_run.write_records(tmp_path / "records")
    settings = small_run.small_config(
        "model.num_layers=1",
        "train.compute_dtype=float16",
        "train.loss_scale_steps=4",
        "train.num_steps=8",
        "train.steps_per_loop=4",
    )
    model_dir = str(tmp_path / "run")
    pretraining.train(settings, str(data_dir), model_dir)
    said = capsys.readouterr().err
    advice = compute_dtype.check("float16", strategies.create_strategy())
    assert advice.startswith("float16 is slow on a CPU: use train.compute_dtype=")
    assert advice in said
    rows = [r for r in metrics_log.read_metrics(model_dir) if r["split"] == "train"]
    assert [row["step"] for row in rows] == [4, 6, 8]
    assert [row["skipped_steps"] for row in rows] == [0, 0, 0]
    last = rows[-1]
    assert last["loss_scale"] in {2.0**n for n in range(10, 18)}
    assert last["loss_scale"] != 2.0**15 or last["overflow_steps"] > 0
    assert np.isfinite(last["mlm_loss"])
    read, _ = load.read_run(model_dir)
    assert read.train.compute_dtype == "float32"
    other = dataclasses.replace(settings.train, compute_dtype="float32", num_steps=9)
    with pytest.raises(ValueError, match="has a loss scale, which this run would lose"):
        trainer = pretraining.make_trainer(
            dataclasses.replace(settings, train=other), model_dir
        )
        trainer.restore()
    assert checkpointer.LOSS_SCALE == "loss_scale"
