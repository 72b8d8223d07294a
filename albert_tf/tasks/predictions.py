"""Predictions for examples, which can be saved and averaged."""

import dataclasses
import io
import json
from collections.abc import Sequence

import numpy as np

from albert_tf.tasks import features


@dataclasses.dataclass(frozen=True)
class Logits:
    """Logits of classes or choices, or one regression output, for each example.

    Attributes:
      values: float32 [N, C]; C is 1 in regression.
    """

    values: np.ndarray


@dataclasses.dataclass(frozen=True)
class TokenLogits:
    """Logits of the classes of each word.

    Attributes:
      values: a float32 [words, C] per example.
    """

    values: Sequence[np.ndarray]


@dataclasses.dataclass(frozen=True)
class Candidate:
    """A possible answer.

    Attributes:
      text: the span of the context; empty for no answer.
      start: index of its first character in the context; -1 for no answer.
      end: exclusive; -1 for no answer.
      probability: softmax over the candidates of the question.
      start_score: the model's score of its start: a logit, or a log probability (nats).
      end_score: of its end.
    """

    text: str
    start: int
    end: int
    probability: float
    start_score: float
    end_score: float


@dataclasses.dataclass(frozen=True)
class AnswerSpans:
    """Candidates for each question, the best first.

    Attributes:
      n_best: one list per question, never empty.
      null_odds: log odds that there is no answer, one per question; None if all
        questions have answers.
    """

    n_best: Sequence[Sequence[Candidate]]
    null_odds: Sequence[float] | None


Predictions = Logits | TokenLogits | AnswerSpans


def to_bytes(ids: Sequence[str], predictions: Predictions) -> bytes:
    """Serializes predictions: spans as JSON, all others as .npz.

    Args:
      ids: of the examples.
      predictions: one entry per example.
    """
    if isinstance(predictions, AnswerSpans):
        values = {
            "ids": list(ids),
            "n_best": [
                [dataclasses.astuple(candidate) for candidate in candidates]
                for candidates in predictions.n_best
            ],
            "null_odds": None
            if predictions.null_odds is None
            else list(predictions.null_odds),
        }
        return json.dumps(values).encode()
    arrays = {"ids": np.array(list(ids), np.str_)}
    if isinstance(predictions, Logits):
        arrays["values"] = predictions.values
    else:
        arrays["token_values"] = np.concatenate(list(predictions.values))
        arrays["num_words"] = np.array([len(v) for v in predictions.values], np.int64)
    content = io.BytesIO()
    np.savez_compressed(content, allow_pickle=False, **arrays)
    return content.getvalue()


def from_bytes(content: bytes) -> tuple[list[str], Predictions]:
    """Reads the ids and predictions that `to_bytes` wrote.

    Raises:
      ValueError: the content is of neither form, or damaged.
    """
    try:
        return _from_bytes(content)
    except features.UNREADABLE as error:
        raise ValueError(f"damaged, or not a file of predictions: {error}") from error


def _from_bytes(content: bytes) -> tuple[list[str], Predictions]:
    if content[:1] == b"{":
        values = json.loads(content)
        n_best = [[Candidate(*c) for c in row] for row in values["n_best"]]
        return values["ids"], AnswerSpans(n_best, values["null_odds"])
    with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
        ids = arrays["ids"].tolist()
        if "values" in arrays:
            return ids, Logits(arrays["values"])
        ends = np.cumsum(arrays["num_words"])[:-1]
        return ids, TokenLogits(np.split(arrays["token_values"], ends))


def suffix(predictions: Predictions) -> str:
    """The file name extension for `to_bytes`."""
    return ".json" if isinstance(predictions, AnswerSpans) else ".npz"
