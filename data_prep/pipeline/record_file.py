"""The file of a part of a block's records, sorted by key and cut into chunks.

A shard takes the records of a range of keys, and reads and checks the chunks that hold
them, not the whole file. Merging reads the chunks of many files one after another, each
once.
"""

import itertools
from collections.abc import Iterator, Sequence

import numpy as np

from data_prep.pipeline import work_file
from data_prep.records import chunks, example_builder, shards

CHUNK_BYTES = 256 << 10
_NO_RECORDS = chunks.unpack(chunks.EMPTY)


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
    places = _Places(content)
    first, end = shards.between(places.first_keys, first_key, end_key)
    # Before the first chunk that begins in the range, one may end in it.
    for place in range(max(0, first - 1), end):
        yield places.chunk(content, place)


def merged(
    readers: Sequence["Reader"], end_keys: Sequence[int]
) -> Iterator[example_builder.RecordBatch]:
    """Merges the records of several files, a range of keys at a time.

    Args:
      readers: of the files, in the order of the input, which decides between equal
        keys. One of them has its file open at a time.
      end_keys: the first key above each range, ascending; a range begins where the
        one before ends.

    Yields:
      The records of each range, in the order of their keys.
    """
    for end_key in end_keys:
        yield shards.merge(part for one in readers for part in one.take(end_key))


class Reader:
    """Reads a file from its first record to its last, each chunk once.

    Between two calls the file is closed, and one chunk is in memory.
    """

    def __init__(self, path: str, dropped: np.ndarray | None):
        """Reads the places of the chunks.

        Args:
          path: of the file.
          dropped: as `shards.without` takes it.
        """
        self._path, self._dropped = path, dropped
        # The records of the chunk from `_first` on are not taken yet.
        self._chunk, self._first = _NO_RECORDS, 0
        self._next = 0
        with work_file.opened(path) as content:
            self._places = _Places(content)

    def take(self, end_key: int) -> Iterator[example_builder.RecordBatch]:
        """The records with keys below `end_key` that were not taken before, in parts.

        All parts must be taken before the next call.
        """
        if self._first < len(self._chunk.keys):
            yield self._take_of_chunk(end_key)
        end = shards.num_below(self._places.first_keys, end_key)
        if end <= self._next:
            return
        with work_file.opened(self._path) as content:
            for place in range(self._next, end):
                chunk = self._places.chunk(content, place)
                self._chunk = shards.without(chunk, self._dropped)
                self._first = 0
                yield self._take_of_chunk(end_key)
        self._next = end

    def _take_of_chunk(self, end_key: int) -> example_builder.RecordBatch:
        """Takes the records of the chunk with keys below `end_key`, without a copy."""
        chunk, first = self._chunk, self._first
        end = shards.num_below(chunk.keys, end_key)
        if end == len(chunk.keys):
            self._chunk, self._first = _NO_RECORDS, 0
        else:
            self._first = end
        return shards.slice_of(chunk, first, end)


class _Places:
    """The places of the chunks in a file, and the first key of each."""

    def __init__(self, content: work_file.Content):
        self.first_keys, self._ends = content.array("first_keys"), content.array("ends")

    def chunk(
        self, content: work_file.Content, place: int
    ) -> example_builder.RecordBatch:
        """Reads a chunk by its number."""
        start = int(self._ends[place - 1]) if place else 0
        chunk = chunks.unpack(content.chunk(start, int(self._ends[place])))
        if chunk.keys[0] != self.first_keys[place]:
            raise ValueError("a chunk of records is at the place of another")
        return chunk
