"""JSON files, paths and vocabularies, for all formats."""

import fnmatch
import os
import re
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from albert_tf.core import config as config_lib
from albert_tf.core import files, short_repr, strict_json
from albert_tf.tokenization import tokenizer as tokenizer_lib


def read_json(path: str, lenient: bool = False) -> dict[str, Any]:
    """The object in a JSON file.

    Args:
      path: of the file.
      lenient: as for `strict_json.loads`.

    Raises:
      ValueError: the file is missing or damaged.
    """
    if not files.exists(path):
        folder, name = os.path.split(path)
        other = find_any(folder or ".", "*.json")
        hint = f". If {other} there is that file, rename it to {name}" if other else ""
        raise ValueError(f"there is no {path}; a model of this format has one{hint}")
    return strict_json.load_object(path, lenient)


# What the original calls settings, and after it albert_zh and transformers.
KEYS = {
    "num_layers": "num_hidden_layers",
    "num_groups": "num_hidden_groups",
    "num_inner_groups": "inner_group_num",
    "num_heads": "num_attention_heads",
    "max_positions": "max_position_embeddings",
    "hidden_dropout_rate": "hidden_dropout_prob",
    "attention_dropout_rate": "attention_probs_dropout_prob",
    "layer_norm_epsilon": "layer_norm_eps",
}


class JsonFields:
    """A JSON object whose fields are read by name and type."""

    def __init__(self, values: Mapping[str, Any], path: str):
        """Keeps the values, and the path for errors."""
        self._values = values
        self._path = path

    def integer(self, name: str, default: int | None = None) -> int:
        """An integer.

        Raises:
          ValueError: it is missing, or of another type.
        """
        value = self._values.get(name, default)
        if not isinstance(value, int) or isinstance(value, bool):
            raise ValueError(
                f"{self._path} must hold an integer {name}; received "
                f"{short_repr.shown(value)}"
            )
        return value

    def number(self, name: str, default: float) -> float:
        """A number; null means the default.

        Raises:
          ValueError: it is of another type.
        """
        value = self._values.get(name, default)
        value = default if value is None else value
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise ValueError(
                f"{self._path} must hold a number {name}; received "
                f"{short_repr.shown(value)}"
            )
        return float(value)

    def choice(self, name: str, choices: Mapping[Any, Any], default: Any) -> Any:
        """The choice of a value.

        Raises:
          ValueError: it is none of the choices.
        """
        value = self._values.get(name, default)
        if not isinstance(value, str | int | None) or value not in choices:
            allowed = ", ".join(repr(choice) for choice in choices)
            raise ValueError(
                f"{self._path}: {name} must be {allowed}, since this model has nothing "
                f"else; received {short_repr.shown(value)}"
            )
        return choices[value]

    def model_config(
        self, keys: Mapping[str, str], **settings: Any
    ) -> config_lib.ModelConfig:
        """The configuration of a model with these settings.

        Args:
          keys: what the file calls settings, where the names differ.
          **settings: of the model.

        Raises:
          ValueError: a setting does not hold its rule; names the file and its keys.
        """
        try:
            return config_lib.ModelConfig(**settings)
        except ValueError as error:
            message = re.sub(
                r"\bmodel\.(\w+)", lambda name: keys.get(name[1], name[1]), str(error)
            )
            raise ValueError(f"{self._path}: {message}") from error


def is_file_name(value: object, suffix: str) -> bool:
    """Returns whether a value names a file in the same directory."""
    return (
        isinstance(value, str)
        and len(value) < 256
        and value.endswith(suffix)
        and os.path.basename(value) == value
    )


def find(folder: str, *patterns: str, otherwise: str = "") -> str | None:
    """The path of the file that matches the first pattern with a match, or None.

    Args:
      folder: where to look.
      *patterns: of names.
      otherwise: what the user may do where several match, beside removing some.

    Raises:
      ValueError: several files match it.
    """
    names = sorted(tf.io.gfile.listdir(folder))
    for pattern in patterns:
        matching = fnmatch.filter(names, pattern)
        if len(matching) > 1:
            raise ValueError(
                f"{folder} must hold one file {pattern}; it holds "
                f"{', '.join(matching)}. Keep the one that belongs to the model"
                f"{otherwise}"
            )
        if matching:
            return os.path.join(folder, matching[0])
    return None


def find_any(folder: str, *patterns: str) -> str | None:
    """The name of the first file that matches any of the patterns, or None."""
    names = sorted(tf.io.gfile.listdir(folder)) if files.is_folder(folder) else []
    matching = (n for pattern in patterns for n in fnmatch.filter(names, pattern))
    return next(matching, None)


def choose_vocab(given: str, beside: str | None, vocab_size: int) -> bytes | None:
    """The vocabulary that the user gives, or else the one beside the model, or None.

    Raises:
      ValueError: it is damaged, of another size, or given and missing.
    """
    if not given and (beside is None or not files.exists(beside)):
        return None
    return read_vocab(given or str(beside), vocab_size)


def read_vocab(path: str, vocab_size: int) -> bytes:
    """A SentencePiece model with `vocab_size` pieces.

    Raises:
      ValueError: it is damaged, or of another size.
    """
    if not files.exists(path):
        raise ValueError(f"there is no vocabulary {path}")
    vocab = files.read_bytes(path)
    try:
        tokenizer = tokenizer_lib.Tokenizer(vocab)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    if tokenizer.vocab_size != vocab_size:
        raise ValueError(
            "a vocabulary must have as many pieces as its model has rows of "
            f"word_embeddings: {path} has {tokenizer.vocab_size}, the model "
            f"{vocab_size}. Pass the one that belongs to it"
        )
    return vocab
