"""Prefixes of checkpoints, such as RUN/model.ckpt-500; no TensorFlow."""

import os
import re

from albert_tf.core import files

_INDEX = ".index"
_NUM_LISTED = 10


def exists(prefix: str) -> bool:
    """Returns whether there is a checkpoint with this prefix."""
    return files.exists(f"{prefix}{_INDEX}")


def say_missing(prefix: str) -> str:
    """Returns the end of an error: which file is missing, and the checkpoints there.

    Args:
      prefix: of a checkpoint that does not exist.
    """
    return f"there is no {prefix}{_INDEX}{say_others(prefix)}"


def say_others(prefix: str) -> str:
    """Returns a sentence with the last checkpoints in the directory of a prefix."""
    folder = os.path.dirname(prefix)
    found = _names(folder or ".")
    if not found:
        return ""
    listed = ", ".join(found[-_NUM_LISTED:])
    first = "..., " if len(found) > _NUM_LISTED else ""
    return f". {folder or 'The current directory'} holds {first}{listed}"


def _names(folder: str) -> list[str]:
    """Returns the names of the checkpoints in a directory, the latest step last."""
    names = [n.removesuffix(_INDEX) for n in files.names(folder) if n.endswith(_INDEX)]
    return sorted(names, key=_step)


def _step(name: str) -> int:
    """Returns the number at the end of a name; -1 if there is none."""
    number = re.search(r"\d+$", name)
    return int(number[0]) if number else -1
