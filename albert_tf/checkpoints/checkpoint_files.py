"""The files of checkpoints in a run directory, found by their names; no TensorFlow."""

import collections
import re
from collections.abc import Iterable

from albert_tf.core import files

NAME = "model.ckpt"
# In a directory with an average of checkpoints: says what was averaged.
AVERAGE_FILE = "average.json"
# The end of the name of a directory of TensorFlow's for what is not yet complete.
TEMPORARY = "_temp"
_ANY_PART = re.compile(
    rf"{re.escape(NAME)}-(\d+)(?:\.index.*|\.data-.*|{re.escape(TEMPORARY)})"
)
_PART = re.compile(rf"{re.escape(NAME)}-(\d+)\.(?:index|data-(\d{{5}})-of-(\d{{5}}))")


def _parts(model_dir: str) -> dict[int, set[tuple[int, int]]]:
    """Returns (number, count) of the data files by step; (0, 0) is the index."""
    parts = collections.defaultdict(set)
    for name in files.names(model_dir):
        if match := _PART.fullmatch(name):
            step, number, count = (int(group or 0) for group in match.groups())
            parts[step].add((number, count))
    return parts


def group(names: Iterable[str]) -> dict[int, list[str]]:
    """Returns the names of what belongs to a checkpoint, whole or not, by its step."""
    found = collections.defaultdict(list)
    for name in names:
        if match := _ANY_PART.fullmatch(name.rstrip("/")):
            found[int(match[1])].append(name)
    return found


def begun_steps(model_dir: str) -> list[int]:
    """Returns the steps of which there is any file of a checkpoint, ascending."""
    return sorted(_parts(model_dir))


def whole_steps(model_dir: str) -> list[int]:
    """Returns the steps whose checkpoints have all of their files, ascending."""
    return [
        step
        for step, found in sorted(_parts(model_dir).items())
        if (0, 0) in found
        and any(
            count and all((number, count) in found for number in range(count))
            for _, count in found
        )
    ]
