"""Reads and checks one shard: its bytes, its frames and, on request, its records.

TFRecord is parsed here, so that a file of gigabytes takes little memory and no
TensorFlow, and so that an error names what is damaged, and where.
"""

import dataclasses
import hashlib
import zlib
from collections.abc import Callable, Iterator

import google_crc32c
import numpy as np

from albert_tf.core import files, numba_cache
from data_prep.records import tfrecord
from data_prep.verification import records

_HEAD_BYTES = tfrecord.LENGTH_BYTES + tfrecord.CHECKSUM_BYTES
# Records of the longest sequences are shorter; a longer one has a damaged length.
_MAX_RECORD_BYTES = 1 << 20
_CHUNK_BYTES = 4 << 20
_GZIP_CHUNK_BYTES = 64 << 10  # a byte of gzip may become a thousand
_GZIP_FORMAT = 16 + zlib.MAX_WBITS  # with gzip's header and checksum


@dataclasses.dataclass(frozen=True)
class ShardContent:
    """The content of a shard's file.

    Attributes:
      num_bytes: of the file.
      sha256: of the file.
      num_records: whole records, up to the first fault.
      fault: description of the first fault; empty if there is none.
      totals: int64 [4], see `records.check_records`; 0 without rules.
    """

    num_bytes: int
    sha256: str
    num_records: int
    fault: str
    totals: np.ndarray


def read_shard(
    path: str,
    rules: records.Rules | None,
    with_checksums: bool,
    advance: Callable[[int], None],
) -> ShardContent:
    """Reads a shard once, in chunks.

    Args:
      path: local or remote; compressed if it ends in .gz.
      rules: to check each record against; or None.
      with_checksums: whether to check the checksums of TFRecord.
      advance: called with the size of each chunk, in bytes of the file.

    Raises:
      OSError: the file cannot be read.
    """
    num_records, fault = 0, ""
    totals = np.zeros(records.NUM_TOTALS, np.int64)
    files.require_regular(path)
    with files.open_file(path) as file:
        content = _Content(file, advance)
        is_gzip = path.endswith(".gz")
        chunks = content.chunks(_GZIP_CHUNK_BYTES if is_gzip else _CHUNK_BYTES)
        frames = _iter_frames(_decompress(chunks) if is_gzip else chunks)
        try:
            for data, starts, ends in frames:
                if with_checksums:
                    bad, fault = _first_bad_checksum(data, starts, ends)
                    starts, ends = starts[:bad], ends[:bad]
                if rules:
                    array = np.frombuffer(data, np.uint8)
                    bad, code = records.check_records(
                        array, starts, ends, rules, totals
                    )
                    if code:
                        starts, fault = starts[:bad], records.FAULTS[code]
                num_records += len(starts)
                if fault:
                    break
        except ValueError as error:
            fault = str(error)
        for _ in content.chunks(_CHUNK_BYTES):
            pass  # the digest includes the bytes after the fault
    digest = content.digest.hexdigest()
    return ShardContent(content.num_bytes, digest, num_records, fault, totals)


class _Content:
    """The bytes of a file, counted and hashed while they are read."""

    def __init__(self, file, advance: Callable[[int], None]):
        self._file, self._advance = file, advance
        self.num_bytes = 0
        self.digest = hashlib.sha256()

    def chunks(self, size: int) -> Iterator[bytes]:
        while chunk := self._file.read(size):
            self.digest.update(chunk)
            self.num_bytes += len(chunk)
            self._advance(len(chunk))
            yield chunk


def _decompress(chunks: Iterator[bytes]) -> Iterator[bytes]:
    decompressor = zlib.decompressobj(_GZIP_FORMAT)
    for chunk in chunks:
        before = decompressor.copy()
        try:
            yield decompressor.decompress(chunk)
        except zlib.error as error:
            yield _salvage(before, chunk)
            raise ValueError("the gzip stream is damaged there") from error
    if not decompressor.eof:
        raise ValueError("the gzip stream is cut off")
    if decompressor.unused_data:
        raise ValueError("there are bytes after the gzip stream")


def _salvage(decompressor, chunk: bytes) -> bytes:
    """Decompresses a damaged chunk up to the damage."""
    parts = []
    for place in range(len(chunk)):
        try:
            parts.append(decompressor.decompress(chunk[place : place + 1]))
        except zlib.error:
            break
    return b"".join(parts)


def _iter_frames(
    chunks: Iterator[bytes],
) -> Iterator[tuple[bytes, np.ndarray, np.ndarray]]:
    """The whole records of a TFRecord file, a few megabytes at a time.

    Yields:
      Bytes, and int64 [n] twice, where the data of the records in them begin and end.

    Raises:
      ValueError: a length is impossible, or the file ends within a record.
    """
    rest = b""
    for chunk in chunks:
        data = rest + chunk
        starts, ends, next_frame, is_broken = _split(np.frombuffer(data, np.uint8))
        yield data, starts, ends
        if is_broken:
            raise ValueError("its length is impossible")
        rest = data[next_frame:]
    if rest:
        raise ValueError("the file ends within it")


@numba_cache.kernel
def _split(data):
    """Returns start and end of each whole record, start of the rest, and damage."""
    capacity = len(data) // (_HEAD_BYTES + tfrecord.CHECKSUM_BYTES)
    starts = np.empty(capacity, np.int64)
    ends = np.empty(capacity, np.int64)
    count = at = 0
    while at + _HEAD_BYTES <= len(data):
        size = 0
        for i in range(tfrecord.LENGTH_BYTES):
            size |= int(data[at + i]) << (8 * i)
        if not 0 <= size <= _MAX_RECORD_BYTES:
            return starts[:count], ends[:count], at, True
        end = at + _HEAD_BYTES + size
        if end + tfrecord.CHECKSUM_BYTES > len(data):
            break
        starts[count] = at + _HEAD_BYTES
        ends[count] = end
        count += 1
        at = end + tfrecord.CHECKSUM_BYTES
    return starts[:count], ends[:count], at, False


def _first_bad_checksum(
    data: bytes, starts: np.ndarray, ends: np.ndarray
) -> tuple[int, str]:
    """The first record with a wrong checksum, and which; the record count if none."""
    checksum = google_crc32c.value
    array = np.frombuffer(data, np.uint8)
    # There are few distinct lengths.
    sizes, places = np.unique(ends - starts, return_inverse=True)
    lengths = [
        size.to_bytes(tfrecord.LENGTH_BYTES, "little") for size in sizes.tolist()
    ]
    of_lengths = np.array([checksum(length) for length in lengths], np.uint32)[places]
    borders = zip(starts.tolist(), ends.tolist(), strict=True)
    of_data = np.array([checksum(data[s:e]) for s, e in borders], np.uint32)
    is_length_bad = tfrecord.mask(of_lengths) != _stored(
        array, starts - tfrecord.CHECKSUM_BYTES
    )
    is_data_bad = tfrecord.mask(of_data) != _stored(array, ends)
    bad = np.flatnonzero(is_length_bad | is_data_bad)
    if not bad.size:
        return len(starts), ""
    record = int(bad[0])
    what = "length" if is_length_bad[record] else "data"
    return record, f"the checksum of its {what} is wrong"


def _stored(data: np.ndarray, places: np.ndarray) -> np.ndarray:
    """The checksums at places of uint8 data; uint32 [n]."""
    columns = data[places[:, None] + np.arange(tfrecord.CHECKSUM_BYTES)]  # [n, 4]
    return columns.view("<u4")[:, 0]
