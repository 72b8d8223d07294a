"""Attention in parts of the queries is attention, in less memory."""

import functools

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.core import config
from albert_tf.model import compute as compute_lib
from albert_tf.model import pretraining_model, query_parts, stateless_random
from albert_tf.training import objectives, train_step

OBJECTIVE = objectives.PretrainingObjective("sop")
BATCH, LENGTH, PREDICTIONS, VOCAB = 3, 7, 5, 53


def sizes(**changes) -> config.ModelConfig:
    values = {
        "vocab_size": VOCAB,
        "embedding_size": 6,
        "hidden_size": 10,
        "num_layers": 2,
        "num_heads": 2,
        "intermediate_size": 14,
        "max_positions": 11,
        "initializer_range": 0.3,
        "hidden_dropout_rate": 0.0,
    }
    return config.ModelConfig(**{**values, **changes})


def batch() -> dict[str, tf.Tensor]:
    rng = np.random.default_rng(0)
    places = rng.integers(0, LENGTH, (BATCH, PREDICTIONS))
    values = {
        "input_ids": rng.integers(5, VOCAB, (BATCH, LENGTH)),
        "input_mask": np.arange(LENGTH) < np.array([[7], [4], [6]]),
        "segment_ids": rng.integers(0, 2, (BATCH, LENGTH)),
        "masked_lm_positions": places,
        "masked_lm_ids": rng.integers(5, VOCAB, places.shape),
        "next_sentence_labels": rng.integers(0, 2, BATCH),
    }
    tensors = {name: tf.constant(value, tf.int32) for name, value in values.items()}
    weights = np.arange(PREDICTIONS) < np.array([[5], [2], [4]])
    return tensors | {"masked_lm_weights": tf.constant(weights, tf.float32)}


def step(compute: compute_lib.Compute, jit: bool = False, **changes):
    """A function of features and seed that returns gradients and sums."""
    model = pretraining_model.build_pretraining_model(sizes(**changes), 1, compute)

    @tf.function(jit_compile=jit, autograph=False)
    def run(features, seed):
        return train_step.compute_gradients(OBJECTIVE, model, features, seed, 11.0, 3.0)

    return run


@functools.cache
def results(compute: compute_lib.Compute, jit: bool = False, **changes) -> list:
    """The gradients and the sums, float32."""
    gradients, sums = step(compute, jit, **changes)(batch(), tf.constant([3, 4]))
    return [*gradients, *sums.values()]


def largest_difference(ours, theirs) -> float:
    """Relative to the largest number of a tensor, if that is above 1."""
    differences = [
        np.max(np.abs(one - other)) / max(1.0, np.max(np.abs(other)))
        for one, other in zip(ours, theirs, strict=True)
    ]
    return max(differences)


FORMS = [
    # 7 queries are 3, 3 and 1 with padding; 6, in the last layer, are 3 and 3.
    (compute_lib.Compute(queries_at_once=3), False),
    (compute_lib.Compute(queries_at_once=1, fuse_elementwise=True), False),
    (compute_lib.Compute(queries_at_once=6, remat="attention"), False),
    (compute_lib.Compute(queries_at_once=2, remat="block"), True),
]


@pytest.mark.parametrize(("compute", "jit"), FORMS, ids=str)
def test_losses_and_gradients_are_those_of_the_plain_form(compute, jit):
    plain = results(compute_lib.DEFAULT)
    assert largest_difference(results(compute, jit), plain) < 1e-6


@pytest.mark.parametrize("sharing", ["attention", "feed_forward", "none"])
def test_gradients_are_equal_for_every_sharing(sharing):
    compute = compute_lib.Compute(queries_at_once=4)
    plain = results(compute_lib.DEFAULT, sharing=sharing)
    assert largest_difference(results(compute, sharing=sharing), plain) < 1e-6


def test_bfloat16_differs_by_rounding_alone():
    exact = results(compute_lib.DEFAULT)
    whole, parts = (
        results(compute_lib.Compute("bfloat16", True, queries_at_once=number))
        for number in (0, 3)
    )
    error = largest_difference(whole, exact)
    assert 1e-4 < largest_difference(parts, exact) < 2 * error


def test_all_queries_fit_into_one_part_or_have_no_static_number():
    def has_parts(shape, queries_at_once):
        found = []

        @tf.function(input_signature=[tf.TensorSpec(shape)])
        def trace(query):
            found.append(query_parts.has_parts(query, queries_at_once))

        trace.get_concrete_function()
        return found[0]

    assert has_parts([3, 2, 7, 5], 6)
    assert has_parts([None, 2, 7, 5], 6)
    assert not has_parts([3, 2, 7, 5], 7)
    assert not has_parts([3, 2, 7, 5], 0)
    assert not has_parts([3, 2, None, 5], 6)


# ---- Dropout ----

RATE, SEED = 0.4, (5, 6)


def attend(query, query_numbers, key, value, seed):
    """Attention of queries that see the keys of the same number."""
    bias = 0.0
    if query_numbers is not None:
        is_other = query_numbers[:, None, :, None] != tf.range(4)[None, None, None]
        bias = tf.cast(is_other, query.dtype) * -1e4
    scores = tf.matmul(query, key, transpose_b=True) + bias
    probabilities = stateless_random.dropout(tf.nn.softmax(scores), RATE, seed)
    return tf.matmul(probabilities, value)


