"""The work directory of an unfinished run, from which the run can resume.

A run writes here, on a local disk, until all is complete. Every file appears under its
name only when it is complete and on disk, so a run that is killed at any moment, or
ended by a power loss, resumes from the files that exist. Per block: its records in
parts, each sorted by key (`.records`), then its documents, counts and the names of its
other files (`.documents`), which mark the block as done. Per group of input files: the
number of its blocks. Per shard: the shard, then its counts (`.counts`), which mark the
shard as done.

A shard takes a few records of every block, and has to read whole chunks: with many
blocks the cost of a record would grow with their number. So runs of consecutive blocks
are merged before. Per run: its records in pieces, each with a range of keys in the form
of a part of a block (`.records`), then their names (`.merged`), which mark the run as
done. Then the parts of its blocks are removed. Merging reads every chunk once, however
many blocks a run has, and a shard at most two chunks of each of `MAX_RUNS` runs beside
its own records.

Every file is checked when it is read. What is damaged or missing is made again: it does
not count as done or, if that is noticed later, raises a `work_file.DamagedError` with
which the caller calls `discard`.
"""

import collections
import contextlib
import dataclasses
import functools
import glob
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from albert_tf.core import files, locks
from albert_tf.data import schema
from data_prep.pipeline import block_processor, record_file, run_plan, work_file
from data_prep.reading import blocks
from data_prep.records import example_builder, shards

_PLAN_FILE = "plan"
_LOCK_FILE = "lock"
_PUBLISHED_PREFIX = "published-"
_ALL_DROPPED_FILE = "all-dropped"
# Blocks of a run, at least. Up to twice as many are not merged.
BLOCKS_PER_RUN = 128
# So a shard of 128 MB reads about 64 MB (a chunk of each run) beside its own records,
# and at most twice as much. Merging holds a chunk of each block of a run: 1 KB for each
# block of the corpus, 125 MB for 1,000 GB of text in 125,000 blocks.
MAX_RUNS = 256
# Of the records that are merged at a time.
PIECE_BYTES = 64 << 20


@dataclasses.dataclass(frozen=True)
class BlockName:
    """The identity of a block, in the order of the input."""

    group: int
    number: int

    def __str__(self) -> str:
        return f"{self.group:06d}-{self.number:06d}"


class ShardCounts(NamedTuple):
    """A shard, and its tokens and masked tokens by id; int64 [V]."""

    shard: schema.Shard
    tokens: np.ndarray
    masked: np.ndarray


