"""What no loss reaches keeps its value, whatever the weight decay."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.optim import optimizers

_INITIAL = {"kernel": [[3.0, 4.0], [6.0, 8.0]], "spare": [[1.0, -2.0]], "bias": [0.5]}
_RATE = 0.01


def _run(optimizer_class, compiled=False):
    variables = [tf.Variable(value, name=name) for name, value in _INITIAL.items()]
    adam = optimizer_class(
        learning_rate=_RATE,
        weight_decay_rate=0.01,
        beta_1=0.9,
        beta_2=0.999,
        epsilon=1e-6,
        bias_correction=True,
        exclude_patterns=("bias",),
        compiled=compiled,
    )
    adam.build(variables)
    return adam, variables


def _step(adam, variables, spare=0.0):
    gradients = [[[0.3, 0.1], [0.2, 0.4]], [[spare, 0.0]], [0.7]]
    adam.apply_gradients(zip(map(tf.constant, gradients), variables, strict=True))


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("optimizer_class", [optimizers.Lamb, optimizers.AdamW])
def test_a_variable_keeps_its_value_until_its_first_gradient(optimizer_class, compiled):
    adam, variables = _run(optimizer_class, compiled)
    kernel, spare, bias = variables
    for _ in range(5):
        before = kernel.numpy(), bias.numpy()
        _step(adam, variables)
        assert np.all(kernel != before[0]) and np.all(bias != before[1])
        np.testing.assert_array_equal(spare, _INITIAL["spare"])
    _step(adam, variables, spare=1e-3)
    moved = spare.numpy()
    assert np.all(moved != _INITIAL["spare"])
    # From then on it is decayed, as any variable is.
    _step(adam, variables)
    assert np.all(spare != moved)


def test_what_no_loss_reaches_is_named_and_has_no_trust_ratio():
    adam, variables = _run(optimizers.Lamb)
    assert adam.describe_unreached(variables) == ""  # before the first step
    _step(adam, variables)
    assert adam.describe_unreached(variables) == (
        "lamb: of 7 parameters 2 are reached by no loss and stay as they are: spare"
    )
    ratios = {name: float(v) for name, v in adam.trust_ratios(variables).items()}
    assert ratios["kernel"] > 0.0 and ratios["spare"] == 0.0
    _step(adam, variables, spare=1e-3)
    assert adam.describe_unreached(variables) == ""
    assert float(adam.trust_ratios(variables)["spare"]) > 0.0


def test_a_row_without_gradient_is_decayed_with_its_matrix_as_in_the_original():
    adam, (kernel, *_) = _run(optimizers.Lamb)
    adam.apply_gradients([(tf.constant([[0.3, 0.4], [0.0, 0.0]]), kernel)])
    # Corrected, the first update is the sign of the gradient, plus decay.
    update = np.array([[1.03, 1.04], [0.06, 0.08]])
    ratio = np.linalg.norm(_INITIAL["kernel"]) / np.linalg.norm(update)
    expected = np.array([6.0, 8.0]) * (1.0 - _RATE * ratio * 0.01)
    np.testing.assert_allclose(kernel[1], expected, rtol=1e-6)
