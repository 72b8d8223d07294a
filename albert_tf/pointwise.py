"""What lies between the products of matrices: pure functions, float32 inside.

Two of them can be told to compute in another dtype.

Shapes: rows are B * S or B * P; B batch, S sequence, N heads, C classes.
"""

import functools
from collections.abc import Callable

import tensorflow as tf

# By the names of `config.ACTIVATIONS`. The original's GELU is the tanh form (Hendrycks
# and Gimpel, 2016).
ACTIVATIONS: dict[str, Callable] = {
    "gelu_tanh": functools.partial(tf.nn.gelu, approximate=True),
    "gelu_exact": functools.partial(tf.nn.gelu, approximate=False),
    "relu": tf.nn.relu,
}


def biased_activation(inputs, bias, activation: str, dtype=tf.float32):
    """`activation` of `inputs` + `bias`.

    Args:
      inputs: float [rows, units].
      bias: float32 [units].
      activation: one of `ACTIVATIONS`.
      dtype: what it is computed in.

    Returns:
      [rows, units] of the dtype of `inputs`.
    """
    # Only a sum that is called BiasAdd is made one operation with the product before
    # it and the GELU after it.
    biased = tf.nn.bias_add(tf.cast(inputs, dtype), tf.cast(bias, dtype))
    return tf.cast(ACTIVATIONS[activation](biased), inputs.dtype)


# Where gamma and beta are constants and the axis is counted from the front, TensorFlow
# puts one operation of oneDNN in the place of a layer norm. It forgets the epsilon on
# the way (measured in 2.20), and this one holds.
ONEDNN_EPSILON = 1e-3


def normalize(inputs, gamma, beta, epsilon: float):
    """Layer normalisation of float [..., size]; gamma and beta float32 [size]."""
    hidden = tf.cast(inputs, tf.float32)
    axis = hidden.shape.rank - 1 if epsilon == ONEDNN_EPSILON else -1
    mean, variance = tf.nn.moments(hidden, axes=[axis], keepdims=True)
    normed = tf.nn.batch_normalization(hidden, mean, variance, beta, gamma, epsilon)
    return tf.cast(normed, inputs.dtype)


def normalize_sum(residual, inputs, bias, gamma, beta, epsilon: float):
    """Layer normalisation of `residual` + `inputs` + `bias`, added up in float32.

    Args:
      residual: float [rows, size].
      inputs: float [rows, size].
      bias: float32 [size].
      gamma: float32 [size].
      beta: float32 [size].
      epsilon: added to the variance.

    Returns:
      [rows, size] of the dtype of `residual`.
    """
    total = tf.nn.bias_add(tf.cast(inputs, tf.float32), bias)
    total += tf.cast(residual, tf.float32)
    return tf.cast(normalize(total, gamma, beta, epsilon), residual.dtype)


def softmax(scores, attention_bias, scale: float, dtype=tf.float32):
    """Softmax of `scores` * `scale` + `attention_bias` over the last axis.

    Args:
      scores: float [B, N, S, S].
      attention_bias: float32 [B, 1, 1, S].
      scale: of the scores.
      dtype: what it is computed in.

    Returns:
      [B, N, S, S] of the dtype of `scores`.
    """
    scaled = tf.cast(scores, dtype) * tf.cast(scale, dtype)
    probabilities = tf.nn.softmax(scaled + tf.cast(attention_bias, dtype))
    return tf.cast(probabilities, scores.dtype)


def cross_entropy(scores, bias, labels):
    """Cross-entropy of softmax(`scores` + `bias`).

    Args:
      scores: float [rows, C].
      bias: float32 [C].
      labels: int32 [rows].

    Returns:
      Losses in nats, and 1 where the label has the first of the highest scores;
      float32 [rows] both.
    """
    logits = tf.cast(scores, tf.float32) + bias
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(
        labels=labels, logits=logits
    )
    best = tf.argmax(logits, -1, labels.dtype)
    return losses, tf.cast(best == labels, tf.float32)
