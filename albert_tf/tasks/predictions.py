"""Predictions for examples, which can be saved and averaged."""

import dataclasses
import io
import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from albert_tf.core import short_repr, strict_json, validation
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


_DIGEST = "texts_digest"


def to_bytes(
    ids: Sequence[str], predictions: Predictions, texts_digest: str = ""
) -> bytes:
    """Serializes predictions: spans as JSON, all others as .npz.

    Args:
      ids: of the examples.
      predictions: one entry per example.
      texts_digest: `examples.digest` of the examples, without labels.
    """
    if isinstance(predictions, AnswerSpans):
        values = {
            "ids": list(ids),
            _DIGEST: texts_digest,
            "n_best": [
                [dataclasses.astuple(candidate) for candidate in candidates]
                for candidates in predictions.n_best
            ],
            "null_odds": None
            if predictions.null_odds is None
            else list(predictions.null_odds),
        }
        return json.dumps(values).encode()
    arrays = {
        "ids": np.array(list(ids), np.str_),
        _DIGEST: np.array(texts_digest, np.str_),
    }
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
    with features.naming_damage("predictions"):
        return _from_bytes(content)


def texts_digest(content: bytes) -> str:
    """Reads the digest that `to_bytes` wrote; empty if an earlier version did.

    Raises:
      ValueError: the content is of neither form, or damaged.
    """
    with features.naming_damage("predictions"):
        if content[:1] == b"{":
            values = _load_spans(content)
            found = values[_DIGEST] if _DIGEST in values else ""
        else:
            with features.open_arrays(content) as arrays:
                found = arrays[_DIGEST].tolist() if _DIGEST in arrays else ""
        validation.require(isinstance(found, str), f"{_DIGEST} must be text", found)
        return found


def _from_bytes(content: bytes) -> tuple[list[str], Predictions]:
    if content[:1] == b"{":
        return _read_spans(content)
    with features.open_arrays(content) as arrays:
        ids = arrays["ids"]
        is_text = ids.ndim == 1 and ids.dtype.kind == "U"
        validation.require(is_text, "ids must be text", ids.dtype)
        if "values" in arrays:
            _require_logits(arrays["values"], len(ids))
            return ids.tolist(), Logits(arrays["values"])
        num_words, values = arrays["num_words"], arrays["token_values"]
    are_counts = (
        num_words.shape == ids.shape
        and num_words.dtype.kind == "i"
        and bool(np.all((num_words >= 0) & (num_words <= len(values))))
    )
    rule = "num_words must hold a number of words for each example"
    validation.require(are_counts, rule, num_words)
    _require_logits(values, int(num_words.sum()))
    return ids.tolist(), TokenLogits(np.split(values, np.cumsum(num_words)[:-1]))


def _require_logits(values: np.ndarray, num_rows: int) -> None:
    validation.require(
        values.ndim == 2 and values.dtype.kind == "f" and len(values) == num_rows,
        f"logits must be floats for {num_rows} rows",
        f"{values.dtype} {list(values.shape)}",
    )


# The types of the fields of a candidate, which is saved as an array.
_NUMBER = (int, float)
_CANDIDATE = ((str,), (int,), (int,), _NUMBER, _NUMBER, _NUMBER)


def _load_spans(content: bytes) -> Any:
    # Leniently: odds may be infinite.
    return strict_json.loads(
        content, "the file", lenient=True, max_bytes=strict_json.MAX_DATA_BYTES
    )


def _read_spans(content: bytes) -> tuple[list[str], AnswerSpans]:
    values = _load_spans(content)
    ids, n_best, null_odds = (values.get(n) for n in ("ids", "n_best", "null_odds"))
    for name, holds in (
        ("ids", _is_list(ids, str)),
        ("n_best", _is_list(n_best, list) and len(n_best) == len(ids)),
        (
            "null_odds",
            null_odds is None
            or (_is_list(null_odds, *_NUMBER) and len(null_odds) == len(ids)),
        ),
    ):
        if not holds:
            raise ValueError(f"{name} must hold a value for each example, of its type")
    for candidates in n_best:
        if not candidates or not all(map(_is_candidate, candidates)):
            raise ValueError(
                "n_best must hold candidates as albert_tf.finetune writes them; "
                f"received {short_repr.shown(candidates)}"
            )
    return ids, AnswerSpans([[Candidate(*c) for c in row] for row in n_best], null_odds)


def _is_list(value: object, *types: type) -> bool:
    return isinstance(value, list) and all(type(one) in types for one in value)


def _is_candidate(value: object) -> bool:
    return (
        isinstance(value, list)
        and len(value) == len(_CANDIDATE)
        and all(
            type(one) in types for one, types in zip(value, _CANDIDATE, strict=True)
        )
    )


def suffix(predictions: Predictions) -> str:
    """The file name extension for `to_bytes`."""
    return ".json" if isinstance(predictions, AnswerSpans) else ".npz"
