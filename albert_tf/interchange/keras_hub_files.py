"""The files of a preset of KerasHub: its task, and its weights in HDF5."""

import collections
import contextlib
import os
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from albert_tf.core import files, short_repr
from albert_tf.interchange import io, weight_files

MASKED_LM, CLASSIFIER = "AlbertMaskedLM", "AlbertTextClassifier"
_TASK_FILE = "task.json"
_TASK_WEIGHTS = "task.weights.h5"
_WEIGHTS = "model.weights.h5"
_SUFFIX = ".weights.h5"
_INDEX = "model.weights.json"  # of weights in several files
# Raised by HDF5 where a file is damaged. MemoryError: it says that it is large.
_H5_ERRORS = (
    AttributeError,
    KeyError,
    MemoryError,
    NotImplementedError,
    OSError,
    OverflowError,
    RuntimeError,
    TypeError,
    ValueError,
)


class Weights(NamedTuple):
    """Where the weights of a preset are.

    backbone: what Keras loads those of the backbone from, a file or an index of files.
    files: all files of the backbone.
    head: the file of the head; empty without one.
    """

    backbone: str
    files: list[str]
    head: str


class Task(NamedTuple):
    """The class of a preset with a head; the last two only of a classifier."""

    class_name: str
    num_classes: int = 0
    dropout_rate: float = 0.0


def read_task(folder: str) -> Task | None:
    """Reads task.json; None for a backbone alone.

    Raises:
      ValueError: it is damaged, or of another class.
    """
    path = os.path.join(folder, _TASK_FILE)
    if not files.exists(path):
        return None
    values = io.read_json(path)
    class_name = values.get("class_name")
    if class_name not in [MASKED_LM, CLASSIFIER]:
        raise ValueError(
            f"{path} must be of {MASKED_LM} or {CLASSIFIER}; received "
            f"{short_repr.shown(class_name)}"
        )
    if class_name == MASKED_LM:
        return Task(class_name)
    settings = io.JsonFields(inner_config(values, path), path)
    dropout_rate = settings.number("dropout", 0.1)
    num_classes = settings.integer("num_classes")
    if num_classes < 1 or not 0 <= dropout_rate < 1:
        raise ValueError(
            f"{path} must have a class or more, and a dropout of [0, 1); received "
            f"{num_classes} and {dropout_rate}"
        )
    return Task(class_name, num_classes, dropout_rate)


def is_untrained(folder: str, task: Task) -> bool:
    """Returns whether a preset names a masked LM whose head it has no weights of.

    KerasHub initializes the head then. Of a classifier it would be useless.
    """
    has_weights = files.exists(os.path.join(folder, _TASK_WEIGHTS))
    return task.class_name == MASKED_LM and not has_weights


def inner_config(values: dict[str, Any], path: str) -> dict[str, Any]:
    """Returns the arguments of a saved object of Keras.

    Raises:
      ValueError: there are none.
    """
    inner = values.get("config")
    if not isinstance(inner, dict):
        raise ValueError(
            f"{path} must hold an object `config`; received {short_repr.shown(inner)}"
        )
    return inner


def find_weights(folder: str, task: Task | None) -> Weights:
    """Returns where the weights of a preset are.

    Raises:
      ValueError: a file is missing, or the index of several is damaged.
    """
    head = _existing(os.path.join(folder, _TASK_WEIGHTS)) if task else ""
    path = os.path.join(folder, _WEIGHTS)
    index_path = os.path.join(folder, _INDEX)
    if files.exists(path) or not files.exists(index_path):
        return Weights(path, [_existing(path)], head)
    names: set[str] = set()
    weight_map = io.read_json(index_path).get("weight_map")
    for value in weight_map.values() if isinstance(weight_map, dict) else [None]:
        found: list[Any] = value if isinstance(value, list) else [value]
        if not all(io.is_file_name(name, _SUFFIX) for name in found):
            raise ValueError(
                f"{index_path} must hold weight_map, which names files *{_SUFFIX} "
                f"beside it; received {short_repr.shown(value)}"
            )
        names.update(found)
    paths = [_existing(os.path.join(folder, name)) for name in sorted(names)]
    return Weights(index_path, paths, head)


def require_arrays(paths: Sequence[str], expected: Sequence[tuple[int, ...]]) -> None:
    """Checks that HDF5 files hold arrays, by their shapes.

    Args:
      paths: of the files.
      expected: the shape of each array; the files may hold more.

    Raises:
      ValueError: a file is damaged, or an array is missing.
    """
    found: collections.Counter[tuple[int, ...]] = collections.Counter()
    for path in paths:
        found.update(_shapes(path))
    if missing := weight_files.lacking(expected, found):
        raise ValueError(
            f"{paths[0]} must hold the weights of the model that its configuration "
            f"describes; {len(missing)} are missing, such as one of the shape "
            f"{list(missing[0])}. Give the configuration that belongs to it"
        )


def _shapes(path: str) -> list[tuple[int, ...]]:
    """Returns the shapes of all arrays of an HDF5 file, without reading them."""
    import h5py  # takes a moment, and only presets need it

    found: list[tuple[tuple[int, ...], int]] = []

    def add(_: str, item: Any) -> None:
        if isinstance(item, h5py.Dataset):
            found.append((item.shape or (), item.dtype.itemsize))

    with naming_damage(path), h5py.File(path, "r") as file:
        file.visititems(add)
    weight_files.require_stored(found, path, files.size(path))
    return [shape for shape, _ in found]


@contextlib.contextmanager
def naming_damage(path: str) -> Iterator[None]:
    """Raises a ValueError of one line for errors of HDF5 and Keras, with the path."""
    try:
        yield
    except _H5_ERRORS as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise ValueError(
            f"{path} is damaged or cut off: {reason[:200]}; copy it again"
        ) from error


def _existing(path: str) -> str:
    if not files.exists(path):
        raise ValueError(f"there is no {path}; a preset with such a model has one")
    return path
