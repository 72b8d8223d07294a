"""Checks and error messages that several tasks share."""

import math
from collections.abc import Sequence

import numpy as np

from albert_tf.tasks import predictions as predictions_lib


def finite_number(text: str) -> float | None:
    """Parses a finite number; None if the text is not one."""
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def require_labels(labels: tuple[str, ...]) -> tuple[str, ...]:
    """Returns the labels.

    Raises:
      ValueError: they are empty.
    """
    if not labels:
        raise ValueError(
            "the classes must be known; received none. Read the training examples "
            "first, or pass the labels of the model"
        )
    return labels


def require_two_labels(path: str, labels: Sequence[str]) -> None:
    """Checks the labels of a training file.

    Raises:
      ValueError: there are fewer than two.
    """
    if len(labels) < 2:
        raise ValueError(
            f"{path}: training needs at least two classes; received "
            f"{', '.join(labels)}. Check which column holds the labels"
        )


def require_logits(predictions: predictions_lib.Predictions) -> np.ndarray:
    """Returns the values of `predictions_lib.Logits`, float32 [N, C].

    Raises:
      TypeError: these are predictions of another kind of task.
    """
    if not isinstance(predictions, predictions_lib.Logits):
        raise TypeError(
            f"predictions must be Logits; received {type(predictions).__name__}"
        )
    return predictions.values


def unknown_label_rule(labels: Sequence[str]) -> str:
    """The error message for a label that is not one of the classes."""
    return f"the label must be one of {', '.join(labels):.200}"


def unlabelled(origin: str) -> str:
    """The error message for an example that needs a label and has none."""
    return (
        f"{origin}: an example for training or metrics must have a label; "
        "received none. Use a split with labels"
    )
