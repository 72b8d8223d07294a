"""Every form of the computation gives the same outputs, losses and gradients."""

import functools
import itertools

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.core import config
from albert_tf.devices import strategies
from albert_tf.model import compute as compute_lib
from albert_tf.model import elementwise_ops, pretraining_model, xla_fused_ops
from albert_tf.serving import scaled_weights
from albert_tf.training import losses, objectives, train_step

_OBJECTIVE = objectives.PretrainingObjective("sop")
_BATCH, _LENGTH, _PREDICTIONS, _VOCAB = 3, 7, 5, 53


def _sizes(**changes) -> config.ModelConfig:
    values = {
        "vocab_size": _VOCAB,
        "embedding_size": 6,
        "hidden_size": 10,
        "num_layers": 2,
        "num_heads": 2,
        "intermediate_size": 14,
        "max_positions": 11,
        "initializer_range": 0.3,
    }
    return config.ModelConfig(**{**values, **changes})


def _features() -> dict[str, tf.Tensor]:
    rng = np.random.default_rng(0)
    places = rng.integers(0, _LENGTH, (_BATCH, _PREDICTIONS))
    features = {
        "input_ids": rng.integers(5, _VOCAB, (_BATCH, _LENGTH)),
        "input_mask": np.arange(_LENGTH) < np.array([[7], [4], [6]]),
        "segment_ids": rng.integers(0, 2, (_BATCH, _LENGTH)),
        "masked_lm_positions": places,
        "masked_lm_ids": rng.integers(5, _VOCAB, places.shape),
        "next_sentence_labels": rng.integers(0, 2, _BATCH),
    }
    tensors = {name: tf.constant(v, tf.int32) for name, v in features.items()}
    tensors["masked_lm_weights"] = tf.constant(
        np.arange(_PREDICTIONS) < np.array([[5], [2], [4]]), tf.float32
    )
    return tensors


def _make_run(compute: compute_lib.Compute, jit: bool, **changes):
    """A model, and a graph of its gradients and sums."""
    model = pretraining_model.build_pretraining_model(_sizes(**changes), 1, compute)

    @tf.function(jit_compile=jit, autograph=False)
    def run(features, seed):
        return train_step.compute_gradients(
            _OBJECTIVE, model, features, seed, 11.0, 3.0
        )

    return model, run


@functools.cache
def _gradients(compute: compute_lib.Compute, jit: bool = False, **changes):
    """Gradients by name, and the sums, of one batch."""
    model, run = _make_run(compute, jit, **changes)
    gradients, sums = run(_features(), tf.constant([3, 4]))
    names = [variable.name for variable in model.trainable_variables]
    return dict(zip(names, gradients, strict=True)), sums


def _assert_close(ours, theirs, tolerance: float) -> None:
    for found, expected in zip(ours, theirs, strict=True):
        assert found.keys() == expected.keys()
        for name, value in found.items():
            difference = np.max(np.abs(value - expected[name]))
            assert difference < tolerance, (name, difference)


_FORMS = [
    compute_lib.Compute(fuse_elementwise=on, remat=remat)
    for on, remat in itertools.product((False, True), config.REMATS)
]


@pytest.mark.parametrize("dropout_rate", [0.0, 0.4])
@pytest.mark.parametrize("compute", _FORMS[1:], ids=str)
def test_gradients_are_equal_in_all_forms(compute, dropout_rate):
    # Without rates it is what other tests compute too.
    names = ("hidden_dropout_rate", "attention_dropout_rate") if dropout_rate else ()
    rates = dict.fromkeys(names, dropout_rate)
    plain = _gradients(compute_lib.DEFAULT, **rates)
    _assert_close(_gradients(compute, **rates), plain, 1e-5)


def test_gradients_are_equal_where_xla_compiles_the_whole():
    compiled = _gradients(compute_lib.DEFAULT, jit=True)
    _assert_close(compiled, _gradients(compute_lib.DEFAULT), 1e-5)


def test_recomputation_draws_the_same_masks_where_xla_compiles_the_whole():
    rates = {"hidden_dropout_rate": 0.4, "attention_dropout_rate": 0.4}
    kept, recomputed = (
        _gradients(compute_lib.Compute(remat=remat), jit=True, **rates)
        for remat in ("none", "block")
    )
    _assert_close(recomputed, kept, 1e-5)


