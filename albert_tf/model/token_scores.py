"""Log-probabilities of single tokens at masked positions.

Shapes: R rows of S tokens, M scored tokens, H hidden, V vocabulary.
"""

from collections.abc import Callable

import tensorflow as tf


def log_probabilities(
    encode_at: Callable,
    score_vocabulary: Callable,
    input_ids,
    input_mask,
    positions,
    target_rows,
    target_ids,
):
    """Computes log-probabilities of tokens, each at the scored position of its row.

    Args:
      encode_at: as `encoder.Encoder.encode_at`.
      score_vocabulary: maps float32 [R, 1, H] to logits float32 [R, 1, V].
      input_ids: int32 [R, S], of one segment.
      input_mask: int32 [R, S], 1 at tokens, 0 at padding.
      positions: int32 [R].
      target_rows: int32 [M], the row of each scored token.
      target_ids: int32 [M], the token.

    Returns:
      float32 [M], natural logarithms.
    """
    segment_ids = tf.zeros_like(input_ids)
    hidden = encode_at(input_ids, input_mask, segment_ids, positions[:, None])
    logits = score_vocabulary(hidden)[:, 0]  # [R, V]
    totals = tf.reduce_logsumexp(logits, -1)  # [R]
    places = tf.stack([target_rows, target_ids], 1)  # [M, 2]
    return tf.gather_nd(logits, places) - tf.gather(totals, target_rows)
