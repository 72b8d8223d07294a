"""A random sample of the lines of a corpus of any size, in one pass, on all cores.

Each line draws a number that follows from the seed and from where the line stands; the
lines with the smallest numbers are the sample. So it is the same whoever reads which
block first, and never more than the sample is held in memory. Lines to measure on are
held out by their text, so that no copy of such a line is in the sample.
"""

import dataclasses
from collections.abc import Iterator, Sequence

import numpy as np
import xxhash

from albert_tf import config, tokenization
from data_prep import cleaning, processes, progress, readers

# Part of what a sample follows from, as the numbers are drawn block by block.
_BLOCK_BYTES = 4 << 20
# One line in so many is held out, if any is.
_LINES_PER_HELDOUT = 100
_HELDOUT_HASHES = (1 << 64) // _LINES_PER_HELDOUT
_HIGHEST = (1 << 64) - 1


@dataclasses.dataclass(frozen=True)
class Settings:
    """How to sample.

    Attributes:
      text: how files become clean lines.
      lower_case: see `tokenization.normalize`.
      size: the number of lines to take; 0, or more than there are, takes all.
      heldout_size: the most lines to hold out; 0 holds none out.
      seed: of the sample and of what is held out.
    """

    text: config.TextConfig
    lower_case: bool
    size: int
    heldout_size: int
    seed: int


@dataclasses.dataclass(frozen=True)
class LineSample:
    """What was sampled.

    Attributes:
      lines: the sample in the order of the input, normalized; without empty lines.
      heldout_lines: as they stand in the text, each once.
      num_lines: all lines of the input.
    """

    lines: list[str]
    heldout_lines: list[str]
    num_lines: int


@dataclasses.dataclass(frozen=True)
class _Found:
    """What one block may give to the sample.

    `keys` is uint64 [len(lines)]. The hashes of `heldout` are those of its lines.
    """

    place: tuple[int, int]
    lines: list[str]
    keys: np.ndarray
    heldout: dict[int, str]
    num_lines: int


class Scanner:
    """Finds in a block what may be in the sample; the same block gives the same."""

    def __init__(self, settings: Settings):
        self._settings = settings
        self._cleaner = cleaning.Cleaner(settings.text)

    def scan(self, block: readers.Block, highest_key: int) -> _Found:
        """The lines of a block whose keys are not above `highest_key`."""
        settings = self._settings
        parsed, _ = readers.parse_block(block, settings.text)
        cleaned = [self._cleaner.clean(document.lines) for document in parsed]
        lines = [line for c in cleaned if c.dropped is None for line in c.lines]
        keys = _keys(settings.seed, block.group, block.number, len(lines))
        is_sampled = keys <= np.uint64(highest_key)
        heldout = {}
        if settings.heldout_size:
            for number, line in enumerate(lines):
                text = line.encode("utf-8", "surrogatepass")
                digest = xxhash.xxh3_64_intdigest(text, settings.seed)
                if digest < _HELDOUT_HASHES:
                    heldout[digest] = line
                    is_sampled[number] = False
        return _Found(
            place=(block.group, block.number),
            lines=[
                tokenization.normalize(lines[number], settings.lower_case)
                for number in np.flatnonzero(is_sampled)
            ],
            keys=keys[is_sampled],
            heldout=heldout,
            num_lines=len(lines),
        )


def _keys(seed: int, group: int, block: int, num_lines: int) -> np.ndarray:
    """The random numbers of the lines of a block; uint64 [num_lines].

    Raw words of a bit generator are the same in all versions of numpy.
    """
    sequence = np.random.SeedSequence([seed, group, block])
    return np.atleast_1d(np.random.PCG64(sequence).random_raw(num_lines))


class _Sampler:
    """Keeps the lines with the smallest keys of all that it is given, in any order.

    Attributes:
      highest_key: lines with keys above it can no longer be in the sample.
    """

    def __init__(self, size: int, heldout_size: int):
        self._size = size
        self._heldout_size = heldout_size
        self._found: list[tuple[tuple[int, int], list[str], np.ndarray]] = []
        self._heldout: dict[int, str] = {}
        self._num_held = 0
        self.num_lines = 0
        self.highest_key = _HIGHEST

    def add(self, found: _Found) -> None:
        self.num_lines += found.num_lines
        self._found.append((found.place, found.lines, found.keys))
        self._num_held += len(found.lines)
        # Now and then, for it goes through all that is held.
        if self._size and self._num_held > self._size * 1.25 + 1000:
            self._prune()
        self._heldout |= found.heldout
        if len(self._heldout) > self._heldout_size * 2 + 1000:
            self._prune_heldout()

    def finish(self) -> LineSample:
        if self._size and self._num_held > self._size:
            self._prune()
        self._prune_heldout()
        self._found.sort(key=lambda found: found[0])
        # A line of combining characters alone is normalized to nothing.
        lines = [line for _, part, _ in self._found for line in part if line]
        return LineSample(lines, list(self._heldout.values()), self.num_lines)

    def _prune(self) -> None:
        keys = np.concatenate([keys for _, _, keys in self._found])
        self.highest_key = int(np.partition(keys, self._size - 1)[self._size - 1])
        pruned = []
        for place, lines, keys in self._found:
            kept = keys <= np.uint64(self.highest_key)
            if kept.any():
                left = [lines[number] for number in np.flatnonzero(kept)]
                pruned.append((place, left, keys[kept]))
        self._found = pruned
        self._num_held = sum(len(lines) for _, lines, _ in pruned)

    def _prune_heldout(self) -> None:
        digests = sorted(self._heldout)[: self._heldout_size]
        self._heldout = {digest: self._heldout[digest] for digest in digests}


def sample_lines(
    paths: Sequence[str], settings: Settings, num_workers: int
) -> LineSample:
    """Samples the lines of files.

    Args:
      paths: what `readers.expand` gives.
      settings: the sample follows from them and the files alone.
      num_workers: worker processes; 1 works without any.

    Raises:
      ValueError: a file is damaged, or not what `settings.text` says.
      OSError: a worker was killed.
    """
    groups = readers.plan_groups(paths)
    sampler = _Sampler(settings.size, settings.heldout_size)
    with (
        processes.Pool(num_workers, Scanner, settings) as pool,
        progress.InputProgress("reading", groups) as bar,
    ):

        def read_group(group: readers.Group) -> Iterator[readers.Block]:
            return readers.iter_blocks(group, settings.text, _BLOCK_BYTES, bar.advance)

        tasks = (
            ("scan", block, sampler.highest_key)
            for block in pool.read(groups, read_group)
        )
        for _, found in pool.do_all(tasks):
            sampler.add(found)
            bar.show(lines=f"{sampler.num_lines:,}")
    return sampler.finish()