def test_xla_does_not_merge_what_is_recomputed():
    def num_products(remat):
        _, run = _make_run(compute_lib.Compute(remat=remat), jit=True)
        lower = run.experimental_get_compiler_ir(_features(), tf.constant([3, 4]))
        return lower(stage="optimized_hlo").count(" dot(")

    kept = num_products("none")
    # In each of two layers three projections, scores, context and output, and the two
    # products of the feed-forward part.
    assert num_products("attention") == kept + 2 * 6
    assert num_products("block") == kept + 2 * 8


@pytest.mark.parametrize(
    "value", [0.0, -0.0, 1.5, -3e38, float("inf"), float("-inf"), float("nan")]
)
@pytest.mark.parametrize("jit_compile", [False, True])
def test_what_recomputation_waits_for_changes_nothing(value, jit_compile):
    wait = tf.function(compute_lib.zero_after, jit_compile=jit_compile)
    for shape in ([2, 3, 4], [0, 3, 4]):
        assert not wait(tf.fill(shape, tf.constant(value, tf.bfloat16)))


@pytest.mark.parametrize("remat", ["attention", "block"])
@pytest.mark.parametrize("num_rows", [0, 2])
@pytest.mark.parametrize("is_frozen", [False, True])
def test_recomputation_in_a_loop_of_ones_own(remat, num_rows, is_frozen):
    """Eager, from a gathered output, also of a frozen block or of no row."""

    def gradient(compute):
        model = pretraining_model.build_pretraining_model(_sizes(), 1, compute)
        blocks = model.encoder.blocks
        for block in blocks:
            block.trainable = not is_frozen
        names = "input_ids", "input_mask", "segment_ids"
        ids, mask, segments = (_features()[name][:num_rows] for name in names)
        with tf.GradientTape() as tape:
            output = model.encoder(ids, mask, segments).sequence_output
            chosen = tf.gather(output, tf.range(num_rows))
            loss = tf.reduce_sum(chosen * chosen * tf.range(10.0))
        table = model.trainable_variables[0]
        return tf.convert_to_tensor(tape.gradient(loss, table)).numpy()

    recomputed = gradient(compute_lib.Compute(remat=remat))
    assert np.any(recomputed) == bool(num_rows)
    np.testing.assert_allclose(recomputed, gradient(compute_lib.DEFAULT), atol=1e-4)


@pytest.mark.parametrize(
    ("sharing", "activation"),
    [
        ("all", "relu"),
        ("attention", "gelu_exact"),
        ("feed_forward", "relu"),
        ("none", "gelu_exact"),
    ],
)
def test_gradients_are_equal_for_every_sharing_and_activation(sharing, activation):
    changes = {"sharing": sharing, "activation": activation, "num_inner_groups": 2}
    plain = _gradients(compute_lib.DEFAULT, **changes)
    compute = compute_lib.Compute(fuse_elementwise=True, remat="block")
    _assert_close(_gradients(compute, **changes), plain, 2e-5)


@pytest.mark.parametrize("remat", config.REMATS)
def test_bfloat16_forms_differ_by_rounding_alone(remat):
    exact, exact_sums = _gradients(compute_lib.DEFAULT)
    compute = compute_lib.Compute("bfloat16", fuse_elementwise=True, remat=remat)
    rounded, rounded_sums = _gradients(compute)
    assert abs(rounded_sums["mlm_loss"] / exact_sums["mlm_loss"] - 1.0) < 0.02
    total = np.concatenate([np.ravel(value) for value in exact.values()])
    other = np.concatenate([np.ravel(value) for value in rounded.values()])
    cosine = total @ other / np.linalg.norm(total) / np.linalg.norm(other)
    assert 0.99 < cosine < 1.0 - 1e-9


def test_recomputing_a_block_runs_its_products_again_in_the_backward_pass():
    def num_products(remat):
        compute = compute_lib.Compute(remat=remat)
        model = pretraining_model.build_pretraining_model(_sizes(), 1, compute)
        run = tf.function(
            lambda features: train_step.compute_gradients(
                _OBJECTIVE, model, features, None, 11.0, 3.0
            ),
            autograph=False,
        )
        graph = run.get_concrete_function(_features()).graph
        kinds = [operation.type for operation in graph.get_operations()]
        return sum("MatMul" in kind for kind in kinds)

    none, attention, block = map(num_products, config.REMATS)
    # Two layers: query, key, value, scores, context, output; and two more.
    assert attention - none == 2 * 6
    assert block - none == 2 * 8


