"""Readers of minimal pairs: BLiMP, Zorro, and JSON lines; without TensorFlow.

A pair is a grammatical sentence and an ungrammatical one that differs from it as little
as possible. A paradigm is a set of pairs of one kind, a phenomenon a set of paradigms.

Sources: Warstadt et al., "BLiMP" (TACL 2020, arXiv 1912.00582); Huebner et al.,
"BabyBERTa" (CoNLL 2021), whose test suite is Zorro.
"""

import os
from collections.abc import Iterator
from typing import NamedTuple

from albert_tf.core import files, short_repr, strict_json

BLIMP, ZORRO = "blimp", "zorro"
SUITES = (BLIMP, ZORRO)
TITLES = {BLIMP: "BLiMP", ZORRO: "Zorro"}
# Where the pairs are below the directory of a suite, as its authors publish it.
_PATTERNS = {
    BLIMP: os.path.join("data", "*.jsonl"),
    ZORRO: os.path.join("sentences", "babyberta", "*.txt"),
}
_GOOD, _BAD = "sentence_good", "sentence_bad"
# Names of paradigm and phenomenon in JSON lines: BLiMP's, and that of one's own pairs.
_PARADIGM, _PHENOMENON, _GROUP = "UID", "linguistics_term", "group"
# Two paradigms whose files have the term on the left; the paper and its results count
# them as of the phenomenon on the right.
_TERMS = {"s-selection": "argument_structure"}


class Pair(NamedTuple):
    """A minimal pair.

    Attributes:
      paradigm: the name of its paradigm.
      phenomenon: the name of its phenomenon.
      good: the grammatical sentence.
      bad: the ungrammatical sentence.
    """

    paradigm: str
    phenomenon: str
    good: str
    bad: str


def find(path: str) -> str:
    """Returns the suite at a path: "blimp" or "zorro" for a directory, else "file".

    Raises:
      ValueError: there is no suite.
    """
    for suite, pattern in _PATTERNS.items():
        if files.is_folder(path) and files.glob(os.path.join(path, pattern)):
            return suite
    if files.is_folder(path) or not files.exists(path):
        expected = " or ".join(_PATTERNS.values())
        raise ValueError(
            f"a suite must be the directory of BLiMP or Zorro, with {expected} in it, "
            f"or a file of JSON lines; {path} is neither. Unpack the suite there"
        )
    return "file"


def read(path: str, pairs_per_paradigm: int = 0) -> list[Pair]:
    """Reads a suite, paradigm after paradigm.

    Args:
      path: the directory of BLiMP or Zorro, or a file of JSON objects, one per line,
        with `sentence_good`, `sentence_bad` and optionally the name of a `group`.
      pairs_per_paradigm: takes the first so many of each; 0 for all.

    Raises:
      ValueError: there is no suite, or a line of it is wrong; names path and line.
    """
    suite = find(path)
    if suite == "file":
        found = list(_read_json_lines(path))
    else:
        read_file = _read_json_lines if suite == BLIMP else _read_zorro
        paths = files.glob(os.path.join(path, _PATTERNS[suite]))
        found = [pair for one in paths for pair in read_file(one)]
    if not found:
        raise ValueError(f"a suite must hold a pair of sentences; {path} is empty")
    return first(found, pairs_per_paradigm) if pairs_per_paradigm else found


def first(pairs: list[Pair], number: int) -> list[Pair]:
    """Returns the first pairs of each paradigm, at most `number`."""
    counts: dict[str, int] = {}
    kept = []
    for pair in pairs:
        counts[pair.paradigm] = counts.get(pair.paradigm, 0) + 1
        if counts[pair.paradigm] <= number:
            kept.append(pair)
    return kept


def _lines(path: str) -> Iterator[tuple[str, str]]:
    """Yields place and text of each line that is not empty."""
    try:
        text = files.read_bytes(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} must be UTF-8: {error}. Convert it") from error
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            yield f"{path}:{number}", line.strip()


def _read_json_lines(path: str) -> Iterator[Pair]:
    """Yields the pairs of a file; a pair without a name is of the file's paradigm."""
    stem = os.path.splitext(os.path.basename(path))[0]
    for place, line in _lines(path):
        row = strict_json.as_object(strict_json.loads(line, place), place)
        for name in (_GOOD, _BAD):
            value = row.get(name)
            if not isinstance(value, str) or not value.strip():
                raise ValueError(
                    f"{place}: {name} must be a sentence; received "
                    f"{short_repr.shown(value)}"
                )
        paradigm = _name(place, row.get(_GROUP, row.get(_PARADIGM, stem)))
        phenomenon = _name(place, row.get(_PHENOMENON, paradigm))
        phenomenon = _TERMS.get(phenomenon, phenomenon)
        yield Pair(paradigm, phenomenon, row[_GOOD], row[_BAD])


def _name(place: str, value: object) -> str:
    """Returns the name of a paradigm or phenomenon, which may be a number."""
    if not isinstance(value, str | int):
        raise ValueError(
            f"{place}: a group must be a name; received {short_repr.shown(value)}"
        )
    return str(value)


def _read_zorro(path: str) -> Iterator[Pair]:
    """Yields the pairs of a file: odd lines are ungrammatical, the next grammatical.

    Its name is the phenomenon, a hyphen, and what distinguishes the paradigm.
    """
    paradigm = os.path.splitext(os.path.basename(path))[0]
    phenomenon = paradigm.rpartition("-")[0] or paradigm
    lines = list(_lines(path))
    if len(lines) % 2:
        raise ValueError(
            f"{lines[-1][0]}: a file of Zorro must have an even number of sentences, "
            f"an ungrammatical one before each grammatical one; received {len(lines)}"
        )
    for (_, bad), (_, good) in zip(lines[::2], lines[1::2], strict=True):
        yield Pair(paradigm, phenomenon, good, bad)
