"""Examples as read from the files, before tokenization."""

import collections
import dataclasses
import hashlib
import json
from collections.abc import Iterable
from typing import Any

from albert_tf.core import short_repr

# The attributes of examples that say what is correct.
_LABELS = ("label", "labels", "answers", "is_impossible")


@dataclasses.dataclass(frozen=True)
class TextExample:
    """A text or a pair of texts.

    Attributes:
      id: from the file, or the number of the example.
      text_a: the text, or the first of the pair.
      text_b: the second; None for a single text.
      label: the name of its class, a number, or None if unknown.
      origin: `path:line`.
    """

    id: str
    text_a: str
    text_b: str | None
    label: str | float | None
    origin: str


@dataclasses.dataclass(frozen=True)
class TokenExample:
    """Words with one label each.

    Attributes:
      id: its number in the file.
      words: from the file.
      labels: one per word, or None if unknown.
      origin: `path:line` of the first word.
    """

    id: str
    words: tuple[str, ...]
    labels: tuple[str, ...] | None
    origin: str


@dataclasses.dataclass(frozen=True)
class Answer:
    """An annotated answer within a context.

    Attributes:
      text: as annotated.
      start: index of its first character in the context.
    """

    text: str
    start: int


@dataclasses.dataclass(frozen=True)
class SpanExample:
    """A question whose answer is a span of a context.

    Attributes:
      id: of the question.
      question: its text.
      context: the text to read.
      answers: the annotated ones, of which training uses the first; empty if there are
        none or they are unknown.
      is_impossible: whether the question is marked as not answered by the context.
      origin: `path: question ID`.
    """

    id: str
    question: str
    context: str
    answers: tuple[Answer, ...]
    is_impossible: bool
    origin: str


@dataclasses.dataclass(frozen=True)
class ChoiceExample:
    """A question with options, one of which is correct.

    Attributes:
      id: of the question.
      context: the text to read.
      question: may contain a blank, `_`, which the option fills.
      options: their texts.
      label: the index of the correct one, or None if unknown.
      group: a subset with metrics of its own, such as "middle".
      origin: `path: question NUMBER`.
    """

    id: str
    context: str
    question: str
    options: tuple[str, ...]
    label: int | None
    group: str
    origin: str


def digest(examples: Iterable[Any], with_labels: bool) -> str:
    """Returns a digest of ids and texts, wherever their files are.

    Args:
      examples: of one split.
      with_labels: whether the digest depends on what is correct, too.
    """
    left_out = ("origin",) if with_labels else ("origin", *_LABELS)
    found = hashlib.sha256()
    for example in examples:
        values = dataclasses.asdict(example)
        for name in left_out:
            values.pop(name, None)
        found.update(json.dumps(values).encode() + b"\n")
    return found.hexdigest()


class Problems:
    """Examples that cannot be used: the first raises an error, or all are skipped."""

    def __init__(self, skip: bool):
        self._skip = skip
        self._counts: collections.Counter[str] = collections.Counter()
        self._first: dict[str, str] = {}

    def add(
        self,
        origin: str,
        rule: str,
        received: object,
        advice: str = "",
        reason: str = "",
    ) -> None:
        """Records an example that cannot be used.

        Args:
          origin: its place, such as `path:line`.
          rule: the condition that it violates; problems are counted by it.
          received: the value that violates the rule.
          advice: how to fix it, if the rule does not say so.
          reason: why the value violates the rule, if that cannot be seen.

        Raises:
          ValueError: examples are not to be skipped.
        """
        if not self._skip:
            advice = advice or (
                "Fix it, or skip such examples with --set task.on_bad_example=skip"
            )
            shown = short_repr.shown(received) + (f" ({reason})" if reason else "")
            raise ValueError(f"{origin}: {rule}; received {shown}. {advice}")
        self._counts[rule] += 1
        self._first.setdefault(rule, origin)

    def lines(self) -> list[str]:
        """Messages about the skipped examples, one per rule."""
        return [
            f"skipped {count:,}: {rule} (the first is {self._first[rule]})"
            for rule, count in self._counts.items()
        ]
