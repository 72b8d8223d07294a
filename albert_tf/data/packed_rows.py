"""Sequences to packed rows, in an input pipeline."""

import tensorflow as tf

from albert_tf.core import row_shapes
from albert_tf.data import schema


def pack(features, counts, row: row_shapes.RowShape) -> dict[str, tf.Tensor]:
    """Places sequences one after the other in rows.

    Args:
      features: those of T sequences, the inputs of a model without packing.
      counts: int64 [B], how many consecutive sequences make a row; their sum is T.
      row: the shape of a row.

    Returns:
      The tensors of `schema.model_features`, with a leading axis B.
    """
    batch_size = counts.shape[0]
    is_token = features["input_mask"] > 0  # [T, S]
    lengths = tf.reduce_sum(features["input_mask"], 1)  # [T]
    row_of = tf.repeat(tf.range(tf.size(counts)), counts)  # [T]
    num_tokens = tf.math.unsorted_segment_sum(lengths, row_of, tf.size(counts))  # [B]
    begins = tf.cumsum(num_tokens, exclusive=True)  # [B]
    starts = tf.cumsum(lengths, exclusive=True) - tf.gather(begins, row_of)  # [T]

    def of_tokens(values):
        """int32 [T, S], or what can be broadcast to it, to [B, row.length]."""
        values = tf.broadcast_to(values, tf.shape(is_token))
        joined = tf.RaggedTensor.from_row_lengths(
            tf.boolean_mask(values, is_token), num_tokens
        )
        return joined.to_tensor(0, shape=[batch_size, row.length])

    is_masked = features["masked_lm_weights"] > 0  # [T, P of a sequence]
    num_masked = tf.math.unsorted_segment_sum(
        tf.reduce_sum(tf.cast(is_masked, tf.int32), 1), row_of, tf.size(counts)
    )  # [B]

    # What is more would be cut off.
    for found, limit, what in (
        (tf.cast(counts, tf.int32), row.num_sequences, "sequences"),
        (num_tokens, row.length, "tokens"),
        (num_masked, row.num_predictions, "masked tokens"),
    ):
        tf.debugging.assert_less_equal(found, limit, f"a row has too many {what}")

    def of_masked(values):
        """[T, P of a sequence] to [B, row.num_predictions]."""
        joined = tf.RaggedTensor.from_row_lengths(
            tf.boolean_mask(values, is_masked), num_masked
        )
        return joined.to_tensor(0, shape=[batch_size, row.num_predictions])

    def of_sequences(values, padding):
        """int32 [T] to [B, row.num_sequences]."""
        joined = tf.RaggedTensor.from_row_lengths(values, counts)
        return joined.to_tensor(padding, shape=[batch_size, row.num_sequences])

    numbers = 1 + tf.ragged.range(tf.cast(counts, tf.int32)).flat_values  # [T]
    return {
        "input_ids": of_tokens(features["input_ids"]),
        "sequence_numbers": of_tokens(numbers[:, None]),
        "position_ids": of_tokens(tf.range(tf.shape(is_token)[1])[None]),
        "first_positions": of_sequences(starts, 0),
        "segment_ids": of_tokens(features["segment_ids"]),
        "masked_lm_positions": of_masked(
            features["masked_lm_positions"] + starts[:, None]
        ),
        "masked_lm_ids": of_masked(features["masked_lm_ids"]),
        "masked_lm_weights": of_masked(features["masked_lm_weights"]),
        "next_sentence_labels": of_sequences(
            features["next_sentence_labels"], schema.NO_LABEL
        ),
    }
