"""Looks into one shard: its bytes, its frames and, if asked, its records.

TFRecord is read here by itself, so that a file of gigabytes takes little memory and
no TensorFlow, and so that a broken one can be told apart: what fails, and where.
"""

import dataclasses
import hashlib
import zlib
from collections.abc import Callable, Iterator

import google_crc32c
import numpy as np

from albert_tf import compiled, files
from data_prep import record_rules, tfrecord

_HEAD_BYTES = tfrecord.LENGTH_BYTES + tfrecord.CHECKSUM_BYTES
# The longest sequence makes a record of less; a longer one is a broken length.
_MAX_RECORD_BYTES = 1 << 20
_CHUNK_BYTES = 4 << 20
_GZIP_CHUNK_BYTES = 64 << 10  # a byte of gzip may become a thousand
_GZIP_FORMAT = 16 + zlib.MAX_WBITS  # zlib's word for gzip's header and checksum


@dataclasses.dataclass(frozen=True)
class Found:
    """What a shard's file holds.

    Attributes:
      num_bytes: of the file.
      sha256: of the file.
      num_records: whole ones, up to the fault if there is any.
      fault: what is wrong with the first record that is broken; empty if none is.
      totals: int64 [3], labels, tokens and masked tokens of the records; 0 without
        rules.
    """

    num_bytes: int
    sha256: str
    num_records: int
    fault: str
    totals: np.ndarray


def read_shard(
    path: str,
    rules: record_rules.Rules | None,
    with_checksums: bool,
    advance: Callable[[int], None],
) -> Found:
    """Reads a shard once, in chunks.

    Args:
      path: local or remote; compressed if it ends in .gz.
      rules: what to hold each record to; or None.
      with_checksums: whether to check those of TFRecord.
      advance: is told of each chunk how many bytes of the file it had.

    Raises:
      OSError: the file cannot be read.
    """
    num_records, fault = 0, ""
    totals = np.zeros(3, np.int64)
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
                    bad, code = record_rules.check_records(
                        array, starts, ends, rules, totals
                    )
                    if code:
                        starts, fault = starts[:bad], record_rules.FAULTS[code]
                num_records += len(starts)
                if fault:
                    break
        except ValueError as error:
            fault = str(error)
        for _ in content.chunks(_CHUNK_BYTES):
            pass  # what lies behind the fault counts in the digest too
    digest = content.digest.hexdigest()
    return Found(content.num_bytes, digest, num_records, fault, totals)


class _Content:
    """The bytes of a file, and what is counted while they are read."""

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
        raise ValueError("something stands behind the gzip stream")


def _salvage(decompressor, chunk: bytes) -> bytes:
    """What a damaged chunk holds before the damage."""
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
    """The whole records of a TFRecord file, some megabytes at a time.

    Yields:
      Bytes; int64 [n] twice, where the data of the records in them begin and end.

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


@compiled.kernel
def _split(data):
    """Where the data of the whole records begin and end, and where the rest does."""
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
    """The first record with a checksum that fails, and which; their number if none."""
    checksum = google_crc32c.value
    array = np.frombuffer(data, np.uint8)
    # Lengths are few, and the same again and again.
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
    return record, f"the checksum of its {what} fails"


def _stored(data: np.ndarray, places: np.ndarray) -> np.ndarray:
    """The checksums that stand at places of uint8 data; uint32 [n]."""
    columns = data[places[:, None] + np.arange(tfrecord.CHECKSUM_BYTES)]  # [n, 4]
    return columns.view("<u4")[:, 0]
