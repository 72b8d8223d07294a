"""Search for the best answers to each question among the scores of positions.

The candidates of all windows of a question compete; a start token counts only in the
window with its maximal context. The rules, and the order among equal scores, are those
of the original.

Letters: R rows, S positions, K starts, M ends.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from albert_tf.core import task_config
from albert_tf.tasks import examples as examples_lib
from albert_tf.tasks import features as features_lib
from albert_tf.tasks import predictions as predictions_lib

# The original's score of the answer to a question without an allowed span.
NO_SPAN_SCORE = -1e6
_ROWS_AT_ONCE = 1024  # 400 pairs of 20 starts and ends each: some 10 MB


class _Spans(NamedTuple):
    """Allowed spans, C of all rows.

    row: int64 [C], ascending.
    start: int64 [C], index of the first token in the flat arrays of `Features`.
    end: int64 [C], of the last.
    start_score, end_score: float64 [C].
    """

    row: np.ndarray
    start: np.ndarray
    end: np.ndarray
    start_score: np.ndarray
    end_score: np.ndarray


def from_logits(
    examples: Sequence[examples_lib.SpanExample],
    features: features_lib.Features,
    model_outputs: Mapping[str, np.ndarray],
    settings: task_config.TaskConfig,
) -> predictions_lib.AnswerSpans:
    """Finds the best answers to questions that all have one (SQuAD 1.1).

    The `n_best_size` best starts of each window are paired with as many ends. As in the
    original, these are the best of all positions, including padding.

    Args:
      examples: of the features.
      features: from `windows.encode`.
      model_outputs: `start_logits` and `end_logits` [R, S].
      settings: `n_best_size` and `max_answer_length` are used.
    """
    found = []
    for first in range(0, features.num_rows, _ROWS_AT_ONCE):
        part = slice(first, first + _ROWS_AT_ONCE)
        best, scores = {}, {}
        for side in ("start", "end"):
            logits = np.asarray(model_outputs[f"{side}_logits"][part])
            order = np.argsort(-logits, axis=1, kind="stable")
            best[side] = order[:, : settings.n_best_size]
            scores[side] = np.take_along_axis(logits, best[side], 1)
        found.append(
            _allowed(
                features,
                first,
                best["start"],
                best["end"][:, None],
                scores["start"],
                scores["end"][:, None],
                settings.max_answer_length,
            )
        )
    return predictions_lib.AnswerSpans(
        _n_best(examples, features, _concatenate(found), settings.n_best_size), None
    )


def from_beams(
    examples: Sequence[examples_lib.SpanExample],
    features: features_lib.Features,
    model_outputs: Mapping[str, np.ndarray],
    settings: task_config.TaskConfig,
) -> predictions_lib.AnswerSpans:
    """Finds the best answers, and the odds that there is none (SQuAD 2.0).

    Args:
      examples: of the features.
      features: from `windows.encode`.
      model_outputs: `start_log_probs` and `start_positions` [R, K], `end_log_probs` and
        `end_positions` [R, K, M], `impossible_logits` [R].
      settings: `n_best_size` and `max_answer_length` are used.

    Returns:
      The null odds are logits, in nats: the minimum over the windows of a question, as
      one window with an answer suffices.
    """
    found = []
    for first in range(0, features.num_rows, _ROWS_AT_ONCE):
        part = slice(first, first + _ROWS_AT_ONCE)
        found.append(
            _allowed(
                features,
                first,
                model_outputs["start_positions"][part],
                model_outputs["end_positions"][part],
                model_outputs["start_log_probs"][part],
                model_outputs["end_log_probs"][part],
                settings.max_answer_length,
            )
        )
    null_odds = np.full(len(examples), np.inf)
    np.minimum.at(null_odds, features.example_index, model_outputs["impossible_logits"])
    return predictions_lib.AnswerSpans(
        _n_best(
            examples, features, _merge_equal(_concatenate(found)), settings.n_best_size
        ),
        null_odds.tolist(),
    )


def _allowed(
    features: features_lib.Features,
    first: int,
    starts: np.ndarray,
    ends: np.ndarray,
    start_scores: np.ndarray,
    end_scores: np.ndarray,
    max_answer_length: int,
) -> _Spans:
    """Returns the allowed pairs of start and end, ordered as the arguments.

    Args:
      features: of all rows.
      first: the first of the B rows.
      starts: int [B, K], positions in the row.
      ends: int [B, K or 1, M].
      start_scores: float [B, K].
      end_scores: as `ends`.
      max_answer_length: tokens.
    """
    begins = features.offsets[first : first + len(starts), None]  # [B, 1]
    lengths = features.offsets[first + 1 : first + 1 + len(starts), None] - begins
    # Padding is not in the flat arrays; it is mapped to the row's last token, a [SEP],
    # at which no answer starts.
    places = np.minimum(starts, lengths - 1) + begins  # [B, K]
    is_max = features.notes["is_max_context"][places]
    distance = ends - starts[:, :, None]  # [B, K, M]
    allowed = (
        is_max[:, :, None]
        & (distance >= 0)
        & (distance < max_answer_length)
        & (ends < lengths[:, :, None] - 1)  # the last token is [SEP]
    )
    row, k, m = np.nonzero(allowed)
    scores = np.broadcast_to(end_scores, allowed.shape)
    return _Spans(
        row + first,
        places[row, k],
        places[row, k] + distance[row, k, m],
        start_scores[row, k].astype(np.float64),
        scores[row, k, m].astype(np.float64),
    )


def _concatenate(parts: Sequence[_Spans]) -> _Spans:
    return _Spans(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))


def _merge_equal(found: _Spans) -> _Spans:
    """Merges equal pairs: the place of the first, and the mean of the scores.

    `top_k` returns no position twice, but outputs from elsewhere may have duplicates.
    """
    distance = found.end - found.start
    pairs = found.start * (1 + distance.max(initial=0)) + distance
    _, first, group = np.unique(pairs, return_index=True, return_inverse=True)
    counts = np.bincount(group)
    order = np.argsort(first)
    kept = first[order]
    means = [
        (np.bincount(group, scores) / counts)[order]
        for scores in (found.start_score, found.end_score)
    ]
    return _Spans(found.row[kept], found.start[kept], found.end[kept], *means)


def _n_best(
    examples: Sequence[examples_lib.SpanExample],
    features: features_lib.Features,
    found: _Spans,
    n_best_size: int,
) -> list[list[predictions_lib.Candidate]]:
    """Returns the best spans of each example, without duplicate texts."""
    example = features.example_index[found.row]
    order = np.lexsort((-(found.start_score + found.end_score), example))  # stable
    bounds = np.searchsorted(example[order], np.arange(len(examples) + 1))
    starts = features.notes["char_starts"][found.start[order]].tolist()
    ends = features.notes["char_ends"][found.end[order]].tolist()
    start_scores = found.start_score[order].tolist()
    end_scores = found.end_score[order].tolist()
    result = []
    for number, source in enumerate(examples):
        best: dict[str, tuple[int, int, float, float]] = {}
        for i in range(bounds[number], bounds[number + 1]):
            start, end = _strip(source.context, starts[i], ends[i])
            text = source.context[start:end] if end > start else ""
            if text not in best:
                best[text] = start, end, start_scores[i], end_scores[i]
                if len(best) == n_best_size:
                    break
        # Differs from the original: without an allowed span the answer is empty in
        # SQuAD 1.1 too, not the word "empty".
        best = best or {"": (-1, -1, NO_SPAN_SCORE, NO_SPAN_SCORE)}
        shares = _softmax([scored[2] + scored[3] for scored in best.values()])
        result.append(
            [
                predictions_lib.Candidate(text, start, end, share, *scores)
                for (text, (start, end, *scores)), share in zip(
                    best.items(), shares, strict=True
                )
            ]
        )
    return result


def _strip(context: str, start: int, end: int) -> tuple[int, int]:
    """Strips white space from a span; -1 and -1 if nothing is left."""
    text = context[start:end]
    stripped = text.strip()
    if not stripped:
        return -1, -1
    start += len(text) - len(text.lstrip())
    return start, start + len(stripped)


def _softmax(scores: list[float]) -> list[float]:
    shares = np.exp(np.array(scores) - max(scores))
    return (shares / shares.sum()).tolist()
