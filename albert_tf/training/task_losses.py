"""Losses of fine-tuning, as sums over a batch.

Like those of `losses`, they are divided once by the weight of the whole batch, which
gives the mean of the original. All take `weights`, 0 at examples that pad the batch,
whose labels are ignored.
"""

import tensorflow as tf

from albert_tf.training import losses

# The weight of answerability in the loss of SQuAD 2.0 in the original.
IMPOSSIBLE_WEIGHT = 0.5


def classification(logits, label_ids, weights) -> losses.Sums:
    """Cross-entropy of classes: of texts, of tokens, or of choices.

    Args:
      logits: float32 [..., C]: [B, C] of texts and choices, [B, S, C] of tokens.
      label_ids: int32 [...], in [0, C); any value where the weight is 0.
      weights: float32 [...].

    Returns:
      Nats, number of correct answers, and weight.

    Raises:
      ValueError: the shapes do not agree.
    """
    logits = tf.cast(logits, tf.float32)
    label_ids = _with_shape("label_ids", label_ids, logits.shape[:-1], tf.int32)
    weights = _with_shape("weights", weights, logits.shape[:-1], tf.float32)
    example_losses, correct = _cross_entropy(logits, label_ids, weights)
    return losses.weighted_sums(example_losses, correct, weights)


def regression(predictions, targets, weights) -> losses.Sums:
    """Squared error of one number per text.

    Args:
      predictions: float32 [B].
      targets: float32 [B].
      weights: float32 [B].

    Returns:
      Squared units of the targets, and weight. A number is not correct or wrong:
      `correct` is 0.

    Raises:
      ValueError: the shapes do not agree.
    """
    predictions = tf.cast(predictions, tf.float32)
    targets = _with_shape("targets", targets, predictions.shape, tf.float32)
    weights = _with_shape("weights", weights, predictions.shape, tf.float32)
    squared = tf.math.squared_difference(predictions, targets)
    return losses.weighted_sums(squared, tf.zeros_like(squared), weights)


def span(
    start_logits, end_logits, start_positions, end_positions, weights
) -> losses.Sums:
    """Mean of the cross-entropies of start and end (SQuAD 1.1).

    Args:
      start_logits: float32 [B, S].
      end_logits: float32 [B, S].
      start_positions: int32 [B], in [0, S).
      end_positions: int32 [B], in [0, S).
      weights: float32 [B].

    Returns:
      Nats, number of examples whose start and end are both correct, and weight.

    Raises:
      ValueError: the shapes do not agree.
    """
    example_losses, correct, weights = _span(
        start_logits, end_logits, start_positions, end_positions, weights
    )
    return losses.weighted_sums(example_losses, correct, weights)


def answerable_span(
    start_log_probs,
    end_log_probs,
    impossible_logits,
    start_positions,
    end_positions,
    is_impossible,
    weights,
    impossible_weight: float = IMPOSSIBLE_WEIGHT,
) -> losses.Sums:
    """Loss of `span` plus weighted cross-entropy of the answerability (SQuAD 2.0).

    The span of a question without an answer counts too. A position that `p_mask`
    excludes has the log probability -1e30; if it is the label, that is the loss.

    Args:
      start_log_probs: float32 [B, S].
      end_log_probs: float32 [B, S], given the true start.
      impossible_logits: float32 [B].
      start_positions: int32 [B], in [0, S).
      end_positions: int32 [B], in [0, S).
      is_impossible: int32 [B], 1 if there is no answer.
      weights: float32 [B].
      impossible_weight: the weight of the answerability.

    Returns:
      Nats, number of examples whose start, end and answerability are all correct, and
      weight.

    Raises:
      ValueError: the shapes do not agree.
    """
    example_losses, correct, weights = _span(
        start_log_probs, end_log_probs, start_positions, end_positions, weights
    )
    shape = example_losses.shape
    logits = _with_shape("impossible_logits", impossible_logits, shape, tf.float32)
    labels = _with_shape("is_impossible", is_impossible, shape, tf.float32)
    example_losses += impossible_weight * tf.nn.sigmoid_cross_entropy_with_logits(
        labels=labels, logits=logits
    )
    correct *= tf.cast((logits > 0.0) == (labels > 0.0), tf.float32)
    return losses.weighted_sums(example_losses, correct, weights)


def _span(start_logits, end_logits, start_positions, end_positions, weights):
    """Returns losses [B], whether both are correct [B], and weights [B]."""
    start_logits = tf.cast(start_logits, tf.float32)
    end_logits = _with_shape("end_logits", end_logits, start_logits.shape, tf.float32)
    shape = start_logits.shape[:-1]
    starts = _with_shape("start_positions", start_positions, shape, tf.int32)
    ends = _with_shape("end_positions", end_positions, shape, tf.int32)
    weights = _with_shape("weights", weights, shape, tf.float32)
    start_losses, start_correct = _cross_entropy(start_logits, starts, weights)
    end_losses, end_correct = _cross_entropy(end_logits, ends, weights)
    return 0.5 * (start_losses + end_losses), start_correct * end_correct, weights


def _cross_entropy(logits, label_ids, weights):
    # A label outside the classes gives a NaN, which a weight of 0 would not remove.
    label_ids = tf.where(weights > 0.0, label_ids, tf.zeros_like(label_ids))
    example_losses = tf.nn.sparse_softmax_cross_entropy_with_logits(
        labels=label_ids, logits=logits
    )
    found = tf.argmax(logits, -1, label_ids.dtype)
    return example_losses, tf.cast(found == label_ids, tf.float32)


def _with_shape(name: str, value, shape: tf.TensorShape, dtype: tf.DType):
    """Returns `value` as a tensor; a shape that broadcasts would give a wrong loss."""
    tensor = tf.cast(value, dtype)
    if not tensor.shape.is_compatible_with(shape):
        raise ValueError(
            f"{name} must have the shape {shape}, one value for each score or row of "
            f"scores; received the shape {tensor.shape}. Reshape it"
        )
    return tensor