# ---- The pieces ----


def test_activations_are_what_their_names_say():
    inputs, bias = tf.constant([[-1.0, 0.5, 2.0]]), tf.constant([0.0, 0.5, -1.0])

    def activate(name):
        return elementwise_ops.biased_activation(inputs, bias, name)[0].numpy()

    # x * Phi(x) at -1, 1, 1; Phi(1) = 0.8413447.
    exact = np.array([-0.1586553, 0.8413447, 0.8413447])
    np.testing.assert_allclose(activate("gelu_exact"), exact, atol=1e-6)
    # 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))).
    tanh = np.array([-0.1588080, 0.8411920, 0.8411920])
    np.testing.assert_allclose(activate("gelu_tanh"), tanh, atol=1e-6)
    np.testing.assert_array_equal(activate("relu"), [0.0, 1.0, 1.0])


@pytest.mark.parametrize("dtype", [tf.float32, tf.bfloat16])
def test_the_fused_softmax_equals_the_plain_one(dtype):
    rng = np.random.default_rng(1)
    scores = tf.cast(rng.normal(0, 30, (3, 2, 5, 7)), dtype)
    bias = tf.constant([[0.0] * 7, [0.0] * 4 + [-1e4] * 3, [-1e4] * 7])[:, None, None]

    def run(softmax):
        with tf.GradientTape() as tape:
            tape.watch(scores)
            probabilities = softmax(scores, bias, 0.25)
            loss = tf.reduce_sum(tf.cast(probabilities, tf.float32)[..., :2] ** 2)
        return probabilities, tape.gradient(loss, scores)

    (ours, gradient), (plain, expected) = (
        run(xla_fused_ops.softmax),
        run(elementwise_ops.softmax),
    )
    assert ours.dtype == plain.dtype == gradient.dtype == expected.dtype == dtype
    # In bfloat16 they may round to neighbouring values, 2**-7 apart at most.
    relative = 0.0 if dtype == tf.float32 else 2**-7
    np.testing.assert_allclose(
        tf.cast(ours, tf.float32), tf.cast(plain, tf.float32), relative, 1e-6
    )
    tolerance = 1e-6 if dtype == tf.float32 else 1e-2
    assert np.max(np.abs(gradient - expected)) < tolerance
    assert np.all(run(xla_fused_ops.softmax)[0][1, ..., 4:] == 0.0)


@pytest.mark.parametrize("magnitude", [0.01, 1.0, 100.0])
def test_the_fused_cross_entropy_equals_the_plain_one(magnitude):
    rng = np.random.default_rng(2)
    scores = tf.constant(rng.normal(0, magnitude, (11, 1001)), tf.float32)
    bias = tf.constant(rng.normal(0, magnitude, 1001), tf.float32)
    best = tf.argmax(scores + bias, -1, tf.int32)
    labels = tf.where(np.arange(11) % 2 == 0, best, (best + 17) % 1001)
    upstream = tf.constant(rng.uniform(0, 1, 11), tf.float32)

    def run(cross_entropy):
        with tf.GradientTape() as tape:
            tape.watch([scores, bias])
            found, is_right = cross_entropy(scores, bias, labels)
            loss = tf.reduce_sum(found * upstream)
        return found, is_right, *tape.gradient(loss, [scores, bias])

    ours, plain = run(xla_fused_ops.cross_entropy), run(elementwise_ops.cross_entropy)
    np.testing.assert_array_equal(ours[1], np.arange(11) % 2 == 0)
    np.testing.assert_array_equal(plain[1], ours[1])
    for one, other in zip(ours, plain, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "cross_entropy", [xla_fused_ops.cross_entropy, elementwise_ops.cross_entropy]
)
def test_of_equal_scores_the_first_is_the_answer(cross_entropy):
    scores = tf.constant([[1.0, 3.0, 3.0, 3.0]] * 4, tf.bfloat16)
    _, is_right = cross_entropy(scores, tf.zeros([4]), tf.constant([0, 1, 2, 3]))
    np.testing.assert_array_equal(is_right, [0.0, 1.0, 0.0, 0.0])


def test_the_loss_is_not_finite_where_a_score_is_not():
    scores = tf.constant([[0.0, np.nan, 1.0], [0.0, -np.nan, 1.0], [0.0, np.inf, 1.0]])
    found, _ = xla_fused_ops.cross_entropy(
        scores, tf.zeros([3]), tf.constant([0, 0, 0])
    )
    assert not np.any(np.isfinite(found))


