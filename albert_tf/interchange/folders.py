"""What the readers of folders have in common."""

import fnmatch
import json
import os
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from albert_tf import files, tokenization


def read_json(path: str) -> dict[str, Any]:
    """The object that a JSON file holds.

    Raises:
      ValueError: it is missing or damaged.
    """
    if not files.exists(path):
        raise ValueError(f"there is no {path}; a model of this format has one")
    try:
        values = json.loads(files.read_bytes(path))
    except ValueError as error:  # no JSON, or no UTF-8
        raise ValueError(f"{path} must be JSON; it is damaged ({error})") from error
    if not isinstance(values, dict):
        raise ValueError(f"{path} must hold a JSON object; received {values!r:.80}")
    return values


def write_json(path: str, values: Mapping[str, Any]) -> None:
    """Writes a JSON object, its keys in the order given."""
    files.write_bytes(path, (json.dumps(values, indent=2) + "\n").encode())


class Settings:
    """A JSON object whose values are asked for by name and kind."""

    def __init__(self, values: Mapping[str, Any], path: str):
        """Keeps the values, and the path for errors."""
        self._values = values
        self._path = path

    def integer(self, name: str, default: int | None = None) -> int:
        """A whole number.

        Raises:
          ValueError: it is missing, or something else.
        """
        value = self._values.get(name, default)
        if not isinstance(value, int) or isinstance(value, bool):
            raise ValueError(
                f"{self._path} must hold a whole number {name}; received {value!r}"
            )
        return value

    def number(self, name: str, default: float) -> float:
        """A number; null stands for the default.

        Raises:
          ValueError: it is something else.
        """
        value = self._values.get(name, default)
        value = default if value is None else value
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise ValueError(
                f"{self._path} must hold a number {name}; received {value!r}"
            )
        return float(value)

    def choice(self, name: str, choices: Mapping[Any, Any], default: Any) -> Any:
        """What a value stands for.

        Raises:
          ValueError: it stands for nothing here.
        """
        value = self._values.get(name, default)
        if not isinstance(value, str | int | None) or value not in choices:
            allowed = ", ".join(repr(choice) for choice in choices)
            raise ValueError(
                f"{self._path}: {name} must be {allowed}, which is all that this model "
                f"can be; received {value!r}"
            )
        return choices[value]


def find(folder: str, *patterns: str) -> str | None:
    """The path of the one file in a folder that fits the first pattern which any fits.

    Raises:
      ValueError: several fit it.
    """
    names = sorted(tf.io.gfile.listdir(folder))
    for pattern in patterns:
        fitting = fnmatch.filter(names, pattern)
        if len(fitting) > 1:
            raise ValueError(
                f"{folder} must hold one file {pattern}; it holds "
                f"{', '.join(fitting)}. Leave the one that belongs to the model"
            )
        if fitting:
            return os.path.join(folder, fitting[0])
    return None


def find_any(folder: str, *patterns: str) -> str | None:
    """The name of the first file that fits any of the patterns."""
    names = sorted(tf.io.gfile.listdir(folder)) if files.is_folder(folder) else []
    fitting = (n for pattern in patterns for n in fnmatch.filter(names, pattern))
    return next(fitting, None)


def choose_vocab(given: str, beside: str | None, vocab_size: int) -> bytes | None:
    """The vocabulary that the user gives, or the one beside a model, or None.

    Raises:
      ValueError: it is damaged, of another size, or given and not there.
    """
    if not given and (beside is None or not files.exists(beside)):
        return None
    return read_vocab(given or str(beside), vocab_size)


def read_vocab(path: str, vocab_size: int) -> bytes:
    """A SentencePiece model with as many pieces as a model has rows.

    Raises:
      ValueError: it is damaged, or of another size.
    """
    if not files.exists(path):
        raise ValueError(f"there is no vocabulary {path}")
    vocab = files.read_bytes(path)
    try:
        tokenizer = tokenization.Tokenizer(vocab)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    if tokenizer.vocab_size != vocab_size:
        raise ValueError(
            "a vocabulary must have as many pieces as its model has rows of "
            f"word_embeddings: {path} has {tokenizer.vocab_size}, the model "
            f"{vocab_size}. Give the one that belongs to it"
        )
    return vocab
