"""Operations between matrix products: pure functions that compute in float32.

Two of them take another dtype to compute in.

Shapes: rows are B * S or B * P; B batch, S sequence, N heads, C classes.
"""

import tensorflow as tf

from albert_tf.model import activations

# Added to the scores of positions that attention must not see, as in the original.
MASKED_SCORE = -10000.0


def biased_activation(inputs, bias, activation: str, dtype="float32"):
    """Computes `activation(inputs + bias)`.

    Args:
      inputs: float [rows, units].
      bias: float32 [units].
      activation: a key of `activations.BY_NAME`.
      dtype: of the computation.

    Returns:
      [rows, units] of the dtype of `inputs`.
    """
    # oneDNN fuses only BiasAdd, and no other sum, with the product before it and the
    # GELU after it.
    biased = tf.nn.bias_add(tf.cast(inputs, dtype), tf.cast(bias, dtype))
    return tf.cast(activations.BY_NAME[activation](biased), inputs.dtype)


def normalize(inputs, gamma, beta, epsilon: float, axis: int = -1):
    """Computes layer normalization.

    Args:
      inputs: float [..., size].
      gamma: float32 [size].
      beta: float32 [size].
      epsilon: added to the variance.
      axis: the last. Counted from the end, or TensorFlow may replace the layer norm by
        an operation of oneDNN with another epsilon: see `serving.scaled_weights`.

    Returns:
      [..., size] of the dtype of `inputs`.
    """
    hidden = tf.cast(inputs, tf.float32)
    mean, variance = tf.nn.moments(hidden, axes=[axis], keepdims=True)
    normed = tf.nn.batch_normalization(hidden, mean, variance, beta, gamma, epsilon)
    return tf.cast(normed, inputs.dtype)


def add_norm(residual, inputs, bias, gamma, beta, epsilon: float, axis: int = -1):
    """Computes layer normalization of `residual` + `inputs` + `bias`.

    Args:
      residual: float [rows, size].
      inputs: float [rows, size].
      bias: float32 [size].
      gamma: float32 [size].
      beta: float32 [size].
      epsilon: added to the variance.
      axis: as in `normalize`.

    Returns:
      [rows, size] of the dtype of `residual`.
    """
    total = tf.nn.bias_add(tf.cast(inputs, tf.float32), bias)
    total += tf.cast(residual, tf.float32)
    return tf.cast(normalize(total, gamma, beta, epsilon, axis), residual.dtype)


def softmax(scores, attention_bias, scale: float, dtype="float32"):
    """Computes the softmax of `scores` * `scale` + `attention_bias` over the last axis.

    Args:
      scores: float [B, N, Q, S].
      attention_bias: float32, can be broadcast to [B, 1, Q, S].
      scale: of the scores.
      dtype: of the computation.

    Returns:
      [B, N, Q, S] of the dtype of `scores`.
    """
    scaled = tf.cast(scores, dtype) * tf.cast(scale, dtype)
    probabilities = tf.nn.softmax(scaled + tf.cast(attention_bias, dtype))
    return tf.cast(probabilities, scores.dtype)


def packed_bias(query_numbers, key_numbers):
    """Computes the bias of packed rows, whose sequences do not see one another.

    Args:
      query_numbers: int32 [B, Q], the number of the sequence of each query.
      key_numbers: int32 [B, S], those of the keys.

    Returns:
      float32 [B, 1, Q, S].
    """
    is_other = query_numbers[:, None, :, None] != key_numbers[:, None, None, :]
    return tf.cast(is_other, tf.float32) * MASKED_SCORE


def cross_entropy(scores, bias, labels):
    """Computes the cross-entropy of softmax(`scores` + `bias`).

    Args:
      scores: float [rows, C].
      bias: float32 [C].
      labels: int32 [rows].

    Returns:
      Losses in nats, and 1 where the label is the first of those with the highest
      score; both float32 [rows].
    """
    logits = tf.cast(scores, tf.float32) + bias
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(
        labels=labels, logits=logits
    )
    best = tf.argmax(logits, -1, labels.dtype)
    return losses, tf.cast(best == labels, tf.float32)
