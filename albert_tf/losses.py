"""Pure losses and counts of pre-training, as sums over a batch.

Sums, not means: whoever adds up batches, micro-batches or replicas divides once by
the global weight, so that the result does not depend on how the batch was cut.
"""

from typing import NamedTuple

import tensorflow as tf

# The original adds this to the number of masked tokens before it divides.
WEIGHT_EPSILON = 1e-5


class Sums(NamedTuple):
    """float32 scalars: summed loss in nats, right answers, and weight."""

    loss: tf.Tensor
    correct: tf.Tensor
    weight: tf.Tensor


def masked_lm(logits, label_ids, weights) -> Sums:
    """Cross-entropy of the masked tokens.

    Args:
      logits: float32 [B, P, V].
      label_ids: int32 [B, P].
      weights: float32 [B, P], 1 at masked tokens, 0 at padding.
    """
    return _cross_entropy(logits, label_ids, weights)


def sentence_pair(logits, labels, weights) -> Sums:
    """Cross-entropy of the pair labels.

    Args:
      logits: float32 [B, 2].
      labels: int32 [B].
      weights: float32 [B], 0 at examples that only fill up a batch.
    """
    return _cross_entropy(logits, labels, weights)


def _cross_entropy(logits, labels, weights) -> Sums:
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(
        labels=labels, logits=tf.cast(logits, tf.float32)
    )
    correct = tf.cast(tf.argmax(logits, -1, labels.dtype) == labels, tf.float32)
    return Sums(
        loss=tf.reduce_sum(losses * weights),
        correct=tf.reduce_sum(correct * weights),
        weight=tf.reduce_sum(weights),
    )
