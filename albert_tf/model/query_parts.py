"""Attention by parts of the queries, which never holds all pairs of tokens.

A query's probabilities are over all keys, so a part of the queries needs nothing of
another part. The backward pass computes the probabilities of each part again.

Shapes: B batch, N heads, P queries, Q queries of a part, S keys, D head size.
"""

from collections.abc import Callable

import tensorflow as tf

from albert_tf.model import layers, stateless_random

# Maps query [B, N, Q, D], query_numbers int32 [B, Q] or None, key and value
# [B, N, S, D], and a seed int32 [2] or None to the context [B, N, Q, D].
Attend = Callable[..., tf.Tensor]


def has_parts(query, queries_at_once: int) -> bool:
    """Returns whether there are more queries than may be computed at once.

    Args:
      query: float [B, N, P, D]. If P is not static they are computed at once.
      queries_at_once: as in `compute.Compute`.
    """
    num_queries = query.shape[2]
    return num_queries is not None and 0 < queries_at_once < num_queries


def attend(
    attend_part: Attend,
    query,
    query_numbers,
    key,
    value,
    seed,
    queries_at_once: int,
):
    """Returns the context of all queries; only the arguments are kept for backward.

    Args:
      attend_part: computes the context of a part.
      query: float [B, N, P, D], with P static.
      query_numbers: int32 [B, P], the sequences of packed rows, or None.
      key: float [B, N, S, D].
      value: float [B, N, S, D].
      seed: int32 [2], of which each part's seed is made, or None.
      queries_at_once: of a part at most. Parts are equally large; padding fills the
        last one.

    Returns:
      float [B, N, P, D] of the dtype of `query`.
    """
    num_queries = query.shape[2]
    num_parts = -(-num_queries // queries_at_once)
    size = -(-num_queries // num_parts)  # Q
    numbers = None
    if query_numbers is not None:
        numbers = _divide(query_numbers[:, None, :, None], num_parts, size)

    def run_part(index, query, key, value):
        of_part = None if numbers is None else numbers[index][:, 0, :, 0]  # [B, Q]
        seed_of_part = stateless_random.fold_in(seed, index)
        return attend_part(query, of_part, key, value, seed_of_part)

    @tf.custom_gradient
    def run(query, key, value):
        parts = _divide(query, num_parts, size)
        contexts = tf.map_fn(
            lambda index: run_part(index, parts[index], key, value),
            tf.range(num_parts),
            parallel_iterations=1,
            fn_output_signature=tf.TensorSpec(parts.shape[1:], query.dtype),
        )

        def gradient(upstream):
            arguments = _divide(query, num_parts, size), key, value
            of_query, *others = _gradients(
                run_part, *arguments, _divide(upstream, num_parts, size)
            )
            return _join(of_query, num_queries), *others

        return _join(contexts, num_queries), gradient

    return run(query, key, value)


def _gradients(run_part: Callable, queries, key, value, upstreams):
    """Returns the gradients of `queries`, `key` and `value`.

    Args:
      run_part: maps the number of a part, its queries, `key` and `value` to contexts.
      queries: float [P / Q, B, N, Q, D].
      key: float [B, N, S, D].
      value: float [B, N, S, D].
      upstreams: those of the contexts, like `queries`.
    """
    num_parts = queries.shape[0]

    def add_part(index, of_queries, *sums):
        # Tensors of this graph, which the tape can watch.
        inputs = [tf.identity(tensor) for tensor in (queries[index], key, value)]
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            context = run_part(index, *inputs)
        of_part, *others = tape.gradient(context, inputs, upstreams[index])
        # Summed in float32, as within a product of bfloat16.
        totals = [s + tf.cast(o, tf.float32) for s, o in zip(sums, others, strict=True)]
        return index + 1, of_queries.write(index, of_part), *totals

    _, of_queries, *sums = tf.while_loop(
        lambda index, *_: index < num_parts,
        add_part,
        (
            tf.constant(0),
            tf.TensorArray(queries.dtype, num_parts, element_shape=queries.shape[1:]),
            tf.zeros_like(key, tf.float32),
            tf.zeros_like(value, tf.float32),
        ),
        parallel_iterations=1,
    )
    return of_queries.stack(), *(tf.cast(total, key.dtype) for total in sums)


def _divide(tensor, num_parts: int, size: int):
    """Maps [B, X, P, Y] to [P / Q, B, X, Q, Y], the last part filled with zeros."""
    missing = num_parts * size - tensor.shape[2]
    padded = tf.pad(tensor, [[0, 0], [0, 0], [0, missing], [0, 0]])
    batch_size, others, _, width = layers.shape_of(tensor)
    divided = tf.reshape(padded, [batch_size, others, num_parts, size, width])
    return tf.transpose(divided, [2, 0, 1, 3, 4])


def _join(parts, num_queries: int):
    """Inverts `_divide` for float [P / Q, B, N, Q, D]."""
    num_parts, batch_size, num_heads, size, width = layers.shape_of(parts)
    joined = tf.transpose(parts, [1, 2, 0, 3, 4])
    joined = tf.reshape(joined, [batch_size, num_heads, num_parts * size, width])
    return joined[:, :, :num_queries]
