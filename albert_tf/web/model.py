"""A SavedModel's signatures as functions on lists of plain values."""

from collections.abc import Callable, Sequence
from typing import Any

from albert_tf import saved_models, tokenization
from albert_tf.task_serving import asking

# From items to as many answers; an error stands at the place of an item that cannot be
# answered, so that the others still are.
Function = Callable[[Sequence[Any]], Sequence[Any]]

# One item for each signature, by which a model shows that it works.
_SAMPLES: dict[str, Any] = {
    "fill_mask": (f"a {tokenization.MASK}", 1),
    "sentence_order": ("a", "b"),
    "encode": ("a",),
    "classify": ("a",),
    "tag": ("a",),
    "answer": ("a", "b"),
    "choose": ("a", "b", "c", "d"),
}


class Unanswerable(ValueError):
    """The model cannot answer this item; the message says why."""


def functions(model) -> dict[str, Function]:
    """The functions of a SavedModel, by signature.

    Args:
      model: as saved_models.load gives it.

    Returns:
      From lists of items to lists of answers. An item of `fill_mask` is a text and how
      many candidates there shall be; that of another signature, its fields as
      albert_tf.predict reads them from a line. Answers are the objects that
      albert_tf.predict prints with --json.

    Raises:
      ValueError: the model has no signature that is known here.
    """
    known: dict[str, Callable[[Any], Function]] = {
        "fill_mask": _fill_mask,
        "sentence_order": _plain(saved_models.sentence_orders),
        "encode": _encode,
        **{name: _plain(form.ask) for name, form in asking.FORMS.items()},
    }
    found = {
        name: make(model.signatures[name])
        for name, make in known.items()
        if name in model.signatures
    }
    if not found:
        raise ValueError(
            f"--saved_model must have one of the signatures {', '.join(known)}; it has "
            f"{', '.join(model.signatures) or 'none'}. Make one with albert_tf.export"
        )
    return found


def warm_up(found: dict[str, Function]) -> None:
    """Asks each function once: a model's first call is slow, and shows its faults."""
    for name, function in found.items():
        function([_SAMPLES[name]])


def load(path: str) -> dict[str, Function]:
    """The functions of the SavedModel in the folder `path`, each asked once.

    Raises:
      ValueError: there is no SavedModel, or none with a known signature.
    """
    found = functions(saved_models.load(path))
    warm_up(found)
    return found


def _plain(ask) -> Callable[[Any], Function]:
    return lambda signature: lambda items: ask(signature, items)


def _encode(signature) -> Function:
    return lambda items: saved_models.encodings(signature, [text for (text,) in items])


def _fill_mask(signature) -> Function:
    def fill(items: Sequence[tuple[str, int]]) -> list[Any]:
        texts = [text for text, _ in items]
        # One call for all: candidates come best first, so fewer are the first of more.
        most = max(top_k for _, top_k in items)
        answers = saved_models.fill_masks(signature, texts, most)
        return [
            _checked(answer, top_k)
            for answer, (_, top_k) in zip(answers, items, strict=True)
        ]

    return fill


def _checked(answer: dict[str, Any], top_k: int) -> dict[str, Any] | Unanswerable:
    try:
        saved_models.check_found(answer)
    except ValueError as error:
        return Unanswerable(str(error))
    return answer | {"masks": [candidates[:top_k] for candidates in answer["masks"]]}
