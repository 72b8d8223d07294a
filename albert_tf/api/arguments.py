"""Checks of what callers of the Python API pass, before anything is computed."""

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from albert_tf.core import short_repr


def path_of(value: Any, name: str) -> str:
    """Returns a path as text.

    Args:
      value: text, or a `pathlib.Path`.
      name: of the argument.

    Raises:
      ValueError: it is neither.
    """
    if isinstance(value, str | os.PathLike):
        path = os.fspath(value)
        if isinstance(path, str):
            return path
    raise ValueError(
        f"{name} must be a path, text or a pathlib.Path; received "
        f"{short_repr.shown(value)}"
    )


class Examples(NamedTuple):
    """Examples to answer.

    Attributes:
      texts: of each example, one or several.
      is_single: whether a single example was given rather than a list.
    """

    texts: list[Sequence[str]]
    is_single: bool


def examples_of(
    value: Any, method: str, what: str, least: int, most: int | None
) -> Examples:
    """Checks what a method of a model was called with.

    Args:
      value: an example, or several. An example is a text, or a tuple of texts; in a
        list of examples it may be a list of texts too.
      method: the name of the method.
      what: describes an example.
      least: minimum number of texts of an example.
      most: maximum number; None means any number.

    Raises:
      ValueError: it is something else; says what is expected.
    """

    def wrong(received: Any) -> ValueError:
        form = "" if most == 1 else ", as a tuple"
        return ValueError(
            f"{method} takes {what}{form}, or a list of such examples; received "
            f"{short_repr.shown(received)}"
        )

    is_single = isinstance(value, str) or (isinstance(value, tuple) and most != 1)
    several = [value] if is_single else value
    if not isinstance(several, Iterable) or isinstance(several, bytes | Mapping):
        raise wrong(value)
    found = []
    for example in several:
        texts = [example] if isinstance(example, str) else example
        is_texts = isinstance(texts, list | tuple) and all(
            isinstance(text, str) for text in texts
        )
        if not is_texts or len(texts) < least or (most and len(texts) > most):
            raise wrong(example)
        found.append(texts)
    return Examples(found, is_single)
