"""Averages the predictions of several models for the same examples.

The models may differ in everything, including the vocabulary: predictions refer to
examples and to positions in their texts.
"""

import collections
from collections.abc import Sequence

import numpy as np

from albert_tf.tasks import predictions as predictions_lib


def average(
    members: Sequence[predictions_lib.Predictions],
) -> predictions_lib.Predictions:
    """Returns the mean of logits, or of the probabilities of answers.

    An answer that is not among a model's candidates has probability 0 for that model.

    Args:
      members: at least one, of the same examples in the same order.

    Raises:
      ValueError: they differ in kind or in the number of classes.
    """
    kinds = sorted({type(member).__name__ for member in members})
    if len(kinds) > 1:
        raise ValueError(
            f"only predictions of one kind can be averaged; received {kinds}"
        )
    spans = [m for m in members if isinstance(m, predictions_lib.AnswerSpans)]
    if spans:
        return _average_spans(spans)
    logits = [m.values for m in members if isinstance(m, predictions_lib.Logits)]
    if logits:
        return predictions_lib.Logits(_mean(logits))
    words = [m.values for m in members if isinstance(m, predictions_lib.TokenLogits)]
    return predictions_lib.TokenLogits(
        [_mean(of_example) for of_example in zip(*words, strict=True)]
    )


def _mean(values: Sequence[np.ndarray]) -> np.ndarray:
    shapes = {value.shape for value in values}
    if len(shapes) > 1:
        raise ValueError(
            f"examples and classes must be the same in all; received {sorted(shapes)}"
        )
    return np.mean(values, axis=0).astype(np.float32)


def _average_spans(
    members: Sequence[predictions_lib.AnswerSpans],
) -> predictions_lib.AnswerSpans:
    with_odds = [m.null_odds for m in members if m.null_odds is not None]
    if with_odds and len(with_odds) < len(members):
        raise ValueError(
            "either all models or none must support questions without an answer; "
            f"received {len(with_odds)} of {len(members)} that do"
        )
    return predictions_lib.AnswerSpans(
        [
            _average_candidates(lists, len(members))
            for lists in zip(*(member.n_best for member in members), strict=True)
        ],
        np.mean(with_odds, axis=0).tolist() if with_odds else None,
    )


def _average_candidates(
    lists: Sequence[Sequence[predictions_lib.Candidate]], num_members: int
) -> list[predictions_lib.Candidate]:
    """The best candidates of all lists, as many as the longest list has."""
    found: dict[tuple[int, int], list[predictions_lib.Candidate]] = (
        collections.defaultdict(list)
    )
    for candidates in lists:
        for candidate in candidates:
            found[candidate.start, candidate.end].append(candidate)
    averaged = [
        predictions_lib.Candidate(
            same[0].text,
            start,
            end,
            sum(candidate.probability for candidate in same) / num_members,
            float(np.mean([candidate.start_score for candidate in same])),
            float(np.mean([candidate.end_score for candidate in same])),
        )
        for (start, end), same in found.items()
    ]
    averaged.sort(key=lambda candidate: -candidate.probability)
    return averaged[: max(map(len, lists))]