def test_a_label_outside_of_the_vocabulary_gives_no_number():
    labels = tf.constant([2, 3, -1])
    found, is_right = xla_fused_ops.cross_entropy(
        tf.zeros([3, 3]), tf.zeros([3]), labels
    )
    np.testing.assert_array_equal(np.isfinite(found), [True, False, False])
    np.testing.assert_array_equal(is_right[1:], [0.0, 0.0])


def test_row_maxima_are_exact_for_floats_of_every_sign_and_size():
    rng = np.random.default_rng(3)
    bits = rng.integers(0, 1 << 32, (200, 37), dtype=np.uint32)
    values = bits.view(np.float32)
    values = np.where(np.isnan(values), np.float32(-0.0), values)
    values[0], values[1], values[2, :3] = -np.inf, -0.0, np.inf
    largest = values.max(-1, keepdims=True)
    np.testing.assert_array_equal(
        xla_fused_ops._row_maximum(tf.constant(values)), largest
    )
    found, place = xla_fused_ops._row_best(tf.constant(values))
    np.testing.assert_array_equal(found, largest)
    np.testing.assert_array_equal(place[3:], values[3:].argmax(-1))


def test_a_fused_function_is_traced_once_for_a_shape_and_all_callers():
    num_traces = 0

    def doubled(values):
        nonlocal num_traces
        num_traces += 1
        return 2.0 * values

    for length in (3, 3, 4, 3):
        found = xla_fused_ops.compiled(doubled)(tf.ones([length]))
        np.testing.assert_array_equal(found, [2.0] * length)
    assert num_traces == 2


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_nothing_is_fused_where_shapes_are_not_static(dtype):
    model = pretraining_model.build_pretraining_model(
        _sizes(), 1, compute_lib.Compute(dtype, True)
    )
    plain = pretraining_model.build_pretraining_model(
        _sizes(), 1, compute_lib.Compute(dtype)
    )
    ids = tf.TensorSpec([None, None], tf.int32)

    def run(model, *inputs):
        call = tf.function(
            lambda *ids: model.encoder(*ids).sequence_output,
            input_signature=[ids] * 3,
            autograph=False,
        )
        return call(*inputs)

    names = ("input_ids", "input_mask", "segment_ids")
    inputs = [_features()[name] for name in names]
    np.testing.assert_array_equal(run(model, *inputs), run(plain, *inputs))


@pytest.mark.parametrize(
    ("devices", "jit_compile", "whole", "is_fused"),
    [
        ((), "auto", False, True),
        ((), "on", True, False),
        ((), "off", False, False),
        (("GPU",), "auto", True, False),
        (("GPU",), "off", False, False),
        # On a TPU everything goes through XLA anyway.
        (("TPU",), "auto", False, False),
    ],
)
def test_the_form_follows_from_the_devices(
    devices, jit_compile, whole, is_fused, monkeypatch
):
    monkeypatch.setattr(
        tf.config, "list_physical_devices", lambda kind: [kind] * (kind in devices)
    )
    # Over the network a TPU is none of this machine's devices: the strategy tells.
    monkeypatch.setattr(strategies, "_is_tpu", lambda strategy: "TPU" in devices)
    assert strategies.compiles_with_xla(jit_compile) == whole
    assert strategies.fuses_elementwise(jit_compile) == is_fused
    run = config.TrainConfig(jit_compile=jit_compile, remat="block")
    assert pretraining_model.compute_form(run) == compute_lib.Compute(
        "float32", is_fused, "block"
    )


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_an_encoder_for_many_calls_gives_what_the_model_gives(dtype):
    model = pretraining_model.build_pretraining_model(
        _sizes(), 1, compute_lib.Compute(dtype, True)
    )
    names = ("input_ids", "input_mask", "segment_ids")
    inputs = [_features()[name] for name in names]
    expected = tf.function(model.encoder.call, autograph=False)(*inputs)
    found = pretraining_model.make_encode(model)(*inputs)
    np.testing.assert_array_equal(found[0], expected.sequence_output)
    np.testing.assert_array_equal(found[1], expected.pooled_output)