def tensors(num_queries: int) -> list[tf.Tensor]:
    rng = np.random.default_rng(1)
    shapes = [3, 2, num_queries, 5], [3, 2, 4, 5], [3, 2, 4, 5]
    return [tf.constant(rng.normal(size=shape), tf.float32) for shape in shapes]


@pytest.mark.parametrize("jit", [False, True])
def test_each_part_draws_masks_of_its_own_number_and_backward_the_same(jit):
    query, key, value = tensors(7)
    numbers = tf.constant(np.random.default_rng(2).integers(0, 4, (3, 7)), tf.int32)
    upstream = tf.constant(
        np.random.default_rng(3).normal(size=query.shape), tf.float32
    )

    @tf.function(jit_compile=jit)
    def found(query, key, value, seed):
        with tf.GradientTape() as tape:
            tape.watch([query, key, value])
            context = query_parts.attend(attend, query, numbers, key, value, seed, 3)
        return context, *tape.gradient(context, [query, key, value], upstream)

    @tf.function(jit_compile=jit)
    def expected(query, key, value, seed):
        with tf.GradientTape() as tape:
            tape.watch([query, key, value])
            # Two rows of padding, so that all parts are equally large.
            queries = tf.pad(query, [[0, 0], [0, 0], [0, 2], [0, 0]])
            padded = tf.pad(numbers, [[0, 0], [0, 2]])
            contexts = [
                attend(
                    queries[:, :, 3 * part : 3 * part + 3],
                    padded[:, 3 * part : 3 * part + 3],
                    key,
                    value,
                    stateless_random.fold_in(seed, part),
                )
                for part in range(3)
            ]
            context = tf.concat(contexts, 2)[:, :, :7]
        return context, *tape.gradient(context, [query, key, value], upstream)

    arguments = query, key, value, tf.constant(SEED)
    ours, theirs = found(*arguments), expected(*arguments)
    assert largest_difference(ours, theirs) < 1e-6
    # Other seeds are other masks.
    others = found(query, key, value, tf.constant([6, 5]))
    assert largest_difference(ours, others) > 0.1


def test_the_share_of_dropped_probabilities_is_the_rate_in_every_part():
    # All scores are equal and all values 1: a context counts what is kept.
    zeros, ones = tf.zeros([50, 4, 6, 2]), tf.ones([50, 4, 100, 2])
    context = query_parts.attend(
        attend, zeros, None, tf.zeros_like(ones), ones, tf.constant(SEED), 2
    )
    kept = (1 - RATE) * context.numpy()[..., 0].reshape(200, 3, 2).mean((0, 2))
    # 40,000 draws a part: the standard deviation of the mean is 0.00245.
    np.testing.assert_allclose(kept, 1 - RATE, rtol=0, atol=4 * 0.00245)
    first, second = context[:, :, :2], context[:, :, 2:4]
    assert np.mean(first != second) > 0.5


def test_a_step_with_dropout_is_the_same_whatever_is_recomputed():
    rates = {"hidden_dropout_rate": 0.3, "attention_dropout_rate": 0.4}
    kept, recomputed = (
        results(compute_lib.Compute(queries_at_once=3, remat=remat), **rates)
        for remat in ("none", "attention")
    )
    assert largest_difference(recomputed, kept) < 1e-6
    plain = results(compute_lib.DEFAULT, **rates)
    assert largest_difference(kept, plain) > 1e-3  # its masks are others


# ---- Memory ----


def shapes_of(graph):
    """The shapes of all tensors of a graph and its functions; -1 is not static."""
    functions = graph.as_graph_def(add_shapes=True).library.function
    yield from (
        tensor.shape.as_list() for op in graph.get_operations() for tensor in op.outputs
    )
    for function in functions:
        for node in function.node_def:
            for shape in node.attr["_output_shapes"].list.shape:
                yield [size.size for size in shape.dim]


@pytest.mark.parametrize("remat", ["none", "block"])
def test_no_tensor_has_all_pairs_of_tokens(remat):
    def shapes(queries_at_once):
        compute = compute_lib.Compute(remat=remat, queries_at_once=queries_at_once)
        run = step(compute, attention_dropout_rate=0.4)
        spec = tf.TensorSpec([2], tf.int32)
        traced = run.get_concrete_function(batch(), spec)
        return [shape for shape in shapes_of(traced.graph) if len(shape) >= 4]

    pairs, part = [BATCH, 2, LENGTH, LENGTH], [BATCH, 2, 3, LENGTH]
    plain, in_parts = shapes(0), shapes(3)
    assert pairs in plain and part not in plain
    assert pairs not in in_parts and part in in_parts


def test_the_setting_reaches_the_model():
    run = config.TrainConfig(queries_at_once=128)
    assert pretraining_model.compute_form(run).queries_at_once == 128
    with pytest.raises(ValueError, match="queries_at_once must be at least 0"):
        config.TrainConfig(queries_at_once=-1)
