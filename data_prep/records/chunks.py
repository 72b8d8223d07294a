"""Chunks of a block's records, as they pass from machine to machine.

They are plain bytes, which every coder takes as they are, and small enough for every
shuffle.
"""

from collections.abc import Iterator

import numpy as np

from albert_tf.data import schema
from data_prep.records import example_builder

# The fields of `example_builder.RecordBatch`, as bytes.
Packed = tuple[bytes, ...]

CHUNK_BYTES = 4 << 20
_FIELD_DTYPES = (np.uint8, np.int64, np.uint64, np.int32)
EMPTY: Packed = (b"",) * len(_FIELD_DTYPES)


def cut(batch: example_builder.RecordBatch) -> Iterator[example_builder.RecordBatch]:
    """Cuts records into consecutive chunks of at most `CHUNK_BYTES`.

    A longer record is a chunk by itself.
    """
    first, start = 0, 0
    while first < len(batch.keys):
        end = int(np.searchsorted(batch.ends, start + CHUNK_BYTES, "right"))
        end = max(end, first + 1)
        stop = int(batch.ends[end - 1])
        yield example_builder.RecordBatch(
            batch.data[start:stop],
            batch.ends[first:end] - start,
            batch.keys[first:end],
            batch.documents[first:end],
        )
        first, start = end, stop


def pack(batch: example_builder.RecordBatch) -> Packed:
    """Returns records as bytes."""
    return tuple(
        array.astype(dtype, copy=False).tobytes()
        for array, dtype in zip(batch, _FIELD_DTYPES, strict=True)
    )


def unpack(packed: Packed) -> example_builder.RecordBatch:
    """Returns the records of `pack`, in read-only arrays."""
    return example_builder.RecordBatch(*map(np.frombuffer, packed, _FIELD_DTYPES))


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
