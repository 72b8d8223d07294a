"""Islands: small functions that XLA compiles, within a graph that it does not.

On a CPU a step is fastest when oneDNN multiplies the matrices and XLA fuses what lies
between two products into one pass over memory. Both directions are compiled, and the
backward one computes the island again instead of keeping what is inside it.
"""

import functools
from collections.abc import Callable

import tensorflow as tf

from albert_tf import pointwise


@functools.cache
def compiled(function: Callable, **settings) -> Callable:
    """`function` as an island; the same object for the same arguments.

    Args:
      function: maps float tensors to one tensor. XLA reduces the leading axis of
        matrices far faster than two leading axes, so give it matrices.
      **settings: keyword arguments that are no tensors.
    """
    body = functools.partial(function, **settings)
    forward = tf.function(body, jit_compile=True)

    @tf.function(jit_compile=True)
    def backward(inputs, upstream):
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            output = body(*inputs)
        return tape.gradient(output, inputs, output_gradients=upstream)

    @tf.custom_gradient
    def island(*inputs):
        return forward(*inputs), lambda upstream: backward(inputs, upstream)

    return island


def softmax(scores, attention_bias, scale: float):
    """`pointwise.softmax`, of which the backward pass keeps the result alone.

    Args:
      scores: float [B, N, S, S].
      attention_bias: float32 [B, 1, 1, S], which gets no gradient.
      scale: of the scores.

    Returns:
      [B, N, S, S] of the dtype of `scores`.
    """
    return _softmax(scale)(scores, attention_bias)


@functools.cache
def _softmax(scale: float) -> Callable:
    plain = functools.partial(pointwise.softmax, scale=scale)

    @tf.function(jit_compile=True)
    def forward(scores, attention_bias):
        scores, dtype = tf.cast(scores, tf.float32) * scale, scores.dtype
        scores += attention_bias
        powers = tf.exp(scores - _row_maximum(scores))
        return tf.cast(powers / tf.reduce_sum(powers, -1, keepdims=True), dtype)

    @tf.function(jit_compile=True)
    def backward(probabilities, upstream):
        dtype = probabilities.dtype
        probabilities = tf.cast(probabilities, tf.float32)
        upstream = tf.cast(upstream, tf.float32)
        mean = tf.reduce_sum(probabilities * upstream, -1, keepdims=True)
        return tf.cast(scale * probabilities * (upstream - mean), dtype)

    @tf.custom_gradient
    def island(scores, attention_bias):
        # In float32 TensorFlow's own softmax is faster still.
        run = plain if scores.dtype == tf.float32 else forward
        probabilities = run(scores, attention_bias)
        return probabilities, lambda upstream: (backward(probabilities, upstream), None)

    return island


@tf.custom_gradient
def cross_entropy(scores, bias, labels):
    """`pointwise.cross_entropy`, whose float32 logits never exist as a whole.

    Args:
      scores: float [rows, V], logits but for the bias.
      bias: float32 [V].
      labels: int32 [rows].

    Returns:
      Losses in nats and whether no score is above the label's, float32 [rows] both.
    """
    losses, is_right, *totals = _cross_entropy(scores, bias, labels)

    def gradient(upstream, unused_upstream):
        found = _cross_entropy_gradient(scores, bias, labels, totals, upstream)
        return (*found, None)

    return (losses, is_right), gradient


@tf.function(jit_compile=True)
def _cross_entropy(scores, bias, labels):
    logits = tf.cast(scores, tf.float32) + bias
    top = _row_maximum(logits)
    total = tf.reduce_sum(tf.exp(logits - top), -1, keepdims=True)  # [rows, 1]
    log_total = tf.math.log(total)
    at_label = tf.cast(tf.gather(scores, labels, batch_dims=1), tf.float32)
    at_label += tf.gather(bias, labels)
    is_right = tf.cast(at_label >= top[:, 0], tf.float32)
    # The maximum first: the sum of logarithm and maximum would be rounded.
    return log_total[:, 0] + (top[:, 0] - at_label), is_right, top, log_total


@tf.function(jit_compile=True)
def _cross_entropy_gradient(scores, bias, labels, totals, upstream):
    top, log_total = totals
    logits = tf.cast(scores, tf.float32) + bias
    probabilities = tf.exp(logits - top - log_total)
    target = tf.one_hot(labels, scores.shape[-1])
    gradient = (probabilities - target) * upstream[:, None]
    return tf.cast(gradient, scores.dtype), tf.reduce_sum(gradient, 0)


def _row_maximum(values):
    """The largest of float32 [..., columns] in each row, [..., 1].

    XLA takes the maximum of floats one by one, because of NaN. Those of integers in the
    same order it takes many at a time; a NaN with a sign bit counts as the smallest.
    """
    bits = _ordered_bits(tf.bitcast(values, tf.int32))
    largest = _ordered_bits(tf.reduce_max(bits, -1, keepdims=True))
    return tf.bitcast(largest, tf.float32)


def _ordered_bits(bits):
    """The bits of a float32 as an integer of the same order, and back again."""
    magnitude = tf.constant(0x7FFFFFFF)
    sign = tf.bitwise.right_shift(bits, 31)  # all ones where negative
    return tf.bitwise.bitwise_xor(bits, tf.bitwise.bitwise_and(sign, magnitude))
