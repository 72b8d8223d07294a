"""What a model says of each example, in a form that can be kept and averaged."""

import dataclasses
import io
import json
from collections.abc import Sequence

import numpy as np

from albert_tf.tasks import rows


@dataclasses.dataclass(frozen=True)
class Scores:
    """Scores of classes, of choices, or one number, for each example.

    Attributes:
      values: float32 [N, C]: logits, or the number (C is 1).
    """

    values: np.ndarray


@dataclasses.dataclass(frozen=True)
class TokenScores:
    """Scores of the classes of each word.

    Attributes:
      values: a float32 [words, C] an example: logits.
    """

    values: Sequence[np.ndarray]


@dataclasses.dataclass(frozen=True)
class Candidate:
    """An answer that the model may give.

    Attributes:
      text: the part of the context, as it stands there; empty for no answer.
      start: its first character in the context; -1 for no answer.
      end: the character behind its last; -1 for no answer.
      probability: its share among the candidates of its question.
      start_score: of the model for its start: a logit, or nats.
      end_score: of its end.
    """

    text: str
    start: int
    end: int
    probability: float
    start_score: float
    end_score: float


@dataclasses.dataclass(frozen=True)
class Spans:
    """Candidates for each question, the best first.

    Attributes:
      n_best: one list a question, never empty.
      null_odds: how much likelier no answer is, one a question; None where all
        questions have answers.
    """

    n_best: Sequence[Sequence[Candidate]]
    null_odds: Sequence[float] | None


Outputs = Scores | TokenScores | Spans


def to_bytes(ids: Sequence[str], outputs: Outputs) -> bytes:
    """A file of outputs: .npz of scores, JSON of spans.

    Args:
      ids: of the examples.
      outputs: one entry an example.
    """
    if isinstance(outputs, Spans):
        values = {
            "ids": list(ids),
            "n_best": [
                [dataclasses.astuple(candidate) for candidate in candidates]
                for candidates in outputs.n_best
            ],
            "null_odds": None if outputs.null_odds is None else list(outputs.null_odds),
        }
        return json.dumps(values).encode()
    arrays = {"ids": np.array(list(ids), np.str_)}
    if isinstance(outputs, Scores):
        arrays["values"] = outputs.values
    else:
        arrays["token_values"] = np.concatenate(list(outputs.values))
        arrays["num_words"] = np.array([len(v) for v in outputs.values], np.int64)
    content = io.BytesIO()
    np.savez_compressed(content, allow_pickle=False, **arrays)
    return content.getvalue()


def from_bytes(content: bytes) -> tuple[list[str], Outputs]:
    """The ids and outputs that `to_bytes` wrote.

    Raises:
      ValueError: the file is neither of the two, or damaged.
    """
    try:
        return _from_bytes(content)
    except rows.UNREADABLE as error:
        raise ValueError(f"damaged, or no file of outputs: {error}") from error


def _from_bytes(content: bytes) -> tuple[list[str], Outputs]:
    if content[:1] == b"{":
        values = json.loads(content)
        n_best = [[Candidate(*c) for c in row] for row in values["n_best"]]
        return values["ids"], Spans(n_best, values["null_odds"])
    with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
        ids = arrays["ids"].tolist()
        if "values" in arrays:
            return ids, Scores(arrays["values"])
        ends = np.cumsum(arrays["num_words"])[:-1]
        return ids, TokenScores(np.split(arrays["token_values"], ends))


def suffix(outputs: Outputs) -> str:
    """How the name of a file of such outputs ends."""
    return ".json" if isinstance(outputs, Spans) else ".npz"
