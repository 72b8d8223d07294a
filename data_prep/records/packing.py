"""Packed rows: which records share one.

Records are placed in the order of the shard, which is random: each in the fullest row
that has room for it. Only its length decides. The last rows are emptier, so the rows
are ordered by the lower half of the key of their first record, which is as random.
"""

import numpy as np

from albert_tf.core import numba_cache, row_shapes
from data_prep.records import example_builder, example_proto

_LOWER_HALF = np.uint64((1 << 32) - 1)


def pack(
    batch: example_builder.RecordBatch, id_bytes: int, row: row_shapes.RowShape
) -> tuple[np.ndarray, np.ndarray]:
    """Packs the records of a shard.

    Args:
      batch: the records, in the order of the shard.
      id_bytes: bytes of an id in them.
      row: the shape of a row.

    Returns:
      uint8 [num_bytes], the packed records; int64 [num_rows], where each ends.
    """
    starts = np.append(0, batch.ends[:-1])
    lengths = example_proto.num_tokens(batch.data, starts, batch.ends, id_bytes)
    row_of, num_rows = assign(lengths, row.length, row.num_sequences)
    _, first = np.unique(row_of, return_index=True)
    rank = np.empty(num_rows, np.int64)
    rank[np.argsort(batch.keys[first] & _LOWER_HALF, kind="stable")] = np.arange(
        num_rows
    )
    row_of = rank[row_of]
    order = np.argsort(row_of, kind="stable")
    row_ends = np.cumsum(np.bincount(row_of))
    return example_proto.put_rows(batch.data, starts, batch.ends, order, row_ends)


@numba_cache.kernel
def assign(lengths, row_length, num_sequences):
    """Assigns each sequence to the fullest row that has room for it, or to a new one.

    Args:
      lengths: int64 [n], tokens of the sequences; none is longer than a row.
      row_length: tokens of a row.
      num_sequences: most sequences of a row.

    Returns:
      int64 [n], rows, numbered in the order of their first sequences; and their number.
    """
    row_of = np.empty(len(lengths), np.int64)
    counts = np.zeros(len(lengths), np.int64)
    # Rows with the same room are a list: the last one, and of each the one before.
    last = np.full(row_length + 1, -1)
    before = np.empty(len(lengths), np.int64)
    num_rows = 0
    for sequence in range(len(lengths)):
        room = lengths[sequence]
        while room <= row_length and last[room] < 0:
            room += 1
        if room <= row_length:
            row = last[room]
            last[room] = before[row]
        else:
            row, room = num_rows, row_length
            num_rows += 1
        row_of[sequence] = row
        counts[row] += 1
        room -= lengths[sequence]
        if counts[row] < num_sequences:
            before[row] = last[room]
            last[room] = row
    return row_of, num_rows
