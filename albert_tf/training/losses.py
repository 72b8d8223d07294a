"""Losses and counts of pre-training, as sums over a batch.

Sums, not means: the caller adds up batches, microbatches or replicas and divides once
by the global weight, so that the result does not depend on how the batch was split.
"""

from typing import NamedTuple

import tensorflow as tf

from albert_tf.model import elementwise_ops, xla_fused_ops

# The original adds this to the number of masked tokens before it divides.
WEIGHT_EPSILON = 1e-5


class Sums(NamedTuple):
    """float32 scalars: summed loss in nats, number of correct answers, and weight."""

    loss: tf.Tensor
    correct: tf.Tensor
    weight: tf.Tensor


def masked_lm(scores, bias, label_ids, weights, compiled: bool = False) -> Sums:
    """Cross-entropy of the masked tokens.

    Args:
      scores: float [B, P, V], logits without the bias.
      bias: float32 [V].
      label_ids: int32 [B, P].
      weights: float32 [B, P], 1 at masked tokens, 0 at padding.
      compiled: whether logits and loss are one XLA-compiled operation.
    """
    cross_entropy = (
        xla_fused_ops.cross_entropy if compiled else elementwise_ops.cross_entropy
    )
    losses, correct = cross_entropy(
        tf.reshape(scores, [-1, scores.shape[-1]]),  # [B * P, V]
        bias,
        tf.reshape(label_ids, [-1]),
    )
    return weighted_sums(losses, correct, tf.reshape(weights, [-1]))


def sentence_pair(logits, labels, weights) -> Sums:
    """Cross-entropy of the pair labels.

    Args:
      logits: float32 [..., 2].
      labels: int32 [...], 0 or 1; negative at sequences without a pair, which have
        weight 0.
      weights: float32 [...], 0 at examples that pad the batch.
    """
    # The loss of a label that is no class would be NaN, also with weight 0.
    classes = tf.maximum(labels, 0)
    losses, correct = elementwise_ops.cross_entropy(logits, 0.0, classes)
    return weighted_sums(losses, correct, weights * has_pair(labels))


def has_pair(labels):
    """1 at sequences whose pair has a label, 0 at others; float32 of their shape."""
    return tf.cast(labels >= 0, tf.float32)


def weighted_sums(losses, correct, weights) -> Sums:
    """Sums losses, correct answers (1 or 0) and weights, float32 [rows] each."""
    return Sums(
        loss=tf.reduce_sum(losses * weights),
        correct=tf.reduce_sum(correct * weights),
        weight=tf.reduce_sum(weights),
    )
