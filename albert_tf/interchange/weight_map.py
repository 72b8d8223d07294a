"""Weights by native names and by those of another format, and a report."""

import enum
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from albert_tf.core import short_repr

_NUM_EXAMPLES = 8


class Transform(enum.Enum):
    """Conversion of a native array to an external one, and back."""

    SAME = "as it is"
    TRANSPOSED = "transposed"
    RESHAPED = "reshaped"


class Entry(NamedTuple):
    """A weight by its native name and by its external one.

    shape: the external shape of a weight that is reshaped.
    """

    native: str
    external: str
    transform: Transform = Transform.SAME
    shape: tuple[int, ...] = ()

    def to_external(self, value: np.ndarray) -> np.ndarray:
        """The external array."""
        if self.transform is Transform.TRANSPOSED:
            return np.ascontiguousarray(value.T)
        return (
            value.reshape(self.shape) if self.transform is Transform.RESHAPED else value
        )

    def external_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The external shape of a weight of the native shape `shape`."""
        if self.transform is Transform.TRANSPOSED:
            return shape[::-1]
        return self.shape if self.transform is Transform.RESHAPED else shape

    def to_native(self, value: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
        """The native array, from an external one of the right shape."""
        if self.transform is Transform.TRANSPOSED:
            return np.ascontiguousarray(value.T)
        return value.reshape(shape)


class ConversionReport:
    """Lines that describe what a conversion did."""

    def __init__(self, list_weights: bool = False):
        """With `list_weights` each weight has a line too."""
        self.lines: list[str] = []
        self._list_weights = list_weights

    def say(self, line: str) -> None:
        """Adds a line."""
        self.lines.append(line)

    def lacks_vocab(self, name: str) -> None:
        """Adds the line of a vocabulary that neither the source nor the user gave."""
        self.say(
            f"  no {name}, since the model has no vocabulary: pass --vocab_model=FILE, "
            "or copy the one that it was trained with"
        )

    def moved(
        self,
        source: str,
        target: str,
        shape: Sequence[int],
        transform: Transform = Transform.SAME,
    ) -> None:
        """Adds the line of a weight that was moved, if they are listed."""
        if not self._list_weights:
            return
        note = "" if transform is Transform.SAME else f", {transform.value}"
        self.say(f"  {source} -> {target} {list(shape)}{note}")

    def sum_up(self, weights: Mapping[str, np.ndarray]) -> None:
        """Adds the line of all weights that were moved."""
        size = sum(value.size for value in weights.values())
        self.say(f"  {len(weights)} weights, {size:,} parameters")


class Ignored(NamedTuple):
    """Names that a file may hold besides the weights; why they are omitted."""

    names: tuple[str, ...]
    reason: str


def to_native(
    entries: Sequence[Entry],
    external: Mapping[str, np.ndarray],
    shapes: Mapping[str, tuple[int, ...]],
    path: str,
    ignored: Iterable[Ignored],
    report: ConversionReport,
) -> dict[str, np.ndarray]:
    """External weights by native names.

    Args:
      entries: the names of all weights.
      external: all arrays of the file, by name.
      shapes: native shapes by native name.
      path: of the file, for errors.
      ignored: what else the file may hold.
      report: gets the number of weights, and those that are ignored.

    Raises:
      ValueError: a weight is missing, unknown, of another shape or not a number.
    """
    problems = []
    missing = [entry.external for entry in entries if entry.external not in external]
    if missing:
        problems.append(f"missing: {listed(missing)}")
    known = {entry.external for entry in entries}
    for group in ignored:
        found = [name for name in group.names if name in external and name not in known]
        known.update(found)
        if found:
            report.say(f"  {group.reason}: {listed(found)}")
    extra = [name for name in external if name not in known]
    if extra:
        problems.append(f"not of such a model: {listed(extra)}")
    wrong = [
        f"{entry.external} is {list(external[entry.external].shape)} instead of "
        f"{list(expected)}"
        for entry in entries
        if entry.external in external
        and external[entry.external].shape
        != (expected := entry.external_shape(shapes[entry.native]))
    ]
    if wrong:
        problems.append(
            f"of another shape than the configuration says: {listed(wrong)}"
        )
    if problems:
        raise ValueError(
            f"{path} must hold the variables of the model that its configuration "
            f"describes; {'; '.join(problems)}. Give the configuration that belongs to "
            "it, or another model"
        )
    weights = {}
    for entry in entries:
        value = external[entry.external]
        weights[entry.native] = as_float32(value, entry.external, path)
        weights[entry.native] = entry.to_native(
            weights[entry.native], shapes[entry.native]
        )
        report.moved(entry.external, entry.native, value.shape, entry.transform)
    report.sum_up(weights)
    return weights


def to_external(
    entries: Sequence[Entry], native: Mapping[str, np.ndarray], report: ConversionReport
) -> dict[str, np.ndarray]:
    """Native weights by external names; `report` gets their number."""
    external = {}
    for entry in entries:
        external[entry.external] = entry.to_external(native[entry.native])
        report.moved(
            entry.native, entry.external, native[entry.native].shape, entry.transform
        )
    report.sum_up(external)
    return external


def without_identity(
    external: Mapping[str, np.ndarray],
    projection: tuple[str, str],
    path: str,
    report: ConversionReport,
) -> dict[str, np.ndarray]:
    """External weights without the projection to H, which must be the identity.

    A native model has no projection where E = H; other libraries always have one.

    Args:
      external: by name.
      projection: the names of its kernel and its bias.
      path: of the file, for errors.
      report: gets a line for it.

    Raises:
      ValueError: it is not the identity.
    """
    kernel, bias = projection
    rest = {name: v for name, v in external.items() if name not in projection}
    if len(rest) == len(external):
        return rest
    if kernel in external and bias in external:
        table = external[kernel]
        is_square = table.ndim == 2 and table.shape[0] == table.shape[1]
        is_identity = is_square and np.array_equal(table, np.eye(len(table)))
        if is_identity and not external[bias].any():
            report.say(f"  omitted, since it is the identity: {kernel}, {bias}")
            return rest
    raise ValueError(
        f"{path}: {kernel} must be the identity and {bias} zero where the embeddings "
        "are as wide as the hidden states, since a native model has no projection then"
    )


def num_rows(external: Mapping[str, np.ndarray], name: str, path: str) -> int:
    """The first dimension of an array, such as the number of classes.

    Args:
      external: by name.
      name: of the array.
      path: of the model, for errors.

    Raises:
      ValueError: it is a scalar, or empty.
    """
    shape = external[name].shape
    if not shape or not shape[0]:
        raise ValueError(
            f"{path}: {name} must have a row for each class; received an array of the "
            f"shape {list(shape)}"
        )
    return shape[0]


def as_float32(value: np.ndarray, name: str, path: str) -> np.ndarray:
    """The array in float32, which holds all of float16 and bfloat16.

    Raises:
      ValueError: it would lose digits, or is not finite.
    """
    if value.dtype.itemsize > 4 or value.dtype.kind not in "fV":
        raise ValueError(
            f"{path}: {name} must hold float32, float16 or bfloat16 numbers; received "
            f"{value.dtype}"
        )
    value = value.astype(np.float32)
    if not np.isfinite(value).all():
        raise ValueError(
            f"{path}: {name} must hold finite numbers; it holds infinities or NaN. The "
            "training that made it diverged, or the file is damaged"
        )
    return value


def listed(names: Sequence[str]) -> str:
    """The first of many names, and the number of the others."""
    text = ", ".join(map(short_repr.cut, names[:_NUM_EXAMPLES]))
    more = len(names) - _NUM_EXAMPLES
    return f"{text} and {more} more" if more > 0 else text
