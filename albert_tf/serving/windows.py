"""Packs questions with windows over long contexts into rows of the model.

Shapes: T questions in the call, R windows of all of them, S the longest row, L tokens
of all windows.
"""

from typing import NamedTuple

import tensorflow as tf

from albert_tf.core import task_config
from albert_tf.serving import packing

# [CLS], and [SEP] twice.
_NUM_SPECIAL = 3


class Windows(NamedTuple):
    """Rows `[CLS] question [SEP] window [SEP]`.

    features: int32 [R, S] each, with `p_mask`, 0 at [CLS] and in the window.
    text_index: int64 [R], the question of each row.
    offsets: int64 [R], beginning of the window in the row.
    starts: int64 [R], beginning of the window in the tokens of all contexts.
    lengths: int64 [R], tokens of the window.
    is_max_context: bool [R, S], whether no other window has more context of the token.
    """

    features: packing.Features
    text_index: tf.Tensor
    offsets: tf.Tensor
    starts: tf.Tensor
    lengths: tf.Tensor
    is_max_context: tf.Tensor


def check(settings: task_config.TaskConfig) -> None:
    """Raises ValueError if the longest question leaves no room for a window."""
    room = settings.max_seq_length - settings.max_query_length - _NUM_SPECIAL
    if room < 1:
        raise ValueError(
            "task.max_seq_length must hold a question of task.max_query_length, three "
            "special tokens and a part of the context; received "
            f"{settings.max_seq_length} and {settings.max_query_length}"
        )


def cut_windows(
    questions: tf.RaggedTensor,
    contexts: tf.RaggedTensor,
    settings: task_config.TaskConfig,
    special: packing.SpecialIds,
    least_length: int = packing.SHORTEST,
) -> Windows:
    """Cuts contexts into windows as the original does.

    Args:
      questions: int32 ragged [T, None].
      contexts: int32 ragged [T, None].
      settings: lengths and stride.
      special: ids of the special pieces.
      least_length: the minimum of S.
    """
    query_lengths = tf.fill(
        [questions.nrows()], tf.constant(settings.max_query_length, tf.int64)
    )
    questions = packing.cut(questions, query_lengths)
    room = settings.max_seq_length - _NUM_SPECIAL - questions.row_lengths()  # [T]
    step = tf.minimum(room, settings.doc_stride)
    beyond = tf.maximum(contexts.row_lengths() - room, 0)
    num_windows = 1 - (-beyond // step)  # [T]; one if the context is empty
    text_index = tf.repeat(tf.range(contexts.nrows()), num_windows)  # [R]
    within = tf.ragged.range(num_windows).flat_values * tf.gather(step, text_index)
    lengths = tf.minimum(
        tf.gather(contexts.row_lengths(), text_index) - within,
        tf.gather(room, text_index),
    )
    starts = within + tf.gather(contexts.row_starts(), text_index)
    tokens = tf.ragged.range(starts, starts + lengths)  # [R, None], L in all
    paragraphs = tokens.with_flat_values(
        tf.gather(contexts.flat_values, tokens.flat_values)
    )
    questions = tf.gather(questions, text_index)
    features = packing.pack(
        questions, paragraphs, tf.ones_like(lengths, tf.bool), special, least_length
    )
    offsets = questions.row_lengths() + 2
    places = tf.range(tf.shape(features["input_ids"])[1], dtype=tf.int64)[None]  # [1,S]
    in_window = (places >= offsets[:, None]) & (places < (offsets + lengths)[:, None])
    features["p_mask"] = tf.cast(~in_window & (places > 0), tf.int32)
    best = tf.cast(_is_max_context(tokens, lengths), tf.int32)
    best = tf.RaggedTensor.from_row_lengths(best, lengths, validate=False)
    before = tf.RaggedTensor.from_row_lengths(
        tf.zeros([tf.reduce_sum(offsets)], tf.int32), offsets, validate=False
    )
    best = tf.concat([before, best], 1).to_tensor(0)  # [R, at most S]
    missing = tf.shape(features["input_ids"])[1] - tf.shape(best)[1]
    best = tf.pad(best, [[0, 0], [0, missing]]) > 0
    return Windows(features, text_index, offsets, starts, lengths, best)


def _is_max_context(tokens: tf.RaggedTensor, lengths) -> tf.Tensor:
    """Returns whether no window has more context of a token; the first of equals wins.

    Args:
      tokens: int64 ragged [R, None], token numbers, L in all.
      lengths: int64 [R].

    Returns:
      bool [L].
    """
    window = tokens.value_rowids()  # [L]
    left = tf.ragged.range(lengths).flat_values
    length = tf.gather(lengths, window)
    around = tf.cast(tf.minimum(left, length - 1 - left), tf.float64)
    # The original's score, in its precision.
    score = around + 0.01 * tf.cast(length, tf.float64)
    token, count = tokens.flat_values, tf.reduce_max(tokens.flat_values) + 1
    count = tf.maximum(count, 0)
    highest = tf.math.unsorted_segment_max(score, token, count)
    is_highest = score == tf.gather(highest, token)
    among = tf.where(is_highest, window, tf.cast(tf.size(lengths), tf.int64))
    first = tf.math.unsorted_segment_min(among, token, count)
    return window == tf.gather(first, token)
