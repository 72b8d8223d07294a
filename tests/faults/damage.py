"""Bits flipped, files cut off or swapped, in each format that is read."""

import collections
import dataclasses
import pathlib
import random
import shutil
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import tensorflow as tf

from tests.faults import experiment

KINDS = ("flip", "cut", "zeros", "swap")
_MAX_MESSAGE = 600
_ERRORS = (ValueError, OSError, tf.errors.OpError)


@dataclasses.dataclass(frozen=True)
class Format:
    """A format that is read.

    Attributes:
      name: for the table.
      make: writes a model, or a file of data, to a folder; for a seed.
      read: what the project makes of the folder; equal for equal content.
      files: patterns of the files that are damaged.
      may_differ: why damage may be read as something else; empty if it must not.
      kinds: of damage.
    """

    name: str
    make: Callable[[pathlib.Path, int], None]
    read: Callable[[pathlib.Path], Any]
    files: tuple[str, ...] = ("*",)
    may_differ: str = ""
    kinds: tuple[str, ...] = KINDS


def damaged(kind: str, content: bytes, twin: bytes, rng: random.Random) -> bytes:
    """The content with damage of a kind.

    Args:
      kind: of `KINDS`.
      content: at least one byte.
      twin: of the same file of another model.
      rng: draws the place.
    """
    place = rng.randrange(len(content))
    if kind == "flip":
        flipped = content[place] ^ (1 << rng.randrange(8))
        return content[:place] + bytes([flipped]) + content[place + 1 :]
    if kind == "cut":
        return content[:place]
    if kind == "zeros":  # a page that a disk lost
        place = place // 512 * 512
        lost = content[place : place + 512]
        return content[:place] + bytes(len(lost)) + content[place + len(lost) :]
    return twin


def harm(
    formats: Callable[[], Iterable[Format]],
) -> Callable[[Any, int, random.Random], experiment.Tally]:
    """Damages formats, which take turns, as often as is wanted."""

    def run(bench, num_faults, rng) -> experiment.Tally:
        tally, choices = experiment.Tally(), list(formats())
        unseen: collections.Counter[str] = collections.Counter()
        made = [_Made(bench.new_path("format"), one) for one in choices]
        for number in range(num_faults):
            one, found = choices[number % len(choices)], made[number % len(choices)]
            _harm_once(one, found, rng, tally, unseen)
        for name, count in sorted(unseen.items()):
            reason = next(one.may_differ for one in choices if one.name == name)
            tally.notes.append(f"{name}: {count} unseen: {reason}")
        return tally

    return run


class _Made:
    """Two models of a format, one of them to be damaged."""

    def __init__(self, folder: pathlib.Path, one: Format):
        self.whole, self.twin, self.work = (
            folder / name for name in ("whole", "twin", "work")
        )
        for seed, path in enumerate((self.whole, self.twin), 1):
            path.mkdir(parents=True)
            one.make(path, seed)
        self.paths = sorted(
            {
                path.relative_to(self.whole)
                for pattern in one.files
                for path in self.whole.rglob(pattern)
                if path.is_file() and path.stat().st_size
            }
        )
        # The same folder each time, so that paths within what is read are equal.
        shutil.copytree(self.whole, self.work)
        self.value = one.read(self.work)


def _harm_once(one: Format, made: _Made, rng, tally, unseen) -> None:
    shutil.rmtree(made.work)
    shutil.copytree(made.whole, made.work)
    kind, path = rng.choice(one.kinds), rng.choice(made.paths)
    content = (made.whole / path).read_bytes()
    twin = made.twin / path
    other = twin.read_bytes() if twin.exists() else b""
    harmed = damaged(kind, content, other, rng)
    if harmed == content:  # zeros were zeros
        kind, harmed = "flip", damaged("flip", content, other, rng)
    (made.work / path).write_bytes(harmed)
    tally.num_runs += 1
    tally.num_faults += 1
    try:
        value = one.read(made.work)
    except _ERRORS as error:
        message = str(error)
        if str(made.work) in message and len(message) < _MAX_MESSAGE + len(str(path)):
            tally.add(experiment.NAMED)
        else:
            tally.fail(f"{one.name}, {kind} of {path}: not named: {error!r}")
        return
    if _is_equal(made.value, value):
        tally.add(experiment.UNHARMED)
    elif one.may_differ:
        tally.add(experiment.UNSEEN)
        unseen[one.name] += 1
    else:
        tally.fail(f"{one.name}, {kind} of {path}: read as something else")


def _is_equal(one: Any, other: Any) -> bool:
    if isinstance(one, np.ndarray):
        return np.array_equal(one, other, equal_nan=one.dtype.kind == "f")
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(
            _is_equal(value, other[name]) for name, value in one.items()
        )
    return bool(one == other)
