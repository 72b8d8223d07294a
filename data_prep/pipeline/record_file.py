"""The file of a part of a block's records, sorted by key and cut into chunks.

A shard takes the records of a range of keys, and reads and checks the chunks that hold
them, not the whole file.
"""

import itertools
from collections.abc import Iterator

import numpy as np

from data_prep.pipeline import work_file
from data_prep.records import chunks, example_builder, shards

CHUNK_BYTES = 256 << 10


def write(path: str, batch: example_builder.RecordBatch) -> None:
    """Writes records in chunks, after the place of each chunk."""
    cut = list(chunks.cut(batch, CHUNK_BYTES))
    packed = [chunks.buffers(chunk) for chunk in cut]
    sizes = [sum(array.nbytes for array in arrays) for arrays in packed]
    places = {
        "first_keys": np.array([chunk.keys[0] for chunk in cut], np.uint64),
        "ends": np.cumsum(sizes, dtype=np.int64),
    }
    work_file.write(path, {}, places, itertools.chain.from_iterable(packed))


def read(
    content: work_file.Content, first_key: int, end_key: int
) -> Iterator[example_builder.RecordBatch]:
    """The chunks that hold records with keys in [first_key, end_key)."""
    first_keys, ends = content.array("first_keys"), content.array("ends")
    first, end = shards.between(first_keys, first_key, end_key)
    # Before the first chunk that begins in the range, one may end in it.
    for place in range(max(0, first - 1), end):
        start = int(ends[place - 1]) if place else 0
        chunk = chunks.unpack(content.chunk(start, int(ends[place])))
        if chunk.keys[0] != first_keys[place]:
            raise ValueError("a chunk of records is at the place of another")
        yield chunk
