"""A SavedModel's signatures as functions on lists of plain values."""

from collections.abc import Callable, Sequence
from typing import Any

from albert_tf.core import console
from albert_tf.inference import saved_model, saved_model_dir, signatures
from albert_tf.tokenization import tokenizer

# From items to their answers. The answer of an item may be an exception, so that the
# others are still answered.
Function = Callable[[Sequence[Any]], Sequence[Any]]

# One item for each signature, to test and warm up a model.
_SAMPLES: dict[str, Any] = {
    "fill_mask": (f"a {tokenizer.MASK}", 1),
    "sentence_order": ("a", "b"),
    "encode": ("a",),
    "classify": ("a", "b"),
    "tag": ("a",),
    "answer": ("a", "b"),
    "choose": ("a", "b", "c", "d"),
}


class Unanswerable(ValueError):
    """The model cannot answer this item; the message says why."""


def functions(model, takes_pairs: bool = False) -> dict[str, Function]:
    """The functions of a SavedModel, by signature.

    Args:
      model: from saved_model.load.
      takes_pairs: whether a text to classify must have a second one.

    Returns:
      Functions from lists of items to lists of answers. An item of `fill_mask` is a
      text and the number of candidates; that of `encode` a text, and "mean" for its
      mean output instead of the pooled one; that of another signature, its fields as
      albert_tf.predict reads them from a line. Answers are the objects that
      albert_tf.predict prints with --json, but those of `fill_mask` lack `filled`, and
      those of `encode` have one vector.

    Raises:
      ValueError: the model has no known signature.
    """
    known: dict[str, Callable[[Any], Function]] = {
        "fill_mask": _fill_mask,
        "sentence_order": _plain(saved_model.sentence_orders),
        "encode": _encode,
        **{name: _plain(form.ask) for name, form in signatures.FORMS.items()},
    }
    found = {
        name: make(model.signatures[name])
        for name, make in known.items()
        if name in model.signatures
    }
    if not found:
        raise ValueError(
            f"--saved_model must have one of the signatures {', '.join(known)}; it has "
            f"{', '.join(model.signatures) or 'none'}. Make one with "
            f"`{console.command_line('albert_tf.export')}`"
        )
    if takes_pairs and "classify" in found:
        found["classify"] = _of_pairs(found["classify"])
    return found


def warm_up(found: dict[str, Function]) -> None:
    """Calls each function once: the first call is slow, and would show errors."""
    for name, function in found.items():
        function([_SAMPLES[name]])


def load(path: str) -> dict[str, Function]:
    """The functions of the SavedModel in the folder `path`, after a warm-up.

    Raises:
      ValueError: there is no SavedModel, or none with a known signature.
    """
    found = functions(saved_model.load(path), saved_model_dir.takes_pairs(path))
    warm_up(found)
    return found


def _plain(ask) -> Callable[[Any], Function]:
    return lambda signature: lambda items: ask(signature, items)


def _of_pairs(function: Function) -> Function:
    def classify(items: Sequence[Sequence[str]]) -> list[Any]:
        pairs = [item for item in items if len(item) > 1]
        answers = iter(function(pairs) if pairs else ())
        alone = Unanswerable("must have a pair: the model was trained on two texts")
        return [next(answers) if len(item) > 1 else alone for item in items]

    return classify


def _encode(signature) -> Function:
    def encode(items: Sequence[Sequence[str]]) -> list[dict[str, Any]]:
        answers = saved_model.encodings(signature, [text for text, *_ in items])
        for answer, (_, *pooling) in zip(answers, items, strict=True):
            del answer["pooled_output" if pooling else "mean_output"]
        return answers

    return encode


def _fill_mask(signature) -> Function:
    def fill(items: Sequence[tuple[str, int]]) -> list[Any]:
        texts = [text for text, _ in items]
        # One call for all: candidates are sorted, so the first ones are the best.
        max_top_k = max(top_k for _, top_k in items)
        answers = saved_model.fill_masks(signature, texts, max_top_k)
        return [
            _checked(answer, top_k)
            for answer, (_, top_k) in zip(answers, items, strict=True)
        ]

    return fill


def _checked(answer: dict[str, Any], top_k: int) -> dict[str, Any] | Unanswerable:
    try:
        saved_model.check_found(answer)
    except ValueError as error:
        return Unanswerable(str(error))
    return answer | {"masks": [candidates[:top_k] for candidates in answer["masks"]]}
