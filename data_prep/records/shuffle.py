"""The shuffle of records from chunks to shards, for machines that share no files.

The records of a chunk belong to all shards. If each shard took its own from each chunk,
their number would grow with the square of the corpus. So the records of many shards
pass in two steps: first to buckets of consecutive shards, for each of which the records
of a run of consecutive blocks are merged into pieces of about `PIECE_BYTES`; then from
each piece to the shards of its bucket. The larger the corpus, the longer the runs, so
that pieces have the same size.
"""

import bisect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from albert_tf.data import schema
from data_prep.records import chunks, example_builder, shards

# A split of up to so many shards needs one step.
SHARDS_PER_BUCKET = 64
PIECE_BYTES = 64 << 20

# A block's place in the input: its group and its number.
Place = tuple[int, int]
# A split, a number, and the number of shards of the split.
ShardKey = tuple[str, int, int]
# A split, a bucket, the number of shards of the split, and a run of blocks.
PieceKey = tuple[str, int, int, int]
# Records, and their place among those of a key: tuples in the order of the input.
Ordered = tuple[tuple[int, ...], chunks.Packed]


class Plan(NamedTuple):
    """How the records of a corpus become shards.

    Attributes:
      counts: the number of shards of each split.
      runs: the first block of each run, for each split that needs two steps.
    """

    counts: dict[str, int]
    runs: dict[str, list[Place]]


def make_plan(
    counts: Mapping[str, int], sizes: Iterable[tuple[Place, Mapping[str, int]]]
) -> Plan:
    """Cuts the blocks of a corpus into runs.

    Args:
      counts: the number of shards of each split.
      sizes: the bytes of each block's records by split, in any order.
    """
    runs = {}
    ordered = sorted(sizes, key=lambda size: size[0])
    for split, count in counts.items():
        if count > SHARDS_PER_BUCKET:
            # A full bucket takes SHARDS_PER_BUCKET / count of a run.
            run_bytes = PIECE_BYTES * count // SHARDS_PER_BUCKET
            of_split = [(place, of_block[split]) for place, of_block in ordered]
            runs[split] = _first_blocks(of_split, run_bytes)
    return Plan(dict(counts), runs)


def _first_blocks(sizes: Iterable[tuple[Place, int]], run_bytes: int) -> list[Place]:
    """The first block of each run of at least `run_bytes`, the last one excepted."""
    firsts: list[Place] = []
    filled = run_bytes
    for place, num_bytes in sizes:
        if filled >= run_bytes:
            firsts.append(place)
            filled = 0
        filled += num_bytes
    return firsts


def to_shards(
    plan: Plan,
    order: tuple[int, ...],
    chunk: example_builder.RecordBatch,
    dropped: np.ndarray | None,
) -> Iterator[tuple[ShardKey, Ordered]]:
    """Selects the records of a chunk for each shard, of splits that need one step.

    Args:
      plan: of the corpus.
      order: of the chunk in the input, after the place of its block.
      chunk: the records.
      dropped: as `shards.without` takes it.
    """
    for split, count in plan.counts.items():
        if split in plan.runs:
            continue
        for number in chunks.shards_of(chunk.keys, split, count):
            chosen = shards.select(chunk, dropped, split, number, count)
            if len(chosen.keys):
                yield (split, number, count), (order, chunks.pack(chosen))


def to_pieces(
    plan: Plan,
    order: tuple[int, ...],
    chunk: example_builder.RecordBatch,
    dropped: np.ndarray | None,
) -> Iterator[tuple[PieceKey, Ordered]]:
    """Selects the records of a chunk for each piece, of splits that need two steps.

    Args:
      plan: of the corpus.
      order: as in `to_shards`.
      chunk: the records.
      dropped: as `shards.without` takes it.
    """
    for split, firsts in plan.runs.items():
        count = plan.counts[split]
        run = bisect.bisect_right(firsts, order[:2]) - 1
        for bucket in _buckets_of(chunks.shards_of(chunk.keys, split, count)):
            numbers = _shards_in(bucket, count)
            chosen = shards.without(
                shards.in_range(
                    chunk,
                    shards.key_range(split, numbers[0], count)[0],
                    shards.key_range(split, numbers[-1], count)[1],
                ),
                dropped,
            )
            if len(chosen.keys):
                yield (split, bucket, count, run), (order, chunks.pack(chosen))


def from_piece(
    key: PieceKey, selected: Iterable[Ordered]
) -> Iterator[tuple[ShardKey, Ordered]]:
    """Merges the records of a piece, and selects those of each shard.

    Args:
      key: of the piece.
      selected: the results of `to_pieces` with this key, in any order.
    """
    split, bucket, count, run = key
    piece = shards.merge(chunks.in_order(dict(selected)))
    for number in _shards_in(bucket, count):
        chosen = shards.select(piece, None, split, number, count)
        for place, chunk in enumerate(chunks.cut(chosen, chunks.CHUNK_BYTES)):
            # A shard takes equal keys of an earlier run first, as in the input.
            yield (split, number, count), ((run, place), chunks.pack(chunk))


def every_shard(plan: Plan) -> Iterator[tuple[ShardKey, Ordered]]:
    """Gives each shard no records, so that those that get none are written, too."""
    for split, count in plan.counts.items():
        for number in range(count):
            yield (split, number, count), ((), chunks.EMPTY)


def _buckets_of(numbers: Sequence[int]) -> range:
    """The buckets of consecutive shards."""
    if not numbers:
        return range(0)
    first, last = (numbers[end] // SHARDS_PER_BUCKET for end in (0, -1))
    return range(first, last + 1)


def _shards_in(bucket: int, count: int) -> range:
    """The shards of a bucket, of a split of `count` shards."""
    first = bucket * SHARDS_PER_BUCKET
    return range(first, min(first + SHARDS_PER_BUCKET, count))


def bytes_of(tallies: Mapping[str, int]) -> dict[str, int]:
    """The bytes of a block's records by split, from its tallies."""
    return {split: tallies[f"bytes/{split}"] for split in schema.SPLITS}
