"""Shards of a simulated corpus of many blocks: what a record costs after the blocks.

Each block is a group by itself, as the files of a real corpus mostly are, and has the
records of the same text under keys of its own. Blocks are smaller than those of a real
corpus, and so are chunks, pieces and shards, by the same factor: what is read has the
proportions of real blocks, and each opening of a file weighs more.
"""

import collections
import contextlib
import os
import resource
import threading
import time
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from albert_tf.data import schema
from data_prep.pipeline import block_processor, record_file, work_dir, worker
from data_prep.reading import blocks as blocks_lib
from data_prep.records import example_builder

# Of a block of text with one copy, in round figures.
_REAL_BLOCK_BYTES = 6 << 20
_HELDOUT_RATE = 0.01
# Between two looks at the open files, in seconds.
_LOOK_SECONDS = 0.005


class Cost(NamedTuple):
    """What a simulated corpus of one size costs.

    Attributes:
      num_blocks: of the corpus.
      num_runs: that its blocks were merged into; 0 if they were not.
      num_records: of all blocks.
      num_shards: that were made.
      merge_seconds: of merging, on one core, without waits for the disk.
      shard_seconds: of the shards, likewise.
      peak_bytes: the process's peak memory so far.
      most_files: that were open at a time, while runs or shards were made.
    """

    num_blocks: int
    num_runs: int
    num_records: int
    num_shards: int
    merge_seconds: float
    shard_seconds: float
    peak_bytes: int
    most_files: int

    @property
    def microseconds(self) -> float:
        """Of merging and shards, for each record."""
        return 1e6 * (self.merge_seconds + self.shard_seconds) / self.num_records


class _SameRecords(block_processor.BlockProcessor):
    """Makes the same records for each block, under other keys."""

    def __init__(self, batch: example_builder.RecordBatch):
        self._batch = batch

    def process(
        self, block: blocks_lib.Block
    ) -> tuple[block_processor.BlockDocuments, Iterator[example_builder.RecordBatch]]:
        """Returns no documents, and the records."""
        rng = np.random.default_rng(block.group)
        keys = rng.integers(0, 1 << 63, len(self._batch.keys), np.uint64)
        is_heldout = rng.random(len(keys)) < _HELDOUT_RATE
        keys[is_heldout] |= example_builder.HELDOUT_BIT
        documents = block_processor.BlockDocuments(
            fingerprints=np.empty((0, 2), np.uint64),
            signatures=np.empty((0, 0), np.uint32),
            is_heldout=np.empty(0, bool),
            num_characters=np.empty(0, np.int64),
            num_tokens=np.empty(0, np.int64),
            counts=np.empty((0, 0), np.int64),
            tallies=collections.Counter(),
        )
        return documents, iter([self._batch._replace(keys=np.sort(keys))])


def make_records(
    path: str, settings: block_processor.PipelineSettings, num_bytes: int
) -> example_builder.RecordBatch:
    """Returns about `num_bytes` of records of a text.

    Raises:
      ValueError: the text does not give so many.
    """
    (group,) = blocks_lib.plan_groups([path])
    size = block_processor.block_bytes(settings.data)
    processor = block_processor.BlockProcessor(settings)
    parts = (
        part
        for block in blocks_lib.iter_blocks(group, settings.text, size)
        for part in processor.process(block)[1]
    )
    batch = next(parts)
    count = int(np.searchsorted(batch.ends, num_bytes))
    if not 0 < count < len(batch.keys):
        raise ValueError(
            f"--input must give {num_bytes:,} bytes of records; it gives "
            f"{batch.ends[-1]:,}. Give more text, or smaller blocks"
        )
    return example_builder.RecordBatch(
        batch.data[: batch.ends[count - 1]],
        batch.ends[:count],
        batch.keys[:count],
        batch.documents[:count],
    )


