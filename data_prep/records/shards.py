"""Records of many blocks to TFRecord shards, shuffled over the whole corpus.

Every record has a random key, and a shard holds the records whose keys are in its
range, in the order of their keys: all records are in one random order, whatever the
memory, and each shard can be made independently. Only the records of one shard are held
in memory.
"""

import collections
import gzip
import hashlib
import os
from collections.abc import Iterable

import google_crc32c
import numpy as np

from albert_tf.core import config, files, numba_cache
from albert_tf.data import schema
from data_prep.records import (
    chunks,
    example_builder,
    example_proto,
    packing,
    tfrecord,
)

_GZIP_LEVEL = 1
_CHECKED_AT_A_TIME = 4096


def count_part(part: example_builder.RecordBatch, tallies: collections.Counter) -> None:
    """Adds the records and bytes of a part to the tallies of its block, by split."""
    heldout = int(np.searchsorted(part.keys, example_builder.HELDOUT_BIT))
    train_bytes = int(part.ends[heldout - 1]) if heldout else 0
    tallies[f"bytes/{schema.TRAIN}"] += train_bytes
    tallies[f"bytes/{schema.HELDOUT}"] += len(part.data) - train_bytes
    tallies[f"records/{schema.TRAIN}"] += heldout
    tallies[f"records/{schema.HELDOUT}"] += len(part.keys) - heldout


