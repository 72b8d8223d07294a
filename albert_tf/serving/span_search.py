"""Searches the best answer among scores of starts and ends.

Shapes: T questions, R windows, S positions of a window, J candidates of a window, P
candidates of a question.
"""

from typing import NamedTuple

import tensorflow as tf

from albert_tf.core import task_config
from albert_tf.serving import windows as windows_lib

_EXCLUDED = float("-inf")
# Candidates searched for `n_best_size` different answers, as a multiple of it.
_SEARCH_FACTOR = 4


class Candidates(NamedTuple):
    """Spans within windows.

    scores: float32 [R, J], of start and end together; -inf if excluded.
    starts: int32 [R, J], positions in the row.
    ends: int32 [R, J], the last position.
    """

    scores: tf.Tensor
    starts: tf.Tensor
    ends: tf.Tensor


class SpanAnswers(NamedTuple):
    """The best answer of each question.

    answer: string [T], empty if there is no candidate.
    start: int32 [T], its first code point in the context; -1 without an answer.
    end: int32 [T], the code point after its last; -1 without an answer.
    probability: float32 [T], among the best candidates; 1 for the only one.
    """

    answer: tf.Tensor
    start: tf.Tensor
    end: tf.Tensor
    probability: tf.Tensor


def from_logits(
    start_logits, end_logits, windows: windows_lib.Windows, n_best_size: int
) -> Candidates:
    """Combines the best starts of each window with its best ends.

    Args:
      start_logits: float32 [R, S].
      end_logits: float32 [R, S].
      windows: whose padding is excluded first, so that an answer does not depend on
        the other texts in the call.
      n_best_size: number of starts and of ends.
    """
    is_token = windows.features["input_mask"] > 0
    count = tf.minimum(n_best_size, tf.shape(start_logits)[1])
    starts = tf.math.top_k(tf.where(is_token, start_logits, _EXCLUDED), count)
    ends = tf.math.top_k(tf.where(is_token, end_logits, _EXCLUDED), count)
    shape = [tf.shape(start_logits)[0], count * count]
    scores = starts.values[:, :, None] + ends.values[:, None, :]
    square = tf.zeros_like(scores, tf.int32)
    return Candidates(
        tf.reshape(scores, shape),
        tf.reshape(starts.indices[:, :, None] + square, shape),
        tf.reshape(ends.indices[:, None, :] + square, shape),
    )


def from_beams(
    start_log_probs, start_positions, end_log_probs, end_positions
) -> Candidates:
    """Combines starts with the ends that were found for each.

    Args:
      start_log_probs: float32 [R, K].
      start_positions: int32 [R, K].
      end_log_probs: float32 [R, K, M].
      end_positions: int32 [R, K, M].
    """
    count = tf.shape(end_positions)[1] * tf.shape(end_positions)[2]
    shape = [tf.shape(end_positions)[0], count]
    starts = start_positions[:, :, None] + tf.zeros_like(end_positions)
    return Candidates(
        tf.reshape(start_log_probs[:, :, None] + end_log_probs, shape),
        tf.reshape(starts, shape),
        tf.reshape(end_positions, shape),
    )


def best_answers(
    candidates: Candidates,
    windows: windows_lib.Windows,
    contexts: tf.Tensor,
    starts: tf.Tensor,
    ends: tf.Tensor,
    settings: task_config.TaskConfig,
) -> SpanAnswers:
    """Finds the best span of each question over its windows, by the original's rules.

    A span lies within a window, starts where no other window has more context, and has
    at most `max_answer_length` tokens. Of spans with the same text the best counts.
    Probabilities are a softmax over the `n_best_size` best, which are searched among
    four times as many.

    Args:
      candidates: of all windows.
      windows: of T questions.
      contexts: string [T], valid UTF-8.
      starts: int32, first code points of the tokens of all contexts.
      ends: int32, the code points after their last.
      settings: lengths.
    """
    scores, row, first, last = _best_candidates(
        candidates, windows, tf.cast(tf.size(contexts), tf.int64), settings
    )
    shift = tf.cast(windows.starts - windows.offsets, tf.int32)
    shift = tf.gather(shift, row)  # from positions to tokens of all contexts
    is_there = scores > _EXCLUDED
    start = _places(starts, first + shift, is_there)
    end = _places(ends, last + shift, is_there)
    # A span of whitespace alone is empty.
    is_text = is_there & (end > start)
    start, end = tf.where(is_text, start, -1), tf.where(is_text, end, -1)
    texts = tf.strings.substr(
        contexts[:, None] + tf.zeros_like(start, tf.string),
        tf.maximum(start, 0),
        end - start,
        "UTF8_CHAR",
    )
    probabilities = _probabilities(scores, texts, is_there, settings.n_best_size)
    return SpanAnswers(texts[:, 0], start[:, 0], end[:, 0], probabilities)


