"""What no loss reaches keeps its value, whatever the weight decay."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.core import config
from albert_tf.optim import optimizers
from tests.support import linear_run

_RNG = np.random.default_rng(6)
_X, _Y = _RNG.normal(size=(9, 8, 3)), _RNG.normal(size=(9, 8))


def _run(name="lamb", compiled=False):
    settings = config.OptimizerConfig(
        name=name,
        learning_rate=0.01,
        warmup_steps=0,
        decay="constant",
        exclude_patterns=("bias",),
    )
    return linear_run.Run(settings, 9, compiled=compiled)


def _features(steps, z=None):
    features = {"x": _X[steps], "y": _Y[steps]}
    return features if z is None else {**features, "z": np.full_like(_Y[steps], z)}


@pytest.mark.parametrize(
    ("name", "compiled"), [("lamb", False), ("lamb", True), ("adamw", False)]
)
def test_a_variable_keeps_its_value_until_its_first_gradient(name, compiled):
    run = _run(name, compiled)
    found = run.train(_features(slice(0, 4), z=0.0))
    np.testing.assert_array_equal(found["spare"], linear_run.SPARE)
    assert np.all(found["kernel"] != linear_run.KERNEL)
    for slot in run.adam.slots_of(run.model.spare):
        np.testing.assert_array_equal(slot, [[0.0, 0.0]])
    moved = run.train(_features(slice(4, 5), z=1e-3))["spare"]
    assert np.all(moved != linear_run.SPARE)
    # From then on it is trained and decayed as any variable is.
    m = run.adam.slots_of(run.model.spare).m.numpy()
    assert np.all(run.train(_features(slice(5, 6), z=0.0))["spare"] != moved)
    found = run.adam.slots_of(run.model.spare).m
    np.testing.assert_allclose(found, 0.9 * m, rtol=1e-6)


def test_what_no_loss_reaches_is_named_and_has_no_trust_ratio():
    run = _run()
    variables = run.model.trainable_variables

    def ratios():
        found = run.adam.trust_ratios(variables)
        return {name: float(value) for name, value in found.items()}

    assert run.adam.describe_unreached(variables) == ""  # before the first step
    # The loss does not even depend on it: its gradient would be None.
    found = run.train(_features(slice(0, 3)))
    np.testing.assert_array_equal(found["spare"], linear_run.SPARE)
    assert run.adam.describe_unreached(variables) == (
        "lamb: of 6 parameters 2 are reached by no loss and stay as they are: spare"
    )
    assert ratios()["kernel"] > 0.0 and ratios()["spare"] == 0.0
    run.train(_features(slice(3, 4), z=1e-3))
    assert run.adam.describe_unreached(variables) == ""
    assert ratios()["spare"] > 0.0


def test_a_row_without_gradient_is_decayed_with_its_matrix_as_in_the_original():
    settings = config.OptimizerConfig(
        name="lamb",
        learning_rate=0.01,
        warmup_steps=0,
        decay="constant",
        bias_correction=True,
        exclude_patterns=(),
    )
    adam = optimizers.create(settings, 5)
    matrix = tf.Variable([[3.0, 4.0], [6.0, 8.0]])
    adam.build([matrix])
    adam.apply_gradients([(tf.constant([[0.3, 0.4], [0.0, 0.0]]), matrix)])
    # Corrected, the first update is the sign of the gradient, plus decay.
    update = np.array([[1.03, 1.04], [0.06, 0.08]])
    ratio = np.sqrt(9 + 16 + 36 + 64) / np.linalg.norm(update)
    expected = np.array([6.0, 8.0]) * (1.0 - 0.01 * ratio * 0.01)
    np.testing.assert_allclose(matrix[1], expected, rtol=1e-6)