def test_masked_lm_sums_are_the_same_compiled_and_not():
    rng = np.random.default_rng(4)
    scores = tf.constant(rng.normal(0, 1, (3, 5, 53)), tf.float32)
    bias = tf.constant(rng.normal(0, 1, 53), tf.float32)
    labels = tf.constant(rng.integers(0, 53, (3, 5)), tf.int32)
    weights = tf.constant(rng.integers(0, 2, (3, 5)), tf.float32)
    plain = losses.masked_lm(scores, bias, labels, weights)
    ours = losses.masked_lm(scores, bias, labels, weights, compiled=True)
    np.testing.assert_allclose(ours, plain, rtol=1e-6)
    assert plain.weight == tf.reduce_sum(weights)


# ---- Weights are cast once ----


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_shared_weight_is_read_and_cast_once_for_all_layers(dtype):
    model = pretraining_model.build_pretraining_model(
        _sizes(), 1, compute_lib.Compute(dtype)
    )
    ids = tf.TensorSpec([_BATCH, _LENGTH], tf.int32)
    run = tf.function(
        lambda ids: model.encoder(ids, ids, ids).sequence_output, autograph=False
    )
    operations = run.get_concrete_function(ids).graph.get_operations()
    intermediate = [10, 14]  # the shape of this kernel alone
    kinds = [
        operation.type
        for operation in operations
        if operation.outputs and operation.outputs[0].shape == intermediate
    ]
    assert kinds.count("ReadVariableOp") == 1
    assert kinds.count("Cast") == (dtype == "bfloat16")


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"layer_norm_epsilon": 0.1},
        {"layer_norm_epsilon": 1e-3},
        {"embedding_size": 10, "sharing": "none"},
        {"sharing": "attention", "activation": "relu"},
        {"sharing": "feed_forward", "activation": "gelu_exact"},
        {"num_layers": 4, "num_groups": 2, "num_inner_groups": 2},
    ],
    ids=str,
)
@pytest.mark.parametrize("length", [None, _LENGTH])
def test_the_form_for_serving_is_the_same_function(changes, length):
    plain = pretraining_model.build_pretraining_model(_sizes(**changes), 1)
    served = pretraining_model.build_pretraining_model(
        _sizes(**changes), 1, scaled_weights.serving_form("float32")
    )
    rng = np.random.default_rng(2)
    for variable, other in zip(plain.variables, served.variables, strict=True):
        # Biases too, which are drawn as zeros and then left out of a graph.
        variable.assign(
            rng.normal(float("gamma" in variable.name), 0.3, variable.shape)
        )
        other.assign(variable)
    features = _features()
    texts = [features[name] for name in ("input_ids", "input_mask", "segment_ids")]
    scaled = scaled_weights.ScaledEncoder(served.encoder)

    @tf.function(
        input_signature=[tf.TensorSpec([None, length], tf.int32)] * 3, autograph=False
    )
    def encode(*inputs):
        return scaled(*inputs)

    expected, found = plain.encoder(*texts), encode(*texts)
    np.testing.assert_allclose(found.pooled_output, expected.pooled_output, atol=1e-5)
    for layer, other in zip(found.all_layers, expected.all_layers, strict=True):
        np.testing.assert_allclose(layer, other, atol=2e-5)


def test_layer_norms_for_serving_have_their_epsilon_whatever_computes_them():
    # In the place of these operations TensorFlow puts one of oneDNN, where it can,
    # which has an epsilon of its own.
    values = np.random.default_rng(3).normal(0.0, 0.02, [5, 64]).astype(np.float32)
    gamma, beta = np.linspace(0.5, 2.0, 64, dtype=np.float32), np.ones(64, np.float32)
    for epsilon, add_norm in (
        (scaled_weights.ONEDNN_EPSILON, scaled_weights.add_norm),
        (1e-12, elementwise_ops.add_norm),
        (0.1, elementwise_ops.add_norm),
    ):

        @tf.function(input_signature=[tf.TensorSpec([None, 64])], autograph=False)
        def normalize(inputs, epsilon=epsilon, add_norm=add_norm):
            constants = tf.constant(gamma), tf.constant(beta)
            zeros = tf.zeros_like(inputs), tf.zeros([64])
            return add_norm(inputs, *zeros, *constants, epsilon)

        centred = values - values.mean(-1, keepdims=True, dtype=np.float64)
        variance = (centred**2).mean(-1, keepdims=True)
        expected = centred / np.sqrt(variance + epsilon) * gamma + beta
        np.testing.assert_allclose(normalize(values), expected, atol=1e-4)