def _best_candidates(
    candidates: Candidates,
    windows: windows_lib.Windows,
    num_texts: tf.Tensor,
    settings: task_config.TaskConfig,
) -> tuple[tf.Tensor, ...]:
    """Returns scores, windows, starts and ends of the best spans, [T, P] each."""
    allowed = _allowed(candidates, windows, settings.max_answer_length)
    scores = tf.where(allowed, candidates.scores, _EXCLUDED)
    size = settings.n_best_size * _SEARCH_FACTOR
    best = tf.math.top_k(scores, tf.minimum(size, tf.shape(scores)[1]))
    row = tf.range(tf.shape(scores)[0])[:, None] + tf.zeros_like(best.indices)

    def of_texts(values, padding):  # [R, J] to [T, P]
        rows = tf.RaggedTensor.from_value_rowids(
            values, windows.text_index, num_texts, validate=False
        )
        dense = rows.merge_dims(1, 2).to_tensor(padding)
        # One more, so that there is a first even if there are no texts.
        return tf.pad(dense, [[0, 0], [0, 1]], constant_values=padding)

    scores = of_texts(tf.RaggedTensor.from_tensor(best.values), _EXCLUDED)
    best_of_text = tf.math.top_k(scores, tf.minimum(size, tf.shape(scores)[1]))

    def chosen(values):
        dense = of_texts(tf.RaggedTensor.from_tensor(values), 0)
        return tf.gather(dense, best_of_text.indices, batch_dims=1)

    return (
        best_of_text.values,
        chosen(row),
        chosen(tf.gather(candidates.starts, best.indices, batch_dims=1)),
        chosen(tf.gather(candidates.ends, best.indices, batch_dims=1)),
    )


def _allowed(candidates, windows, max_answer_length: int) -> tf.Tensor:
    """Bool [R, J]."""
    first, last = candidates.starts, candidates.ends
    begin = tf.cast(windows.offsets, tf.int32)[:, None]
    limit = begin + tf.cast(windows.lengths, tf.int32)[:, None]
    length = last - first + 1
    return (
        (first >= begin)
        & (last < limit)
        & (length >= 1)
        & (length <= max_answer_length)
        & tf.gather(windows.is_max_context, first, batch_dims=1)
    )


def _places(places, tokens, is_there) -> tf.Tensor:
    """Returns `places` [tokens of all contexts] at `tokens`; -1 if there is none."""
    padded = tf.concat([places, [-1]], 0)
    return tf.gather(padded, tf.where(is_there, tokens, tf.size(places)))


def _probabilities(scores, texts, is_there, n_best_size: int) -> tf.Tensor:
    """Returns the probability of the first of each row [T, P] among its best texts."""
    same = texts[:, :, None] == texts[:, None, :]  # [T, P, P]
    places = tf.range(tf.shape(texts)[1])
    repeats = tf.reduce_any(same & (places < places[:, None]), 2)
    counts = is_there & ~repeats
    rank = tf.cumsum(tf.cast(counts, tf.int32), 1)
    counts &= rank <= n_best_size
    relative = tf.where(counts, scores - scores[:, :1], _EXCLUDED)
    total = tf.reduce_sum(tf.where(counts, tf.exp(relative), 0.0), 1)
    return tf.where(is_there[:, 0], 1.0 / tf.maximum(total, 1.0), 1.0)
