"""Muon orthogonalizes the steps of dense layers and is AdamW for all else."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.core import config as config_lib
from albert_tf.model import pretraining_model
from albert_tf.optim import optimizers, orthogonal

_RATE, _DECAY = 0.1, 0.01


def _create(name: str, compiled: bool = False):
    settings = config_lib.OptimizerConfig(
        name=name,
        learning_rate=_RATE,
        decay="constant",
        warmup_steps=0,
        weight_decay_rate=_DECAY,
        bias_correction=True,
        exclude_patterns=("bias",),
    )
    return optimizers.create(settings, 10, compiled)


def _variables() -> list[tf.Variable]:
    rng = np.random.default_rng(3)
    shapes = {
        "dense/kernel": (5, 3),
        "wide/kernel": (3, 7),
        "word_embeddings": (11, 3),
        "dense/bias": (3,),
    }
    return [
        tf.Variable(rng.normal(size=shape), name=name, dtype=tf.float32)
        for name, shape in shapes.items()
    ]


def _gradients(number: int) -> list[tf.Tensor]:
    rng = np.random.default_rng(number)
    return [tf.constant(rng.normal(size=v.shape), tf.float32) for v in _variables()]


@pytest.mark.parametrize("shape", [(5, 3), (3, 7), (4, 4)])
@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 1e-5), ("bfloat16", 0.1)])
def test_singular_vectors_stay_and_singular_values_become_about_one(
    shape, dtype, tolerance
):
    matrix = np.random.default_rng(1).normal(size=shape).astype(np.float32)
    left, values, right = np.linalg.svd(matrix, full_matrices=False)
    assert values.max() / values.min() > 1.5
    found = orthogonal.orthogonalize(tf.constant(1e-7 * matrix), dtype).numpy()
    inner = left.T @ found @ right.T
    np.testing.assert_allclose(inner - np.diag(np.diag(inner)), 0, atol=tolerance)
    # The range that the polynomial has on the interval that it is made for.
    assert (np.diag(inner) > 0.65).all() and (np.diag(inner) < 1.2).all()


def test_a_matrix_of_zeros_stays():
    found = orthogonal.orthogonalize(tf.zeros([3, 5]))
    np.testing.assert_array_equal(found, np.zeros([3, 5]))


@pytest.mark.parametrize(("index", "longest"), [(0, 5), (1, 7)])
def test_the_step_of_a_kernel_is_the_orthogonal_mean_as_large_as_adamws(index, longest):
    muon, variables = _create("muon"), _variables()
    kernel = variables[index]
    muon.build(variables)
    mean, expected = np.zeros(kernel.shape), kernel.numpy()
    for number in range(3):
        gradients, before = _gradients(number), kernel.numpy()
        mean = 0.9 * mean + 0.1 * gradients[index].numpy()
        # Liu et al. (2025): 0.2 sqrt(max(rows, columns)).
        step = orthogonal.orthogonalize(tf.constant(mean, tf.float32)).numpy()
        step = 0.2 * longest**0.5 * step + _DECAY * expected
        expected = expected - _RATE * step
        muon.apply_gradients(zip(gradients, variables, strict=True))
        np.testing.assert_allclose(kernel, expected, atol=1e-6)
        change = (kernel.numpy() - before) / -_RATE - _DECAY * before
        assert 0.2 * 0.65 < np.sqrt(np.mean(change**2)) < 0.2 * 1.2
    assert muon.trust_ratios([kernel]) == {}


def test_embeddings_and_biases_are_updated_as_by_adamw():
    found, expected = _variables(), _variables()
    muon, adamw = _create("muon"), _create("adamw")
    muon.build(found)
    adamw.build(expected)
    for number in range(3):
        for adam, variables in ((muon, found), (adamw, expected)):
            adam.apply_gradients(zip(_gradients(number), variables, strict=True))
    for number in (2, 3):
        np.testing.assert_array_equal(found[number], expected[number])
    for number in (0, 1):
        assert np.abs(found[number] - expected[number]).max() > 1e-2


def test_compiled_updates_are_the_same_and_keep_what_is_not_finite():
    plain, compiled = _variables(), _variables()
    for is_compiled, variables in ((False, plain), (True, compiled)):
        muon = _create("muon", is_compiled)
        muon.build(variables)
        for number in range(3):
            muon.apply_gradients(zip(_gradients(number), variables, strict=True))
        before = variables[0].numpy()
        bad = [tf.fill(v.shape, np.nan) for v in variables]
        muon.apply_gradients(zip(bad, variables, strict=True))
        np.testing.assert_array_equal(variables[0], before)
    for one, other in zip(plain, compiled, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)


def test_the_matrices_of_dense_layers_are_orthogonalized_and_no_others():
    model = pretraining_model.build_pretraining_model(
        config_lib.ModelConfig(
            vocab_size=11, embedding_size=4, hidden_size=6, num_layers=2, num_heads=2
        ),
        seed=1,
    )
    muon = optimizers.create(
        config_lib.OptimizerConfig(name="muon", warmup_steps=0), 10
    )
    muon.build(model.trainable_variables)
    rules = {v.name: muon.update_rule(v) for v in model.trainable_variables}
    names = {name for name, rule in rules.items() if rule.is_orthogonal}
    assert names == {name for name in rules if name.endswith("kernel:0")}
    # Four of attention, two of feed-forward; projection, pooler, and the two heads'.
    assert len(names) == 4 + 2 + 4


def test_products_have_the_dtype_of_the_model_but_for_float16():
    dtypes = {
        name: optimizers.create(
            config_lib.OptimizerConfig(name="muon", warmup_steps=0),
            10,
            compute_dtype=name,
        ).matrix_dtype
        for name in ("float32", "bfloat16", "float16")
    }
    assert dtypes == {
        "float32": "float32",
        "bfloat16": "bfloat16",
        "float16": "float32",
    }
