"""Exact match and F1 as the official scripts of SQuAD 1.1 and 2.0 define them.

Source: Rajpurkar et al., 2016, section 6.1, and 2018, section 5, and the evaluation
scripts published with the data.
"""

import collections
import re
import string
from collections.abc import Sequence

import numpy as np

from albert_tf.tasks import examples as examples_lib

_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLES = re.compile(r"\b(a|an|the)\b")


def normalize_answer(text: str) -> str:
    """Lower-cases; removes ASCII punctuation and articles; collapses white space."""
    text = text.lower().translate(_NO_PUNCTUATION)
    return " ".join(_ARTICLES.sub(" ", text).split())


def _f1(prediction: list[str], truth: list[str]) -> float:
    """The harmonic mean of precision and recall of the words, as multisets."""
    common = collections.Counter(prediction) & collections.Counter(truth)
    num_same = sum(common.values())
    if not num_same:
        return 0.0
    precision, recall = num_same / len(prediction), num_same / len(truth)
    return 2 * precision * recall / (precision + recall)


def score_question(
    prediction: str, answers: Sequence[str], has_null: bool
) -> tuple[float, float]:
    """Compares a prediction with the annotated answers; the best match counts.

    Args:
      prediction: a text; empty for no answer.
      answers: the annotated ones; empty if there is none.
      has_null: whether to follow SQuAD 2.0, in which a question may have no answer: two
        texts without words are then equal, also for F1, and annotated answers without
        words are ignored if there are others.

    Returns:
      Exact match, 0 or 1, and F1 in [0, 1].
    """
    truths = [normalize_answer(answer) for answer in answers]
    if has_null:
        truths = [truth for truth in truths if truth] or [""]
    found = normalize_answer(prediction)
    exact = float(found in truths)
    if has_null and (not found or truths == [""]):
        return exact, exact
    return exact, max(_f1(found.split(), truth.split()) for truth in truths)


def score_questions(
    examples: Sequence[examples_lib.SpanExample],
    predictions: Sequence[str],
    has_null: bool,
) -> tuple[np.ndarray, np.ndarray]:
    """Exact match and F1 of each question, float64 [N] each.

    Args:
      examples: N with labels; without `has_null` each has an answer.
      predictions: one text per example.
      has_null: see `score_question`.
    """
    scores = [
        score_question(prediction, [a.text for a in example.answers], has_null)
        for example, prediction in zip(examples, predictions, strict=True)
    ]
    exact, f1 = np.array(scores, np.float64).reshape(-1, 2).T
    return exact, f1


def mean_scores(
    examples: Sequence[examples_lib.SpanExample],
    predictions: Sequence[str],
    has_null: bool,
) -> dict[str, float]:
    """Mean exact match and F1, in [0, 1]; the official scripts give percent.

    Args:
      examples: N with labels, at least one.
      predictions: one text per example; empty for no answer.
      has_null: see `score_question`.

    Returns:
      `f1` and `exact_match`; with `has_null` also those of the questions with and
      without an answer (`has_answer_f1`, `no_answer_f1`, ...), if there are any.
    """
    exact, f1 = score_questions(examples, predictions, has_null)
    scores = {"f1": float(f1.mean()), "exact_match": float(exact.mean())}
    if not has_null:
        return scores
    has_answer = np.array([bool(example.answers) for example in examples])
    for name, part in (("has_answer", has_answer), ("no_answer", ~has_answer)):
        if part.any():
            scores[f"{name}_f1"] = float(f1[part].mean())
            scores[f"{name}_exact_match"] = float(exact[part].mean())
    return scores


def best_threshold(
    scores: np.ndarray, null_scores: np.ndarray, null_odds: np.ndarray
) -> tuple[float, float]:
    """Finds the threshold of the null odds that gives the best mean score.

    Questions with null odds above the threshold get no answer.

    Args:
      scores: float64 [N], if all questions are answered.
      null_scores: float64 [N], if none is.
      null_odds: float64 [N], nats.

    Returns:
      The mean score with the threshold, and the threshold, in nats: the odds of the
      last question to answer, or, if answering none is best, 1 below the minimum.
    """
    order = np.argsort(null_odds, kind="stable")
    odds = null_odds[order]
    gains = np.concatenate([[0.0], np.cumsum((scores - null_scores)[order])])
    # Differs from the original: questions with equal odds are answered together, a
    # threshold that answers none is below all odds, and the sum is over the scores of
    # the predictions. The original takes questions one by one, uses 0 to answer none,
    # and derives the score of an unanswered question from whether it has answers.
    reachable = np.concatenate([[True], odds[1:] > odds[:-1], [True]])
    best = int(np.argmax(np.where(reachable, gains, -np.inf)))
    threshold = odds[best - 1] if best else odds[0] - 1.0
    return float(null_scores.mean() + gains[best] / len(scores)), float(threshold)
