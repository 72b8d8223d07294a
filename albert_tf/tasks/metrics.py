"""Metrics, computed with scikit-learn, SciPy and nervaluate.

An undefined metric is 0, without a warning: a correlation or a Matthews coefficient of
constant values, the F1 of a class that is neither a label nor predicted.
"""

from collections.abc import Callable, Sequence
from typing import Any

import nervaluate
import numpy as np
from scipy import stats
from sklearn import metrics

# The BIO label of words outside of entities.
OUTSIDE = "O"


def accuracy(labels: Sequence[Any], predictions: Sequence[Any]) -> float:
    """The fraction of correct predictions, in [0, 1].

    Args:
      labels: N names or ids of classes, N at least 1.
      predictions: N of the same kind.

    Raises:
      ValueError: the lists are empty or differ in length.
    """
    _check(labels, predictions)
    return float(metrics.accuracy_score(labels, predictions))


def f1(labels: Sequence[int], predictions: Sequence[int]) -> float:
    """F1 of class 1 of two, in [0, 1]; arguments and errors as in `accuracy`."""
    _check(labels, predictions)
    return float(metrics.f1_score(labels, predictions, pos_label=1, zero_division=0))


def macro_f1(labels: Sequence[Any], predictions: Sequence[Any]) -> float:
    """The mean F1 over the classes, in [0, 1]; arguments and errors as in `accuracy`.

    The classes are those that occur in either list.
    """
    _check(labels, predictions)
    return float(
        metrics.f1_score(labels, predictions, average="macro", zero_division=0)
    )


def matthews(labels: Sequence[Any], predictions: Sequence[Any]) -> float:
    """Matthews correlation, in [-1, 1]; arguments and errors as in `accuracy`."""
    _check(labels, predictions)
    if len(set(labels)) == 1 or len(set(predictions)) == 1:
        return 0.0  # scikit-learn warns if both have a single class
    return float(metrics.matthews_corrcoef(labels, predictions))


def pearson(targets: Sequence[float], predictions: Sequence[float]) -> float:
    """Pearson's correlation of N numbers each, in [-1, 1]; errors as in `accuracy`."""
    return _correlation(stats.pearsonr, targets, predictions)


def spearman(targets: Sequence[float], predictions: Sequence[float]) -> float:
    """Spearman's correlation of N numbers each, in [-1, 1]; errors as in `accuracy`."""
    return _correlation(stats.spearmanr, targets, predictions)


def mean_squared_error(targets: Sequence[float], predictions: Sequence[float]) -> float:
    """The mean squared error, at least 0; errors as in `accuracy`."""
    _check(targets, predictions)
    return float(metrics.mean_squared_error(targets, predictions))


def is_bio(labels: Sequence[str]) -> bool:
    """Returns whether these are BIO labels: "B-X", "I-X" and "O"."""
    inside = [label for label in labels if label != OUTSIDE]
    return bool(inside) and all(
        label[:2] in ("B-", "I-") and len(label) > 2 for label in inside
    )


def entity_f1(
    labels: Sequence[Sequence[str]], predictions: Sequence[Sequence[str]]
) -> float:
    """F1 of entities, in [0, 1]: both boundaries and the type must be correct.

    An entity begins at "B-X", or at an "I-X" that follows neither "B-X" nor "I-X".

    Args:
      labels: BIO labels of the words of each sentence.
      predictions: of the same words.

    Raises:
      ValueError: the lists are empty, differ in length, or are not BIO labels.
    """
    _check(labels, predictions)
    sentences = [list(row) for row in labels], [list(row) for row in predictions]
    names = {label for side in sentences for row in side for label in row}
    tags = sorted({name[2:] for name in names if name != OUTSIDE})
    results = nervaluate.Evaluator(*sentences, tags=tags, loader="list").evaluate()
    return float(results["overall"]["strict"].f1)


def _correlation(
    function: Callable[..., Any], targets: Sequence[float], predictions: Sequence[float]
) -> float:
    _check(targets, predictions)
    first, second = (np.asarray(v, np.float64) for v in (targets, predictions))
    if np.ptp(first) == 0 or np.ptp(second) == 0:
        return 0.0
    return float(function(first, second).statistic)


def _check(labels: Sequence[Any], predictions: Sequence[Any]) -> None:
    if len(labels) != len(predictions):
        raise ValueError(
            "there must be as many predictions as labels; received "
            f"{len(predictions)} and {len(labels)}. Pass the predictions for the "
            "labelled examples"
        )
    if not len(labels):
        raise ValueError(
            "metrics need at least one example; received none. Use a split with "
            "examples"
        )