def num_shards(data: config.DataConfig, split: str, num_bytes: int) -> int:
    """The number of shards of a split with `num_bytes` of records."""
    by_size = -(-num_bytes // (data.shard_megabytes << 20))
    return max(by_size, data.min_shards if split == schema.TRAIN else 1)


def shard_name(data: config.DataConfig, split: str, shard: int, count: int) -> str:
    """The file name of a shard."""
    suffix = ".gz" if data.compression == "gzip" else ""
    return f"{split}-{shard:05d}-of-{count:05d}.tfrecord{suffix}"


def select(
    part: example_builder.RecordBatch,
    dropped: np.ndarray | None,
    split: str,
    shard: int,
    count: int,
) -> example_builder.RecordBatch:
    """Selects the records of a part that belong to a shard.

    Args:
      part: records sorted by key.
      dropped: uint8 [D], not 0 for the documents that give no records; or None.
      split: the split of the shard.
      shard: its number.
      count: the number of shards of the split.

    Returns:
      The records, in the order of their keys.

    Raises:
      ValueError: a record is of a document that `dropped` does not have.
    """
    return without(in_range(part, *key_range(split, shard, count)), dropped)


def in_range(
    part: example_builder.RecordBatch, first_key: int, end_key: int
) -> example_builder.RecordBatch:
    """Returns the records of a part, sorted by key, with keys in a range."""
    first, end = between(part.keys, first_key, end_key)
    if end - first == len(part.keys):
        return part
    # Copies, so that no part is held in memory for a few of its records.
    return example_builder.RecordBatch(*map(np.array, slice_of(part, first, end)))


def slice_of(
    part: example_builder.RecordBatch, first: int, end: int
) -> example_builder.RecordBatch:
    """Returns the records at places [first, end) of a part, as views of its arrays."""
    start = int(part.ends[first - 1]) if first else 0
    stop = int(part.ends[end - 1]) if end else 0
    return example_builder.RecordBatch(
        part.data[start : max(start, stop)],
        part.ends[first:end] - start,
        part.keys[first:end],
        part.documents[first:end],
    )


def without(
    part: example_builder.RecordBatch, dropped: np.ndarray | None
) -> example_builder.RecordBatch:
    """Returns a part without the records of some documents.

    Args:
      part: records.
      dropped: uint8 [D], not 0 for the documents that give no records; or None.

    Raises:
      ValueError: a record is of a document that `dropped` does not have.
    """
    if dropped is None:
        return part
    if len(part.documents) and part.documents.max() >= len(dropped):
        raise ValueError(
            f"a record is of document {part.documents.max()} of a block "
            f"of {len(dropped)}"
        )
    is_dropped = dropped[part.documents] != 0
    return _keep(part, ~is_dropped) if is_dropped.any() else part


def key_range(split: str, shard: int, count: int) -> tuple[int, int]:
    """The keys of a shard's records: the first one, and the first one above."""
    heldout = int(example_builder.HELDOUT_BIT) if split == schema.HELDOUT else 0
    return heldout + (shard << 63) // count, heldout + (shard + 1 << 63) // count


def between(keys: np.ndarray, first_key: int, end_key: int) -> tuple[int, int]:
    """The places [first, end) of keys, uint64, ascending, in [first_key, end_key)."""
    return num_below(keys, first_key), num_below(keys, end_key)


def num_below(keys: np.ndarray, key: int) -> int:
    """The number of keys, uint64, ascending, below `key`, which is at most 1 << 64."""
    if key >= 1 << 64:
        return len(keys)
    return int(np.searchsorted(keys, np.uint64(key)))


def merge(
    selected: Iterable[example_builder.RecordBatch],
) -> example_builder.RecordBatch:
    """Returns the records of several parts in the order of their keys.

    Args:
      selected: the parts, in the order of the input, which decides between equal keys.
    """
    parts = [part for part in selected if len(part.keys)]
    if not parts:
        return chunks.unpack(chunks.EMPTY)
    offsets = np.cumsum([0] + [len(part.data) for part in parts])
    ends = [p.ends + o for p, o in zip(parts, offsets[:-1], strict=True)]
    joined = example_builder.RecordBatch(
        np.concatenate([part.data for part in parts]),
        np.concatenate(ends),
        np.concatenate([part.keys for part in parts]),
        np.concatenate([part.documents for part in parts]),
    )
    del parts  # at most two copies are in memory
    return example_builder.sort_records(joined)


def assemble(
    selected: Iterable[example_builder.RecordBatch],
    data: config.DataConfig,
    vocab_size: int,
) -> tuple[np.ndarray, int, np.ndarray, np.ndarray]:
    """Builds the content of a shard's TFRecord file, and counts its tokens.

    Args:
      selected: the result of `select` for each part, in the order of the input.
      data: the settings of the records.
      vocab_size: V.

    Returns:
      uint8 [num_bytes], the uncompressed file; the number of records, packed ones if
      rows are packed; int64 [V] twice, see `example_proto.count_tokens`.

    Raises:
      ValueError: a record is not one that `example_proto` writes.
    """
    tokens, masked = np.zeros((2, vocab_size), np.int64)
    batch = merge(selected)
    if not len(batch.keys):
        return np.empty(0, np.uint8), 0, tokens, masked
    starts = np.append(0, batch.ends[:-1])
    id_bytes = np.dtype(schema.id_dtype(vocab_size)).itemsize
    is_dynamic = data.masking == "dynamic"
    num_counted = example_proto.count_tokens(
        batch.data, starts, batch.ends, id_bytes, is_dynamic, tokens, masked
    )
    if num_counted < len(starts):
        raise ValueError(
            f"record {num_counted} of a shard, with key {batch.keys[num_counted]}, "
            f"is not one of token ids below {vocab_size}"
        )
    content, content_ends = batch.data, batch.ends
    if data.pack_sequences:
        content, content_ends = packing.pack(batch, id_bytes, data.row)
        del batch
    file = _frame(
        content,
        content_ends,
        tfrecord.mask(_length_checksums(np.diff(content_ends, prepend=0))),
        tfrecord.mask(_checksums(content, content_ends)),
    )
    return file, len(content_ends), tokens, masked


def write_shard(
    path: str, name: str, file: np.ndarray, num_records: int, compression: str
) -> schema.Shard:
    """Writes a shard, to disk if local, and describes it.

    Args:
      path: where to write, local or remote; the caller renames the file.
      name: its final name.
      file: uint8, the TFRecord file.
      num_records: the number of records in it.
      compression: one of `config.COMPRESSIONS`.
    """
    content = file.data if file.size else b""
    if compression == "gzip":
        # No time in the header: equal records give equal files.
        content = gzip.compress(content, _GZIP_LEVEL, mtime=0)
    is_remote = files.is_remote(path)
    with files.open_file(path, "wb") as output:
        output.write(bytes(content) if is_remote else content)  # TensorFlow: bytes only
        if not is_remote:
            output.flush()
            os.fsync(output.fileno())
    digest = hashlib.sha256(content).hexdigest()
    return schema.Shard(name, num_records, len(content), digest)


def _keep(
    batch: example_builder.RecordBatch, is_kept: np.ndarray
) -> example_builder.RecordBatch:
    sizes = np.diff(batch.ends, prepend=0)
    kept_bytes = np.repeat(is_kept, sizes)
    return example_builder.RecordBatch(
        batch.data[kept_bytes],
        np.cumsum(sizes[is_kept]),
        batch.keys[is_kept],
        batch.documents[is_kept],
    )


def _checksums(data: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """CRC-32C of each record; uint32 [num_records]."""
    checksum = google_crc32c.value
    values = np.empty(len(ends), np.uint32)
    start = 0
    for first in range(0, len(ends), _CHECKED_AT_A_TIME):
        some_ends = ends[first : first + _CHECKED_AT_A_TIME]
        # The library accepts bytes only.
        content = data[start : some_ends[-1]].tobytes()
        at = 0
        for record, end in enumerate((some_ends - start).tolist(), first):
            values[record] = checksum(content[at:end])
            at = end
        start = int(some_ends[-1])
    return values


def _length_checksums(sizes: np.ndarray) -> np.ndarray:
    """CRC-32C of each length as 8 little-endian bytes; uint32 [num_records]."""
    distinct, places = np.unique(sizes, return_inverse=True)
    values = [
        google_crc32c.value(int(size).to_bytes(tfrecord.LENGTH_BYTES, "little"))
        for size in distinct
    ]
    return np.array(values, np.uint32)[places]


@numba_cache.kernel
def _frame(data, ends, length_checksums, data_checksums):
    """Puts lengths and checksums around records; uint8, a TFRecord file."""
    num_records = len(ends)
    frame_bytes = tfrecord.LENGTH_BYTES + 2 * tfrecord.CHECKSUM_BYTES
    file = np.empty(len(data) + num_records * frame_bytes, np.uint8)
    at = start = 0
    for record in range(num_records):
        size = ends[record] - start
        at = _put_integer(file, at, size, tfrecord.LENGTH_BYTES)
        at = _put_integer(file, at, length_checksums[record], tfrecord.CHECKSUM_BYTES)
        file[at : at + size] = data[start : ends[record]]
        at = _put_integer(
            file, at + size, data_checksums[record], tfrecord.CHECKSUM_BYTES
        )
        start = ends[record]
    return file


@numba_cache.kernel
def _put_integer(file, at, value, num_bytes):
    remaining = np.uint64(value)
    for _ in range(num_bytes):
        file[at] = remaining & np.uint64(255)
        remaining >>= np.uint64(8)
        at += 1
    return at