class WorkDir:
    """The directory of unfinished work; its path is local."""

    def __init__(
        self, path: str, num_groups: int, blocks_per_run: int = BLOCKS_PER_RUN
    ):
        """Reads and writes nothing yet.

        Args:
          path: the directory.
          num_groups: the number of groups of input files.
          blocks_per_run: the number of blocks whose records are merged, if there are
            more than twice as many; more if there would be more than `MAX_RUNS` runs.
        """
        self.path = path
        self._num_groups = num_groups
        self._blocks_per_run = blocks_per_run
        # All blocks, and those whose records are in runs; None if that is not known.
        self._names: list[BlockName] | None = None
        self._merged: set[str] | None = None
        self._lock = locks.FileLock(self._join(_LOCK_FILE))
        # Large files are checked once, and then memory-mapped.
        self._checked: set[str] = set()

    # ---- The run ----

    def open(self, plan: run_plan.RunPlan, overwrite: bool) -> None:
        """Creates the directory, or takes it over from a run with the same plan.

        If input files have changed, the results of their groups are removed.

        Args:
          plan: everything that decides the outcome.
          overwrite: whether to remove the work of another plan.

        Raises:
          ValueError: another run uses the directory, or left it with another plan.
        """
        try:
            os.makedirs(self.path, exist_ok=True)
            self._lock.acquire()
        except locks.HeldError as error:
            raise ValueError(
                f"another run is at work in {self.path} ({error}); wait until it ends, "
                "or choose another --output_dir"
            ) from error
        except OSError as error:
            raise ValueError(
                f"{self.path} must be a writable directory ({error.strerror}); choose "
                "another --work_dir"
            ) from error
        before = self._read_plan()
        if before == plan:
            self._remove(lambda name: ".tmp" in name)
            return
        difference = before.difference(plan) if before else ""
        if difference and self.has_blocks() and not overwrite:
            self.close()
            raise ValueError(
                f"{self.path} holds an unfinished run that differs: {difference}. "
                "Repeat that run's command to finish it, or pass --overwrite to "
                "start again"
            )
        for removed in glob.glob(f"{glob.escape(self.path)}-removed-*"):
            shutil.rmtree(removed, ignore_errors=True)  # of another run
        if before is None or difference:
            if before is None and self.has_blocks():
                _report(f"{self._join(_PLAN_FILE)} is missing or damaged: all")
            self._remove(lambda _: True)
        else:
            # None: of what is made after the blocks.
            stale = {*before.changed_groups(plan), None}
            merged = self._merged_blocks()
            # The runs are of all groups, and go with what they were made of.
            self._remove(
                lambda name: _group_of(name) in stale or name.split(".")[0] in merged
            )
            self._merged = None
        # Last: until then the remaining files belong to the previous plan.
        work_file.write(self._join(_PLAN_FILE), dataclasses.asdict(plan), {})

    def note_published(self, plan: run_plan.RunPlan, manifest_digest: str) -> None:
        """Marks all files as complete, before the first of them is moved."""
        work_file.write(self._published_path(plan, manifest_digest), {}, {})

    def is_publishing(self, plan: run_plan.RunPlan) -> bool:
        """Returns whether a run with this plan has begun to move its files."""
        return bool(glob.glob(f"{glob.escape(self._published_path(plan, ''))}*"))

    def is_published(self, plan: run_plan.RunPlan, manifest_digest: str) -> bool:
        """Returns whether a run was killed after it moved its manifest.

        Args:
          plan: of the run.
          manifest_digest: SHA-256 of the manifest in the output directory.
        """
        return os.path.exists(self._published_path(plan, manifest_digest)) or (
            os.path.isdir(self._removed_path(plan, manifest_digest))
        )

    def finish(self, plan: run_plan.RunPlan, manifest_digest: str) -> None:
        """Removes the directory of a run that has published all its files.

        Its name changes first, so that a run that is killed meanwhile leaves a
        directory that says by its name that nothing is missing.
        """
        removed = self._removed_path(plan, manifest_digest)
        if os.path.isdir(self.path) and not os.path.isdir(removed):
            work_file.rename(self.path, removed)
        shutil.rmtree(removed, ignore_errors=True)

    def _published_path(self, plan: run_plan.RunPlan, manifest_digest: str) -> str:
        # Names say what is done, since nothing damages a name.
        return self._join(
            f"{_PUBLISHED_PREFIX}{plan.digest[:32]}-{manifest_digest[:32]}"
        )

    def _removed_path(self, plan: run_plan.RunPlan, manifest_digest: str) -> str:
        return f"{self.path}-removed-{plan.digest[:32]}-{manifest_digest[:32]}"

    def _read_plan(self) -> run_plan.RunPlan | None:
        """Returns the plan of the directory; None if there is none or it is damaged."""
        values = _read_values(self._join(_PLAN_FILE))
        return None if values is None else run_plan.RunPlan(**values)

    def _remove(self, is_stale: Callable[[str], bool]) -> None:
        """Removes files by name, except the plan and the lock.

        A file that marks something as done is removed before what it marks, so that
        nothing incomplete is marked as done after a kill.
        """
        self._names = None
        names = [n for n in os.listdir(self.path) if n not in (_PLAN_FILE, _LOCK_FILE)]
        for name in sorted(filter(is_stale, names), key=_order_to_remove):
            os.remove(self._join(name))

    def discard(self, paths: Iterable[str]) -> None:
        """Removes damaged files, and all of their block, run or shard."""
        stems = {
            "-".join(os.path.basename(path).split(".")[0].split("-")[:2])
            for path in paths
        }
        stems |= self._blocks_of_runs(stems)
        # What is marked as done for the blocks of a group, and for all blocks.
        marks = {f"{stem.split('-')[0]}.group" for stem in stems}
        if any(_group_of(stem) is not None for stem in stems):
            marks.add(_ALL_DROPPED_FILE)
        prefixes = tuple(f"{stem}{end}" for stem in stems for end in ".-")
        self._checked.clear()
        self._merged = None
        self._remove(lambda name: name in marks or name.startswith(prefixes))

    def _blocks_of_runs(self, stems: Iterable[str]) -> set[str]:
        """Returns the blocks whose records are in some runs, as far as is known."""
        found: set[str] = set()
        for stem in stems:
            path = self._join(f"{stem}.merged")
            with contextlib.suppress(work_file.DamagedError):
                with work_file.opened(path) as content:
                    found.update(content.values["blocks"])
        return found

    def clear(self) -> None:
        """Removes the directory with its content, if it exists."""
        shutil.rmtree(self.path, ignore_errors=True)

    def close(self) -> None:
        """Releases the lock of the directory."""
        self._lock.release()

    # ---- Groups and blocks ----

    def write_group(self, group: int, num_blocks: int) -> None:
        """Marks all blocks of a group as done."""
        work_file.write(self._group_path(group), {"num_blocks": num_blocks}, {})

    def has_group(self, group: int) -> bool:
        """Returns whether all blocks of a group are done."""
        values = _read_values(self._group_path(group))
        if values is None:
            return False
        names = [BlockName(group, number) for number in range(values["num_blocks"])]
        return all([self._is_done(name) for name in names])  # reports each that is not

    def has_block(self, block: blocks.Block) -> bool:
        """Returns whether a block is done."""
        return self._is_done(BlockName(block.group, block.number))

    def _is_done(self, name: BlockName) -> bool:
        """Returns whether a block's files are there; discards a damaged block."""
        path = self._documents_path(name)
        if not os.path.exists(path):
            return False
        try:
            with work_file.opened(path) as content:
                content.arrays()
            is_merged = str(name) in self._merged_blocks()
            for other, size in content.values["files"].items():
                if not (is_merged and other.endswith(".records")):
                    _check_size(self._join(other), size)
        except work_file.DamagedError as error:
            _report(error)
            self.discard(error.faults)
            return False
        return True

    def write_block(
        self, block: blocks.Block, processor: block_processor.BlockProcessor
    ) -> collections.Counter:
        """Processes a block, writes its outcome and returns its tallies."""
        name = BlockName(block.group, block.number)
        documents, parts = processor.process(block)
        written = []
        for number, part in enumerate(parts):
            written.append(f"{name}-{number:02d}.records")
            record_file.write(self._join(written[-1]), part)
            shards.count_part(part, documents.tallies)
        if documents.signatures.size:
            written.append(f"{name}.signatures")
            # By column: the search for duplicates reads a few at a time.
            columns = {"columns": documents.signatures.T}
            work_file.write(self._join(written[-1]), {}, columns)
        sizes = {other: os.path.getsize(self._join(other)) for other in written}
        arrays = {
            field: getattr(documents, field)
            for field in ("fingerprints", "is_heldout", "num_characters")
            + ("num_tokens", "counts")
        }
        values = {"tallies": documents.tallies, "files": sizes}
        work_file.write(self._documents_path(name), values, arrays)
        return documents.tallies

    def has_blocks(self) -> bool:
        """Returns whether any block is done."""
        return self.num_blocks_done() > 0

    def num_blocks_done(self) -> int:
        """The number of blocks that are marked as done."""
        if not os.path.isdir(self.path):
            return 0
        return sum(name.endswith(".documents") for name in os.listdir(self.path))

    def block_names(self) -> Sequence[BlockName]:
        """All blocks of the input, in its order; all groups must be done."""
        if self._names is None:  # a file of each group is read
            names = []
            for group in range(self._num_groups):
                with work_file.opened(self._group_path(group)) as content:
                    num_blocks = content.values["num_blocks"]
                names += [BlockName(group, number) for number in range(num_blocks)]
            self._names = names
        return self._names

    def read_documents(self, name: BlockName) -> block_processor.BlockDocuments:
        """Returns the documents of a block, without their signatures."""
        with work_file.opened(self._documents_path(name)) as content:
            arrays = content.arrays()
        tallies = collections.Counter(content.values["tallies"])
        signatures = np.empty((len(arrays["fingerprints"]), 0), np.uint32)
        return block_processor.BlockDocuments(
            signatures=signatures, tallies=tallies, **arrays
        )

    def read_fingerprints(self, name: BlockName) -> np.ndarray:
        """Returns the fingerprints of a block's documents."""
        with work_file.opened(self._documents_path(name)) as content:
            return content.array("fingerprints")

    def read_signatures(self, name: BlockName) -> np.ndarray:
        """Returns the signatures of a block, memory-mapped."""
        path = self._join(f"{name}.signatures")
        with work_file.opened(path) as content:
            columns = content.mapped_array("columns", path in self._checked)
        self._checked.add(path)
        return columns.T

    # ---- Duplicates ----

    def write_dropped(self, name: BlockName, dropped: np.ndarray) -> None:
        """Records which documents of a block are duplicates; uint8 [D], 0 if not."""
        work_file.write(self._join(f"{name}.dropped"), {}, {"dropped": dropped})

    def read_dropped(self, name: BlockName) -> np.ndarray:
        """Returns the array of `write_dropped`."""
        with work_file.opened(self._join(f"{name}.dropped")) as content:
            return content.array("dropped")

    def note_all_dropped(self) -> None:
        """Marks the search for duplicates as done: `write_dropped` for all blocks."""
        work_file.write(self._join(_ALL_DROPPED_FILE), {}, {})

    def has_all_dropped(self) -> bool:
        """Returns whether the search for duplicates is done."""
        return _read_values(self._join(_ALL_DROPPED_FILE)) is not None

    # ---- Runs ----

    def num_runs(self) -> int:
        """The number of runs that the blocks are merged into; 0 for a few blocks."""
        num_blocks = len(self.block_names())
        if num_blocks <= 2 * self._blocks_per_run:
            return 0
        return -(-num_blocks // self._run_length)

    @property
    def _run_length(self) -> int:
        """The number of blocks of a run."""
        return max(self._blocks_per_run, -(-len(self.block_names()) // MAX_RUNS))

    def merge_run(self, number: int, has_dropped: bool) -> None:
        """Merges the records of a run's blocks, unless done, and removes theirs.

        Args:
          number: of the run.
          has_dropped: whether `write_dropped` was called for all blocks.
        """
        first = number * self._run_length
        blocks_of_run = self.block_names()[first : first + self._run_length]
        record_files = self._record_files_of(blocks_of_run)
        if _read_values(self._merged_path(number)) is None:
            self._write_run(number, blocks_of_run, record_files, has_dropped)
        for _, name in record_files:
            if os.path.exists(self._join(name)):
                os.remove(self._join(name))

    def _write_run(
        self,
        number: int,
        blocks_of_run: Sequence[BlockName],
        record_files: Iterable[tuple[BlockName, str]],
        has_dropped: bool,
    ) -> None:
        """Writes the pieces of a run, and marks it as done."""
        readers = [
            record_file.Reader(
                self._join(name), self.read_dropped(block) if has_dropped else None
            )
            for block, name in record_files
        ]
        ranges = self._piece_ranges(blocks_of_run)
        pieces = record_file.merged(readers, [end_key for _, end_key in ranges])
        sizes = {}
        for piece, records in enumerate(pieces):
            name = f"{_run_name(number)}-{piece:06d}.records"
            record_file.write(self._join(name), records)
            sizes[name] = os.path.getsize(self._join(name))
        values = {"files": sizes, "blocks": [str(block) for block in blocks_of_run]}
        first_keys = np.array([first_key for first_key, _ in ranges], np.uint64)
        work_file.write(self._merged_path(number), values, {"first_keys": first_keys})

    def _piece_ranges(self, names: Iterable[BlockName]) -> list[tuple[int, int]]:
        """The ranges of keys of a run's pieces, of about `PIECE_BYTES` of records each.

        Records of duplicates count, too.
        """
        tallies: collections.Counter[str] = collections.Counter()
        for name in names:
            with work_file.opened(self._documents_path(name)) as content:
                tallies.update(content.values["tallies"])
        ranges = []
        for split in schema.SPLITS:
            count = -(-tallies[f"bytes/{split}"] // PIECE_BYTES)
            ranges += [shards.key_range(split, piece, count) for piece in range(count)]
        return ranges

    def _merged_blocks(self) -> set[str]:
        """Returns the blocks whose records are in runs; discards damaged runs."""
        if self._merged is None:
            found: set[str] = set()
            for path in sorted(glob.glob(f"{glob.escape(self.path)}/*.merged")):
                try:
                    with work_file.opened(path) as content:
                        content.arrays()
                    for other, size in content.values["files"].items():
                        _check_size(self._join(other), size)
                except work_file.DamagedError as error:
                    _report(error)
                    self.discard(error.faults)
                else:
                    found.update(content.values["blocks"])
            self._merged = found
        return self._merged

    @functools.cached_property
    def _pieces(self) -> list[tuple[np.ndarray, list[str]]]:
        """The first keys and the names of the pieces of each run."""
        found = []
        for number in range(self.num_runs()):
            with work_file.opened(self._merged_path(number)) as content:
                names = sorted(content.values["files"])
                found.append((content.array("first_keys"), names))
        return found

    # ---- Records and shards ----

    def iter_selected(
        self, split: str, number: int, count: int, has_dropped: bool
    ) -> Iterator[example_builder.RecordBatch]:
        """The records of a shard, in parts and in the order of the input.

        Args:
          split: the split of the shard.
          number: its number.
          count: the number of shards of the split.
          has_dropped: whether `write_dropped` was called for all blocks.
        """
        keys = shards.key_range(split, number, count)
        if not self._pieces:
            for block, name in self._record_files:
                dropped = self.read_dropped(block) if has_dropped else None
                with work_file.opened(self._join(name)) as content:
                    for part in record_file.read(content, *keys):
                        yield shards.select(part, dropped, split, number, count)
            return
        for first_keys, names in self._pieces:
            first, end = shards.between(first_keys, *keys)
            # Before the first piece that begins in the range, one may end in it.
            for name in names[max(0, first - 1) : end]:
                with work_file.opened(self._join(name)) as content:
                    for part in record_file.read(content, *keys):
                        yield shards.select(part, None, split, number, count)

    @functools.cached_property
    def _record_files(self) -> list[tuple[BlockName, str]]:
        """The files of records in the order of the input, each with its block."""
        return self._record_files_of(self.block_names())

    def _record_files_of(
        self, names_of_blocks: Iterable[BlockName]
    ) -> list[tuple[BlockName, str]]:
        found = []
        for block in names_of_blocks:
            with work_file.opened(self._documents_path(block)) as content:
                names = sorted(content.values["files"])
            found += [(block, name) for name in names if name.endswith(".records")]
        return found

    def shard_path(self, name: str) -> str:
        """The path of a shard until it is published."""
        return self._join(name)

    def add_shard(
        self,
        temporary: str,
        shard: schema.Shard,
        tokens: np.ndarray,
        masked: np.ndarray,
    ) -> None:
        """Renames a shard, and marks it as done.

        Args:
          temporary: the path of the shard, a file of this directory that is on disk.
          shard: its description.
          tokens: int64 [V], its tokens by id.
          masked: int64 [V], its masked tokens by id.
        """
        work_file.rename(temporary, self._join(shard.name))
        values = {"shard": dataclasses.asdict(shard)}
        arrays = {"tokens": tokens, "masked": masked}
        work_file.write(self._counts_path(shard.name), values, arrays)

    def find_shard(self, name: str) -> schema.Shard | None:
        """Returns a shard that is marked as done, or None."""
        values = _read_values(self._counts_path(name))
        return schema.Shard(**values["shard"]) if values else None

    def find_moved_shard(self, name: str) -> schema.Shard | None:
        """Returns a shard that is done but whose file is not here, or None."""
        return None if os.path.exists(self._join(name)) else self.find_shard(name)

    def has_file(self, shard: schema.Shard) -> bool:
        """Returns whether the file of a shard is here, whole."""
        path = self._join(shard.name)
        if not os.path.exists(path):
            return False
        is_whole = files.sha256(path) == shard.sha256
        if not is_whole:
            _report(f"{path} is damaged: its SHA-256 is wrong")
        return is_whole

    def read_shard_counts(self, name: str) -> ShardCounts:
        """Returns the counts of a shard that is done."""
        with work_file.opened(self._counts_path(name)) as content:
            shard = schema.Shard(**content.values["shard"])
            return ShardCounts(shard, content.array("tokens"), content.array("masked"))

    # ---- Paths ----

    def _group_path(self, group: int) -> str:
        return self._join(f"{group:06d}.group")

    def _documents_path(self, name: BlockName) -> str:
        return self._join(f"{name}.documents")

    def _merged_path(self, number: int) -> str:
        return self._join(f"{_run_name(number)}.merged")

    def _counts_path(self, name: str) -> str:
        return self._join(f"{name}.counts")

    def _join(self, name: str) -> str:
        return os.path.join(self.path, name)


def _run_name(number: int) -> str:
    return f"run-{number:06d}"


def _group_of(name: str) -> int | None:
    """The group of a block's file; None for files that are made after the blocks."""
    stem = name.split(".")[0].split("-")[0]
    return int(stem) if stem.isdigit() and not name.endswith(".dropped") else None


def _order_to_remove(name: str) -> int:
    if name.startswith((_PUBLISHED_PREFIX, _ALL_DROPPED_FILE)):
        return -1
    first = (".counts", ".merged", ".dropped", ".group", ".documents")
    ranks = [rank for rank, end in enumerate(first) if name.endswith(end)]
    return ranks[0] if ranks else len(first)


def _report(fault: object) -> None:
    print(f"{fault}; it is made again", file=sys.stderr)


def _read_values(path: str) -> Mapping[str, Any] | None:
    """Returns the values of a file; None if there is none or it is damaged."""
    if not os.path.exists(path):
        return None
    try:
        with work_file.opened(path) as content:
            return content.values
    except work_file.DamagedError as error:
        _report(error)
        return None


def _check_size(path: str, size: int) -> None:
    found = os.path.getsize(path) if os.path.exists(path) else None
    if found != size:
        fault = "is missing" if found is None else f"has {found} bytes and not {size}"
        raise work_file.DamagedError({path: fault})
