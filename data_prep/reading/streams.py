"""Decompressed bytes of input files, local or remote."""

import bz2
import contextlib
import gzip
import io
import lzma
import os
import zlib
from collections.abc import Callable, Iterator
from typing import IO

import pyarrow as pa
import zstandard

from albert_tf.core import config, failures, files
from data_prep.reading import limits

BUFFER_SIZE = 1 << 20
READ_SIZE = 1 << 20
# Zstandard decompresses all of its input at once, to up to 32,000 times the size.
_ZSTD_READ_SIZE = 1 << 11
_ZSTD_MAX_WINDOW = 1 << 31  # `zstd --long=31`, which large dumps use
_OPENERS: dict[str, Callable] = {
    ".gz": gzip.open,
    ".bz2": bz2.open,
    ".xz": lzma.open,
    ".lzma": lzma.open,
}
_DAMAGE_ERRORS = (
    EOFError,
    zlib.error,
    lzma.LZMAError,
    zstandard.ZstdError,
    pa.ArrowException,  # damaged indices of a dictionary are an ArrowIndexError
)


class UnpackedTooLargeError(Exception):
    """A file has more than `num_bytes` of content, of which these were yielded."""

    def __init__(self, num_bytes: int):
        super().__init__(f"more than {num_bytes} bytes")
        self.num_bytes = num_bytes


def iter_bytes(
    path: str, advance: Callable[[int], None], text: config.TextConfig
) -> Iterator[bytes]:
    """Reads a file and decompresses it by its suffix.

    Args:
      path: local or remote.
      advance: called with the number of bytes of each read from disk.
      text: bounds the content of a compressed file.

    Yields:
      Parts of the content, of any size.

    Raises:
      ValueError: the file is damaged.
      UnpackedTooLargeError: there is more to read.
    """
    suffix = os.path.splitext(path)[1].lower()
    files.require_regular(path)
    with files.open_file(path) as file, naming_damage(path):
        raw = io.BufferedReader(RawFile(file, advance), BUFFER_SIZE)
        content = _iter_content(raw, suffix)
        is_compressed = suffix in (*_OPENERS, ".zst")
        yield from _bounded(content, path, text) if is_compressed else content


def _bounded(
    content: Iterator[bytes], path: str, text: config.TextConfig
) -> Iterator[bytes]:
    num_bytes, most = 0, text.max_document_bytes
    for data in content:
        if num_bytes + len(data) > most:
            # Not before, since it may be a request to a server.
            most = limits.max_unpacked(files.size(path), text)
        if num_bytes + len(data) > most:
            yield data[: most - num_bytes]
            raise UnpackedTooLargeError(most)
        num_bytes += len(data)
        yield data


def _iter_content(raw: "io.BufferedReader[RawFile]", suffix: str) -> Iterator[bytes]:
    if suffix == ".zst":
        yield from _iter_zstd(raw)
        return
    stream: IO[bytes] = raw
    if suffix in _OPENERS:
        if not raw.peek(1):
            raise EOFError("it is empty")  # gzip accepts an empty file
        stream = _OPENERS[suffix](raw)
    while data := stream.read(READ_SIZE):
        yield data


def _iter_zstd(stream: IO[bytes]) -> Iterator[bytes]:
    """Decompresses Zstandard frames; the library's reader accepts a truncated one."""
    decompressor = zstandard.ZstdDecompressor(max_window_size=_ZSTD_MAX_WINDOW)
    frame = decompressor.decompressobj()
    while data := stream.read(min(_ZSTD_READ_SIZE, READ_SIZE)):
        while data:
            if frame.eof:
                frame = decompressor.decompressobj()
            yield frame.decompress(data)
            data = frame.unused_data
    if not frame.eof:
        raise EOFError("its last frame has no end")


@contextlib.contextmanager
def naming_damage(path: str) -> Iterator[None]:
    """Turns errors of the decompressors and of Arrow into a ValueError for users."""
    try:
        yield
    except (*_DAMAGE_ERRORS, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # from the system: those of gzip, bz2 and Arrow have no errno
        reason = failures.one_line(error)
        raise ValueError(
            f"{path}: the file is damaged, truncated, or not what its name or "
            f"text.input_format says ({reason}); check that setting, or copy it again"
        ) from error


class RawFile(io.RawIOBase):
    """A file of `files.open_file` as a raw stream.

    A remote file has no `readinto`, which decompressors and Arrow need.
    """

    def __init__(self, file: IO[bytes], advance: Callable[[int], None]):
        self._file = file
        self._advance = advance

    def readable(self) -> bool:
        """Returns True."""
        return True

    def seekable(self) -> bool:
        """Returns True."""
        return True

    def readinto(self, buffer) -> int:
        """Reads up to `len(buffer)` bytes; returns how many."""
        data = self._file.read(len(buffer))
        buffer[: len(data)] = data
        self._advance(len(data))
        return len(data)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Changes the position; returns the new one."""
        self._file.seek(offset, whence)
        return self._file.tell()

    def tell(self) -> int:
        """Returns the position."""
        return self._file.tell()
