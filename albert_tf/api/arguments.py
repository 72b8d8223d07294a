"""Checks of what callers of the Python API pass, before anything is computed."""

import contextlib
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from albert_tf.core import (
    checkpoint_prefix,
    console,
    files,
    other_formats,
    short_repr,
    validation,
)
from albert_tf.core import config as config_lib
from albert_tf.data import schema

# A flag within a message, and not in a command that a message gives.
_FLAG = re.compile(r"--(\w+)\b(?!=)")
# The name of a model on the Hugging Face Hub: OWNER/MODEL.
_HUB_NAME = re.compile(r"\w[\w.-]*/\w[\w.-]*", re.ASCII)


@contextlib.contextmanager
def named(**arguments: str) -> Iterator[None]:
    """Names arguments in the errors of what the commands use too, which name flags.

    Args:
      **arguments: the name of the argument, by that of the flag.
    """
    try:
        yield
    except ValueError as error:
        message = str(error)
        text = _FLAG.sub(lambda flag: arguments.get(flag[1], flag[0]), message)
        if text == message:
            raise
        raise ValueError(text) from error.__cause__


def path_of(value: Any, name: str, may_be_empty: bool = False) -> str:
    """Returns a path as text.

    Args:
      value: text, or a `pathlib.Path`.
      name: of the argument.
      may_be_empty: whether an empty text has a meaning of its own.

    Raises:
      ValueError: it is neither, or empty.
    """
    if isinstance(value, str | os.PathLike):
        path = os.fspath(value)
        if isinstance(path, str) and (path or may_be_empty):
            return path
    condition = "" if may_be_empty else ", that is not empty"
    raise ValueError(
        f"{name} must be a path, text or a pathlib.Path{condition}; received "
        f"{short_repr.shown(value)}"
    )


def checkpoint_of(value: Any) -> str:
    """Returns the prefix of a checkpoint as text; empty means the default.

    Raises:
      ValueError: there is no such checkpoint.
    """
    path = path_of(value, "checkpoint", may_be_empty=True)
    if path and not checkpoint_prefix.exists(path):
        raise ValueError(
            "checkpoint must be the prefix of a checkpoint, such as "
            f"run/model.ckpt-500; {checkpoint_prefix.say_missing(path)}"
        )
    return path


def require_weights(value: Any) -> None:
    """Raises ValueError unless `value` says which weights of a checkpoint are meant."""
    validation.require_choice("weights", value, config_lib.WEIGHTS)


def require_compute_dtype(value: Any) -> None:
    """Raises ValueError unless `value` is a dtype that a loaded model computes in."""
    validation.require_choice("compute_dtype", value, config_lib.COMPUTE_DTYPES)


def require_config(value: Any) -> None:
    """Raises ValueError unless `value` is a recipe."""
    validation.require(
        isinstance(value, config_lib.Config),
        "config must be a Config, as albert_tf.load_config returns it",
        value,
    )


def require_present(path: str, what: str) -> None:
    """Raises ValueError if there is nothing at a path.

    Args:
      path: local or remote.
      what: should be there.
    """
    if not files.exists(path):
        raise ValueError(f"there is no {what} {path}{_download_advice(path)}")


def _download_advice(path: str) -> str:
    """Returns how to get a model, if a path may be its name on the Hub."""
    owner, _, name = path.partition("/")
    if not _HUB_NAME.fullmatch(path) or files.exists(owner):
        return ""
    words = f"--from=hf:{path}", "--download", f"--to=run:{name}_run"
    command = console.command_line("albert_tf.convert", *words)
    return (
        ". If it is the name of a model on the Hugging Face Hub, fetch and convert it "
        f"first: {command}. Then give {name}_run"
    )


def require_run(path: str, may_be_exported: bool = True) -> None:
    """Raises ValueError if the directory `path` holds no run.

    Args:
      path: local or remote, and no exported model if that would do.
      may_be_exported: whether an exported model would do, as the error then says.
    """
    other_formats.refuse(path)
    if not may_be_exported:
        other_formats.refuse_exported(path)
    require_present(path, "directory")
    names = (schema.CONFIG_FILE, schema.SEEDS_FILE)
    if not any(files.exists(os.path.join(path, name)) for name in names):
        what, lacking = "a run", f"no {schema.CONFIG_FILE}"
        if may_be_exported:
            what = f"{what} or of an exported model"
            lacking = f"neither {schema.CONFIG_FILE} nor a SavedModel"
        raise ValueError(f"path must be the directory of {what}; {path} has {lacking}")


def settings_of(value: Any) -> list[str]:
    """Returns the overrides of a recipe as a list.

    Args:
      value: several texts such as "train.num_steps=3"; not one text.

    Raises:
      ValueError: it is something else.
    """
    is_several = isinstance(value, Iterable) and not isinstance(value, str | Mapping)
    settings = list(value) if is_several else []
    validation.require(
        is_several and all(isinstance(one, str) for one in settings),
        'overrides must be a list of settings, such as ["train.num_steps=3"]',
        value,
    )
    return settings


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
        list of examples, or a tuple of them, it may be a list of texts too.
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

    is_single = isinstance(value, str) or (
        isinstance(value, tuple)
        and most != 1
        and not any(isinstance(one, list | tuple) for one in value)
    )
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
