"""Pieces of a block's records, as they go from machine to machine.

They are plain bytes, which every coder takes as they are, and small enough for every
shuffle.
"""

from collections.abc import Iterator

import numpy as np

from albert_tf import schema
from data_prep import record_maker

# The fields of `record_maker.Made`, as bytes.
Packed = tuple[bytes, ...]

PIECE_BYTES = 4 << 20
_FIELD_DTYPES = (np.uint8, np.int64, np.uint64, np.int32)
EMPTY: Packed = (b"",) * len(_FIELD_DTYPES)


def cut(made: record_maker.Made) -> Iterator[record_maker.Made]:
    """Records in consecutive pieces of `PIECE_BYTES`, or of one that is longer."""
    first, start = 0, 0
    while first < len(made.keys):
        end = int(np.searchsorted(made.ends, start + PIECE_BYTES, "right"))
        end = max(end, first + 1)
        stop = int(made.ends[end - 1])
        yield record_maker.Made(
            made.data[start:stop],
            made.ends[first:end] - start,
            made.keys[first:end],
            made.documents[first:end],
        )
        first, start = end, stop


def pack(made: record_maker.Made) -> Packed:
    """Records as bytes."""
    return tuple(
        array.astype(dtype, copy=False).tobytes()
        for array, dtype in zip(made, _FIELD_DTYPES, strict=True)
    )


def unpack(packed: Packed) -> record_maker.Made:
    """The records of `pack`, in arrays that cannot be written."""
    return record_maker.Made(*map(np.frombuffer, packed, _FIELD_DTYPES))


def in_order(pieces: dict[tuple, Packed]) -> Iterator[record_maker.Made]:
    """Unpacks pieces by their place in the input, which decides between equal keys.

    Args:
      pieces: by place; empty at the end, so that nothing is held for longer than need
        be.
    """
    for place in sorted(pieces):
        yield unpack(pieces.pop(place))


def shards_of(keys: np.ndarray, split: str, count: int) -> range:
    """The shards of a split that may take records with such keys.

    Args:
      keys: uint64 [n], rising, of both splits.
      split: the split.
      count: the number of its shards.
    """
    border = int(np.searchsorted(keys, record_maker.HELDOUT_BIT))
    of_split = keys[border:] if split == schema.HELDOUT else keys[:border]
    if not len(of_split):
        return range(0)
    low_bits = int(record_maker.HELDOUT_BIT) - 1
    first, last = ((int(key) & low_bits) * count >> 63 for key in of_split[[0, -1]])
    # The borders of shards are rounded down: a key may belong to the next one.
    return range(first, min(last + 2, count))
