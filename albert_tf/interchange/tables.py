"""Moves weights between our names and another format's, and says what it did."""

import enum
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

_NUM_EXAMPLES = 8


class How(enum.Enum):
    """What turns our array into theirs, and theirs into ours."""

    SAME = "as it is"
    TRANSPOSED = "transposed"
    RESHAPED = "reshaped"


class Entry(NamedTuple):
    """A weight by our name and by theirs.

    shape: theirs, where it is not that of ours as `how` says.
    """

    ours: str
    theirs: str
    how: How = How.SAME
    shape: tuple[int, ...] = ()

    def to_theirs(self, value: np.ndarray) -> np.ndarray:
        """Our array as they keep it."""
        if self.how is How.TRANSPOSED:
            return np.ascontiguousarray(value.T)
        return value.reshape(self.shape) if self.how is How.RESHAPED else value

    def their_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """What `shape` of ours is there."""
        if self.how is How.TRANSPOSED:
            return shape[::-1]
        return self.shape if self.how is How.RESHAPED else shape

    def to_ours(self, value: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
        """Their array, of the right shape, as we keep it."""
        if self.how is How.TRANSPOSED:
            return np.ascontiguousarray(value.T)
        return value.reshape(shape)


class Report:
    """What a conversion did, in lines for people."""

    def __init__(self):
        self.lines: list[str] = []

    def say(self, line: str) -> None:
        """Adds a line."""
        self.lines.append(line)

    def moved(
        self, source: str, target: str, shape: Sequence[int], how: How = How.SAME
    ) -> None:
        """Says which weight went where."""
        note = "" if how is How.SAME else f", {how.value}"
        self.say(f"  {source} -> {target} {list(shape)}{note}")


class Ignored(NamedTuple):
    """Names that a file may hold besides the weights, and why they are left out."""

    names: tuple[str, ...]
    why: str


def to_ours(
    entries: Sequence[Entry],
    theirs: Mapping[str, np.ndarray],
    shapes: Mapping[str, tuple[int, ...]],
    path: str,
    ignored: Iterable[Ignored],
    report: Report,
) -> dict[str, np.ndarray]:
    """Their weights by our names.

    Args:
      entries: what is what.
      theirs: all that the file holds.
      shapes: of ours.
      path: of the file, for errors.
      ignored: what else it may hold.
      report: is told of every weight.

    Raises:
      ValueError: a weight is missing, left over, of another shape or no number.
    """
    problems = []
    missing = [entry.theirs for entry in entries if entry.theirs not in theirs]
    if missing:
        problems.append(f"missing: {listed(missing)}")
    known = {entry.theirs for entry in entries}
    for group in ignored:
        found = [name for name in group.names if name in theirs and name not in known]
        known.update(found)
        if found:
            report.say(f"  {group.why}: {listed(found)}")
    extra = [name for name in theirs if name not in known]
    if extra:
        problems.append(f"not of such a model: {listed(extra)}")
    wrong = [
        f"{entry.theirs} is {list(theirs[entry.theirs].shape)} instead of "
        f"{list(expected)}"
        for entry in entries
        if entry.theirs in theirs
        and theirs[entry.theirs].shape
        != (expected := entry.their_shape(shapes[entry.ours]))
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
        value = theirs[entry.theirs]
        weights[entry.ours] = as_float32(value, entry.theirs, path)
        weights[entry.ours] = entry.to_ours(weights[entry.ours], shapes[entry.ours])
        report.moved(entry.theirs, entry.ours, value.shape, entry.how)
    return weights


def to_theirs(
    entries: Sequence[Entry], ours: Mapping[str, np.ndarray], report: Report
) -> dict[str, np.ndarray]:
    """Our weights by their names; tells `report` of each."""
    theirs = {}
    for entry in entries:
        theirs[entry.theirs] = entry.to_theirs(ours[entry.ours])
        report.moved(entry.ours, entry.theirs, ours[entry.ours].shape, entry.how)
    return theirs


def without_identity(
    theirs: Mapping[str, np.ndarray],
    projection: tuple[str, str],
    path: str,
    report: Report,
) -> dict[str, np.ndarray]:
    """Their weights without a projection to the same size, which must change nothing.

    A model here has no projection where E = H; other libraries always have one.

    Args:
      theirs: by name.
      projection: the names of its kernel and its bias.
      path: of the file, for errors.
      report: is told.

    Raises:
      ValueError: it changes something.
    """
    kernel, bias = projection
    rest = {name: v for name, v in theirs.items() if name not in projection}
    if len(rest) == len(theirs):
        return rest
    if kernel in theirs and bias in theirs:
        table = theirs[kernel]
        is_square = table.ndim == 2 and table.shape[0] == table.shape[1]
        is_identity = is_square and np.array_equal(table, np.eye(len(table)))
        if is_identity and not theirs[bias].any():
            report.say(f"  left out, since it is the identity: {kernel}, {bias}")
            return rest
    raise ValueError(
        f"{path}: {kernel} must be the identity and {bias} zero where the embeddings "
        "are as wide as the hidden states: a model here has no projection then"
    )


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
    """The first of many names, and how many more there are."""
    text = ", ".join(names[:_NUM_EXAMPLES])
    more = len(names) - _NUM_EXAMPLES
    return f"{text} and {more} more" if more > 0 else text
