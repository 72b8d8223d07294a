"""Fused ops: small functions that XLA compiles, within a graph that it does not.

On a CPU a step is fastest if oneDNN multiplies the matrices and XLA fuses the
operations between two products into one pass over memory. Forward and backward pass
are compiled, and the latter recomputes intermediate values instead of keeping them.
"""

import functools
from collections.abc import Callable

import numpy as np
import tensorflow as tf

from albert_tf.model import elementwise_ops


@functools.cache
def compiled(function: Callable, **settings) -> Callable:
    """Compiles `function` into a fused op; the same object for the same arguments.

    Args:
      function: maps float tensors to one tensor. XLA reduces one leading axis far
        faster than two, so they should be matrices.
      **settings: keyword arguments that are not tensors.
    """
    body = functools.partial(function, **settings)
    forward = tf.function(body, jit_compile=True, autograph=False)

    @tf.function(jit_compile=True, autograph=False)
    def backward(inputs, upstream):
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            output = body(*inputs)
        return tape.gradient(output, inputs, output_gradients=upstream)

    @tf.custom_gradient
    def fused(*inputs):
        return forward(*inputs), lambda upstream: backward(inputs, upstream)

    return fused


def softmax(scores, attention_bias, scale: float):
    """Computes `elementwise_ops.softmax`, keeping only the result for backward.

    Args:
      scores: float [B, N, Q, S].
      attention_bias: float32 [B, 1, 1, S], without a gradient.
      scale: of the scores.

    Returns:
      [B, N, Q, S] of the dtype of `scores`.
    """
    return _softmax(scale, tf.identity)(scores, attention_bias)


def packed_softmax(scores, query_numbers, key_numbers, scale: float):
    """Computes the softmax of packed rows; their bias is never in memory.

    Args:
      scores: float [B, N, Q, S].
      query_numbers: as in `elementwise_ops.packed_bias`.
      key_numbers: as in `elementwise_ops.packed_bias`.
      scale: of the scores.

    Returns:
      [B, N, Q, S] of the dtype of `scores`.
    """
    run = _softmax(scale, elementwise_ops.packed_bias)
    return run(scores, query_numbers, key_numbers)


@functools.cache
def _softmax(scale: float, make_bias: Callable) -> Callable:
    """Returns a function of scores and of the arguments of `make_bias`."""

    @tf.function(jit_compile=True, autograph=False)
    def forward(scores, *of_bias):
        scores, dtype = tf.cast(scores, tf.float32) * scale, scores.dtype
        scores += make_bias(*of_bias)
        powers = tf.exp(scores - _row_maximum(scores))
        return tf.cast(powers / tf.reduce_sum(powers, -1, keepdims=True), dtype)

    @tf.function(jit_compile=True, autograph=False)
    def backward(probabilities, upstream):
        dtype = probabilities.dtype
        probabilities = tf.cast(probabilities, tf.float32)
        upstream = tf.cast(upstream, tf.float32)
        mean = tf.reduce_sum(probabilities * upstream, -1, keepdims=True)
        return tf.cast(scale * probabilities * (upstream - mean), dtype)

    @tf.custom_gradient
    def fused(scores, *of_bias):
        # In float32 TensorFlow's own softmax is even faster.
        if scores.dtype == tf.float32 and make_bias is tf.identity:
            [attention_bias] = of_bias
            probabilities = elementwise_ops.softmax(scores, attention_bias, scale)
        else:
            probabilities = forward(scores, *of_bias)
        return probabilities, lambda upstream: (
            backward(probabilities, upstream),
            *(None for _ in of_bias),
        )

    return fused


@tf.custom_gradient
def cross_entropy(scores, bias, labels):
    """Computes `elementwise_ops.cross_entropy` without float32 logits in memory.

    Args:
      scores: float [rows, V], logits without the bias.
      bias: float32 [V].
      labels: int32 [rows].

    Returns:
      Losses in nats, NaN where the label is outside [0, V), and 1 where the label is
      the first of those with the highest score; both float32 [rows].
    """
    losses, is_right, *totals = _cross_entropy(scores, bias, labels)

    def gradient(upstream, unused_upstream):
        found = _cross_entropy_gradient(scores, bias, labels, totals, upstream)
        return (*found, None)

    return (losses, is_right), gradient


@tf.function(jit_compile=True, autograph=False)
def _cross_entropy(scores, bias, labels):
    logits = tf.cast(scores, tf.float32) + bias
    top, best = _row_best(logits)
    total = tf.reduce_sum(tf.exp(logits - top), -1, keepdims=True)  # [rows, 1]
    log_total = tf.math.log(total)
    at_label = tf.cast(tf.gather(scores, labels, batch_dims=1), tf.float32)
    at_label += tf.gather(bias, labels)
    # In this order: the sum of logarithm and maximum would be rounded.
    losses = log_total[:, 0] + (top[:, 0] - at_label)
    is_known = (labels >= 0) & (labels < scores.shape[-1])
    losses = tf.where(is_known, losses, np.nan)
    return losses, tf.cast(best == labels, tf.float32), top, log_total


@tf.function(jit_compile=True, autograph=False)
def _cross_entropy_gradient(scores, bias, labels, totals, upstream):
    top, log_total = totals
    logits = tf.cast(scores, tf.float32) + bias
    probabilities = tf.exp(logits - top - log_total)
    target = tf.one_hot(labels, scores.shape[-1])
    gradient = (probabilities - target) * upstream[:, None]
    return tf.cast(gradient, scores.dtype), tf.reduce_sum(gradient, 0)


def _row_maximum(values):
    """Returns the largest of float32 [..., columns] in each row, [..., 1].

    XLA computes the maximum of floats one by one, because of NaN, but vectorizes that
    of integers in the same order. A NaN with a sign bit counts as the smallest.
    """
    largest = tf.reduce_max(_ordered(values), -1, keepdims=True)
    return _as_float(largest)


def _row_best(values):
    """Returns the largest of float32 [rows, columns] in each row and its first index.

    Returns:
      float32 [rows, 1] and int32 [rows].
    """
    num_columns = values.shape[-1]
    # The index is in the lower half, from the end, so that the first of equals wins.
    from_end = tf.range(num_columns - 1, -1, -1, tf.int64)
    keys = tf.cast(_ordered(values), tf.int64) * (1 << 32) + from_end
    best = tf.reduce_max(keys, -1)  # [rows]
    place = num_columns - 1 - tf.bitwise.bitwise_and(best, (1 << 32) - 1)
    largest = tf.cast(tf.bitwise.right_shift(best, 32), tf.int32)
    return _as_float(largest)[:, None], tf.cast(place, tf.int32)


def _ordered(values):
    """Maps float32 to int32 of the same order."""
    return _flip_negatives(tf.bitcast(values, tf.int32))


def _as_float(ordered):
    """Inverts `_ordered`."""
    return tf.bitcast(_flip_negatives(ordered), tf.float32)


def _flip_negatives(bits):
    sign = tf.bitwise.right_shift(bits, 31)  # all ones where negative
    return tf.bitwise.bitwise_xor(bits, tf.bitwise.bitwise_and(sign, 0x7FFFFFFF))
