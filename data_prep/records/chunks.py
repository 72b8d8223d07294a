"""Chunks of a block's records, as files and shuffles hold them.

They are plain bytes, which every coder takes as they are, and small enough for every
shuffle. Each begins with a checksum (XXH3), so that compiled loops, which do not check
where they read, get no damaged records.
"""

from collections.abc import Iterator

import numpy as np
import xxhash

from albert_tf.data import schema
from data_prep.records import example_builder

Packed = bytes

# Of the chunks that pass from machine to machine.
CHUNK_BYTES = 4 << 20
_CHECKSUM_BYTES = 8
# Before the fields: the checksum, then the number of records and the bytes of `data`.
_HEAD_BYTES = _CHECKSUM_BYTES + 2 * 8


def cut(
    batch: example_builder.RecordBatch, chunk_bytes: int
) -> Iterator[example_builder.RecordBatch]:
    """Cuts records into consecutive chunks of at most `chunk_bytes`.

    A longer record is a chunk by itself.
    """
    first, start = 0, 0
    while first < len(batch.keys):
        end = int(np.searchsorted(batch.ends, start + chunk_bytes, "right"))
        end = max(end, first + 1)
        stop = int(batch.ends[end - 1])
        yield example_builder.RecordBatch(
            batch.data[start:stop],
            batch.ends[first:end] - start,
            batch.keys[first:end],
            batch.documents[first:end],
        )
        first, start = end, stop


def buffers(batch: example_builder.RecordBatch) -> list[np.ndarray]:
    """Returns the bytes of `pack` as several arrays, most of them without a copy."""
    num_bytes = len(batch.data)
    fields: list[np.ndarray] = [
        np.array([len(batch.keys), num_bytes], np.int64),
        batch.keys.astype(np.uint64, copy=False),
        batch.ends.astype(np.int64, copy=False),
        batch.documents.astype(np.int32, copy=False),
        np.ascontiguousarray(batch.data),
    ]
    # Every chunk of a file is aligned.
    fields.append(np.zeros(-sum(field.nbytes for field in fields) % 8, np.uint8))
    checksum = xxhash.xxh3_64()
    for field in fields:
        checksum.update(field.data)
    return [np.array([checksum.intdigest()], np.uint64), *fields]


def pack(batch: example_builder.RecordBatch) -> Packed:
    """Returns records as bytes."""
    return b"".join(field.tobytes() for field in buffers(batch))


def unpack(packed: Packed) -> example_builder.RecordBatch:
    """Returns the records of `pack`, in read-only arrays.

    Raises:
      ValueError: the bytes are damaged, or do not describe records in the order of
        their keys.
    """
    content = memoryview(packed)[_CHECKSUM_BYTES:]
    checksum = int.from_bytes(packed[:_CHECKSUM_BYTES], "little")
    if len(packed) < _HEAD_BYTES or xxhash.xxh3_64_intdigest(content) != checksum:
        raise ValueError("the checksum of a chunk of records is wrong")
    size, num_bytes = np.frombuffer(packed, np.int64, 2, _CHECKSUM_BYTES).tolist()
    at, fields = _HEAD_BYTES, []
    for dtype, count in (
        (np.uint64, size),
        (np.int64, size),
        (np.int32, size),
        (np.uint8, num_bytes),
    ):
        if not 0 <= count <= len(packed) - at:
            raise ValueError("a chunk of records has an impossible size")
        fields.append(np.frombuffer(packed, dtype, count, at))
        at += fields[-1].nbytes
    keys, ends, documents, data = fields
    batch = example_builder.RecordBatch(data, ends, keys, documents)
    _check(batch)
    return batch


def _check(batch: example_builder.RecordBatch) -> None:
    """Raises a ValueError unless places are in `data`, and keys in order."""
    borders = np.append(0, batch.ends)
    is_fine = (
        borders[-1] == len(batch.data)
        and (borders[1:] >= borders[:-1]).all()
        and (batch.keys[1:] >= batch.keys[:-1]).all()
        and (batch.documents >= 0).all()
    )
    if not is_fine:
        raise ValueError("a chunk holds impossible places of records")


EMPTY = pack(
    example_builder.RecordBatch(
        np.empty(0, np.uint8),
        np.empty(0, np.int64),
        np.empty(0, np.uint64),
        np.empty(0, np.int32),
    )
)


def in_order(chunks: dict[tuple, Packed]) -> Iterator[example_builder.RecordBatch]:
    """Unpacks chunks in the order of their place in the input.

    That order decides between equal keys.

    Args:
      chunks: by place; emptied, so that no chunk is held longer than needed.
    """
    for place in sorted(chunks):
        yield unpack(chunks.pop(place))


def shards_of(keys: np.ndarray, split: str, count: int) -> range:
    """The shards of a split that may take records with such keys.

    Args:
      keys: uint64 [n], ascending, of both splits.
      split: the split.
      count: the number of its shards.
    """
    border = int(np.searchsorted(keys, example_builder.HELDOUT_BIT))
    of_split = keys[border:] if split == schema.HELDOUT else keys[:border]
    if not len(of_split):
        return range(0)
    low_bits = int(example_builder.HELDOUT_BIT) - 1
    first, last = ((int(key) & low_bits) * count >> 63 for key in of_split[[0, -1]])
    # Borders of shards are rounded down: a key may belong to the next shard.
    return range(first, min(last + 2, count))
