"""Selection and formatting of the wrong answers of a fine-tuned model."""

import math
import string
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from albert_tf.reports import finetuning_charts

MAX_ERRORS = 20
# Characters of a text that are shown, and of a context around a marked span.
_MAX_TEXT = 600
_MAX_AROUND = 160
_RIGHT, _WRONG, _BOTH = "right", "wrong", "right wrong"


class Piece(NamedTuple):
    """Part of a text; `mark` is "", "right", "wrong" or "right wrong"."""

    text: str
    mark: str = ""


class Error(NamedTuple):
    """A wrong answer.

    Attributes:
      texts: (what it is, its pieces).
      right: the label; empty if the text shows it.
      given: the prediction.
      certainty: the probability, or the error; empty if that is not known.
    """

    texts: tuple[tuple[str, tuple[Piece, ...]], ...]
    right: str
    given: str
    certainty: str


def worst(kind: str, answers: Sequence[Mapping[str, Any]]) -> tuple[list[Error], int]:
    """Returns the wrong answers with the highest probability or the largest error.

    Args:
      kind: a key of `task_model.HEADS`.
      answers: with labels.

    Returns:
      At most MAX_ERRORS of them, the worst first, and the number of all.
    """
    wrong = sorted(
        (answer for answer in answers if _badness(kind, answer) > 0),
        key=lambda answer: -_badness(kind, answer),
    )
    forms = {
        "classification": _of_texts,
        "regression": _of_number,
        "token_classification": _of_words,
        "multiple_choice": _of_choice,
    }
    form = forms.get(kind, _of_span)
    return [form(answer) for answer in wrong[:MAX_ERRORS]], len(wrong)


def _badness(kind: str, answer: Mapping[str, Any]) -> float:
    """0 for a right answer; the greater, the worse."""
    if kind == "regression":
        distance = abs(float(answer["prediction"]) - float(answer["label"]))
        return distance if math.isfinite(distance) else math.inf
    if kind == "token_classification":
        pairs = zip(answer["label"], answer["prediction"], strict=False)
        return sum(label != prediction for label, prediction in pairs)
    if "span" in kind:
        is_right = bool(answer["is_correct"])
    else:
        is_right = answer["label"] == answer["prediction"]
    # Where no probability is kept, the order of the file remains.
    return 0.0 if is_right else 1.0 + (_probability(answer) or 0.0)


def _probability(answer: Mapping[str, Any]) -> float | None:
    value = answer.get("probability")
    return float(value) if isinstance(value, int | float) else None


def _certainty(answer: Mapping[str, Any]) -> str:
    probability = _probability(answer)
    return "" if probability is None else f"{probability:.1%}"


def _whole(text: str) -> tuple[Piece, ...]:
    is_long = len(text) > _MAX_TEXT
    return (Piece(f"{text[:_MAX_TEXT]} …" if is_long else text),)


def _texts(answer: Mapping[str, Any]) -> tuple[tuple[str, tuple[Piece, ...]], ...]:
    names = ("text_a", "text_b")
    given = [answer[name] for name in names if answer.get(name) is not None]
    return tuple(("", _whole(text)) for text in given)


def _of_texts(answer: Mapping[str, Any]) -> Error:
    label, prediction = str(answer["label"]), str(answer["prediction"])
    return Error(_texts(answer), label, prediction, _certainty(answer))


def _of_number(answer: Mapping[str, Any]) -> Error:
    label, prediction = float(answer["label"]), float(answer["prediction"])
    off = f"{prediction - label:+.3g}"
    return Error(_texts(answer), f"{label:.4g}", f"{prediction:.4g}", off)


def _of_words(answer: Mapping[str, Any]) -> Error:
    """Words whose label is wrong are followed by what was said and what is right."""
    pieces = []
    triples = zip(answer["words"], answer["label"], answer["prediction"], strict=False)
    for word, label, prediction in triples:
        if label == prediction:
            pieces.append(Piece(f"{word} "))
        else:
            pieces.append(Piece(word, _WRONG))
            pieces.append(Piece(f" ({prediction}, not {label}) "))
    return Error((("", tuple(pieces)),), "", "", "")


def _of_choice(answer: Mapping[str, Any]) -> Error:
    label, prediction = answer["label"], answer["prediction"]
    options = []
    for letter, option in zip(string.ascii_uppercase, answer["options"], strict=False):
        mark = _RIGHT if letter == label else ""
        mark = _WRONG if letter == prediction else mark
        options.append((letter, (Piece(option, mark),)))
    texts = (
        ("", _whole(answer["context"])),
        ("question", _whole(answer["question"])),
        *options,
    )
    return Error(texts, label, prediction, _certainty(answer))


# ---- Spans ----


def _of_span(answer: Mapping[str, Any]) -> Error:
    context, prediction = answer["context"], answer["prediction"]
    right = [span for item in answer["answers"] if (span := _span(context, item))]
    given = {"text": prediction, "start": answer.get("start", -1)}
    wrong = _span(context, given) if prediction else None
    texts = (
        ("question", _whole(answer["question"])),
        ("", marked(context, right, [wrong] if wrong else [])),
    )
    said = list(dict.fromkeys(map(finetuning_charts.answer_text, answer["answers"])))
    return Error(
        texts,
        " / ".join(said) or "no answer",
        prediction or "no answer",
        _certainty(answer),
    )


def _span(context: str, answer: Any) -> tuple[int, int] | None:
    """Returns the span at an answer's `start`, or else the first one with its text."""
    text = finetuning_charts.answer_text(answer)
    start = answer.get("start", -1) if isinstance(answer, Mapping) else -1
    if start < 0 or not context.startswith(text, start):
        start = context.find(text)
    return (start, start + len(text)) if text and start >= 0 else None


def marked(
    context: str,
    right: Sequence[tuple[int, int]],
    wrong: Sequence[tuple[int, int]],
) -> tuple[Piece, ...]:
    """Splits a context into pieces, without text that is far from any span.

    Args:
      context: the whole text.
      right: (first character, index after the last) of each right answer.
      wrong: the same of the predictions.
    """
    spans = [*right, *wrong] or [(0, 0)]
    cuts = {0, len(context), *(place for span in spans for place in span)}
    for start, end in spans:
        cuts |= {max(start - _MAX_AROUND, 0), min(end + _MAX_AROUND, len(context))}
    pieces: list[Piece] = []
    places = sorted(cuts)
    for start, end in zip(places, places[1:], strict=False):
        is_near = any(
            first - _MAX_AROUND <= start and end <= last + _MAX_AROUND
            for first, last in spans
        )
        if not is_near:
            pieces.append(Piece(" … "))
            continue
        is_right = any(first <= start and end <= last for first, last in right)
        is_wrong = any(first <= start and end <= last for first, last in wrong)
        mark = {
            (True, True): _BOTH,
            (True, False): _RIGHT,
            (False, True): _WRONG,
        }.get((is_right, is_wrong), "")
        if pieces and pieces[-1].mark == mark and pieces[-1].text != " … ":
            pieces[-1] = Piece(pieces[-1].text + context[start:end], mark)
        else:
            pieces.append(Piece(context[start:end], mark))
    return tuple(pieces)
