"""Random sample of the lines of a corpus of any size, in one parallel pass.

Each line has a random key that depends on the seed and the position of the line; the
lines with the smallest keys are the sample. So it does not depend on the order in which
blocks are read, and no more than the sample is held in memory. Held-out lines are
chosen by their text, so that no copy of such a line is in the sample.
"""

import collections
import dataclasses
from collections.abc import Iterator, Sequence

import numpy as np
import xxhash

from albert_tf.tokenization import tokenizer
from data_prep.pipeline import worker_pool
from data_prep.reading import blocks, progress
from data_prep.text import cleaning
from data_prep.vocab import settings as settings_lib

# Keys are drawn block by block: the sample depends on this size.
_BLOCK_BYTES = 4 << 20
# If lines are held out, it is one line in this many.
_LINES_PER_HELDOUT = 100
_HELDOUT_HASHES = (1 << 64) // _LINES_PER_HELDOUT
_HIGHEST = (1 << 64) - 1


@dataclasses.dataclass(frozen=True)
class LineSample:
    """A sample of lines.

    Attributes:
      lines: the sampled lines in the order of the input, normalized and non-empty.
      heldout_lines: unnormalized held-out lines, without repeats.
      num_lines: number of lines in the input.
      counts: what was replaced or omitted, see `blocks.parse_block`.
    """

    lines: list[str]
    heldout_lines: list[str]
    num_lines: int
    counts: collections.Counter[str]


@dataclasses.dataclass(frozen=True)
class _Found:
    """Candidates for the sample from one block.

    `position` is the block's group and number, `keys` is uint64 [len(lines)], and
    `heldout` maps hashes of lines to the lines.
    """

    position: tuple[int, int]
    lines: list[str]
    keys: np.ndarray
    heldout: dict[int, str]
    num_lines: int
    counts: collections.Counter[str] = dataclasses.field(
        default_factory=collections.Counter
    )


class Scanner:
    """Finds the lines of a block that may be in the sample; has no state."""

    def __init__(self, settings: settings_lib.VocabSettings):
        self._settings = settings
        self._cleaner = cleaning.Cleaner(settings.text)

    def scan(self, block: blocks.Block, highest_key: int) -> _Found:
        """Finds the lines of a block whose keys are not above `highest_key`."""
        settings = self._settings
        parsed, counts = blocks.parse_block(block, settings.text)
        cleaned = [self._cleaner.clean(document.lines) for document in parsed]
        lines = [line for c in cleaned if c.dropped is None for line in c.lines]
        keys = _keys(settings.seed, block.group, block.number, len(lines))
        is_sampled = keys <= np.uint64(highest_key)
        heldout = {}
        if settings.heldout_lines:
            for number, line in enumerate(lines):
                text = line.encode("utf-8", "surrogatepass")
                digest = xxhash.xxh3_64_intdigest(text, settings.seed)
                if digest < _HELDOUT_HASHES:
                    heldout[digest] = line
                    is_sampled[number] = False
        return _Found(
            position=(block.group, block.number),
            lines=[
                tokenizer.normalize(lines[number], settings.lower_case)
                for number in np.flatnonzero(is_sampled)
            ],
            keys=keys[is_sampled],
            heldout=heldout,
            num_lines=len(lines),
            counts=counts,
        )


def _keys(seed: int, group: int, block: int, num_lines: int) -> np.ndarray:
    """Draws the keys of the lines of a block; uint64 [num_lines].

    The raw output of a bit generator is the same in all versions of NumPy.
    """
    sequence = np.random.SeedSequence([seed, group, block])
    return np.atleast_1d(np.random.PCG64(sequence).random_raw(num_lines))


class _Sampler:
    """Keeps the lines with the smallest keys; blocks may come in any order.

    Attributes:
      num_lines: number of lines of all blocks so far.
      highest_key: lines with higher keys can no longer be in the sample.
    """

    def __init__(self, size: int, heldout_size: int):
        self._size = size
        self._heldout_size = heldout_size
        self._found: list[tuple[tuple[int, int], list[str], np.ndarray]] = []
        self._heldout: dict[int, str] = {}
        self._num_held = 0
        self._counts: collections.Counter[str] = collections.Counter()
        self.num_lines = 0
        self.highest_key = _HIGHEST

    def add(self, found: _Found) -> None:
        self.num_lines += found.num_lines
        self._counts.update(found.counts)
        self._found.append((found.position, found.lines, found.keys))
        self._num_held += len(found.lines)
        # Not every time: pruning takes time in proportion to all held lines.
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
        # A line of combining characters only is empty after normalization.
        lines = [line for _, part, _ in self._found for line in part if line]
        heldout = list(self._heldout.values())
        return LineSample(lines, heldout, self.num_lines, self._counts)

    def _prune(self) -> None:
        keys = np.concatenate([keys for _, _, keys in self._found])
        self.highest_key = int(np.partition(keys, self._size - 1)[self._size - 1])
        pruned = []
        for position, lines, keys in self._found:
            kept = keys <= np.uint64(self.highest_key)
            if kept.any():
                kept_lines = [lines[number] for number in np.flatnonzero(kept)]
                pruned.append((position, kept_lines, keys[kept]))
        self._found = pruned
        self._num_held = sum(len(lines) for _, lines, _ in pruned)

    def _prune_heldout(self) -> None:
        digests = sorted(self._heldout)[: self._heldout_size]
        self._heldout = {digest: self._heldout[digest] for digest in digests}


def sample_lines(
    paths: Sequence[str], settings: settings_lib.VocabSettings, num_workers: int
) -> LineSample:
    """Samples the lines of files.

    Args:
      paths: from `input_files.expand`.
      settings: settings; the sample depends on them and the files alone.
      num_workers: number of worker processes; with 1, this process does all work.

    Raises:
      ValueError: a file is damaged, or not in the format of `settings.text`.
      OSError: a worker was killed.
    """
    groups = blocks.plan_groups(paths)
    sampler = _Sampler(settings.input_sentence_size, settings.heldout_lines)
    with (
        worker_pool.Pool(worker_pool.start(num_workers, Scanner, settings)) as pool,
        progress.InputProgress("reading", groups) as bar,
    ):

        def read_group(group: blocks.Group) -> Iterator[blocks.Block]:
            return blocks.iter_blocks(group, settings.text, _BLOCK_BYTES, bar.advance)

        tasks = (
            ("scan", block, sampler.highest_key)
            for block in pool.read(groups, read_group)
        )
        for _, found in pool.do_all(tasks):
            sampler.add(found)
            bar.show(lines=f"{sampler.num_lines:,}")
    return sampler.finish()