def measure(
    batch: example_builder.RecordBatch,
    settings: block_processor.PipelineSettings,
    num_blocks: int,
    blocks_per_run: int,
    directory: str,
) -> Cost:
    """Writes the blocks of a corpus, and times what follows them, in this process.

    Args:
      batch: the records of each block.
      settings: of the records.
      num_blocks: of the corpus.
      blocks_per_run: as `work_dir.WorkDir` takes it.
      directory: new; gets the corpus.
    """
    os.makedirs(directory)
    factor = len(batch.data) / _REAL_BLOCK_BYTES
    work = work_dir.WorkDir(directory, num_blocks, blocks_per_run)
    with _scaled(factor):
        tallies = _write_blocks(batch, work, num_blocks)
        with _OpenFiles() as open_files:
            doer = worker.Worker(settings, directory, num_blocks, blocks_per_run)
            began = time.process_time()
            for number in range(work.num_runs()):
                if fault := doer.merge_run(number):
                    raise fault
            merged = time.process_time()
            num_shards = 0
            for split in schema.SPLITS:
                num_bytes = tallies[f"bytes/{split}"]
                # Smaller by the same factor, so `shards.num_shards` does not fit.
                shard_bytes = factor * (settings.data.shard_megabytes << 20)
                count = max(1, round(num_bytes / shard_bytes))
                _make_shards(doer, work, split, count)
                num_shards += count
            ended = time.process_time()
    return Cost(
        num_blocks,
        work.num_runs(),
        sum(tallies[f"records/{split}"] for split in schema.SPLITS),
        num_shards,
        merged - began,
        ended - merged,
        resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10,
        open_files.most,
    )


def _write_blocks(
    batch: example_builder.RecordBatch, work: work_dir.WorkDir, num_blocks: int
) -> collections.Counter[str]:
    """Writes the blocks of a corpus; returns the sums of their tallies."""
    tallies: collections.Counter[str] = collections.Counter()
    processor = _SameRecords(batch)
    for group in range(num_blocks):
        tallies.update(work.write_block(blocks_lib.Block(group, 0, ()), processor))
        work.write_group(group, 1)
    return tallies


def _make_shards(
    doer: worker.Worker, work: work_dir.WorkDir, split: str, count: int
) -> None:
    """Makes the shards of a split, and removes each."""
    for number in range(count):
        made = doer.make_shard(split, number, count)
        if not isinstance(made, schema.Shard):
            raise made
        os.remove(work.shard_path(made.name))


class _OpenFiles:
    """Counts the open files of the process every few milliseconds.

    Attributes:
      most: that were seen open at a time.
    """

    def __init__(self) -> None:
        self.most = 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> "_OpenFiles":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._ended.wait(_LOOK_SECONDS):
            # Not the one by which the directory is listed.
            self.most = max(self.most, len(os.listdir("/proc/self/fd")) - 1)


@contextlib.contextmanager
def _scaled(factor: float) -> Iterator[None]:
    """Makes chunks and pieces smaller by a factor."""
    before = record_file.CHUNK_BYTES, work_dir.PIECE_BYTES
    record_file.CHUNK_BYTES = max(1, int(before[0] * factor))
    work_dir.PIECE_BYTES = max(1, int(before[1] * factor))
    try:
        yield
    finally:
        record_file.CHUNK_BYTES, work_dir.PIECE_BYTES = before


def table(costs: list[Cost]) -> list[list[str]]:
    """Returns the rows of a table; the ratio is to the first row."""
    rows = [
        [
            *("blocks", "runs", "records", "shards", "merge, s", "shards, s"),
            *("us a record", "ratio", "peak, MB", "open files"),
        ]
    ]
    for cost in costs:
        rows.append(
            [
                f"{cost.num_blocks:,}",
                f"{cost.num_runs:,}",
                f"{cost.num_records:,}",
                f"{cost.num_shards:,}",
                f"{cost.merge_seconds:.1f}",
                f"{cost.shard_seconds:.1f}",
                f"{cost.microseconds:.2f}",
                f"{cost.microseconds / costs[0].microseconds:.2f}",
                f"{cost.peak_bytes / 1e6:,.0f}",
                f"{cost.most_files}",
            ]
        )
    return rows
