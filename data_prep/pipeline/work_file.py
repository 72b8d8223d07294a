"""Files of unfinished work: values and arrays that are checked when they are read.

A file appears under its name only when it is complete and on disk. Its first line holds
a checksum and JSON: the name of the file, its values, and dtype, shape and checksum of
each array. The arrays follow, each padded to 8 bytes, and after them chunks of records,
which have checksums of their own (`data_prep.records.chunks`). The checksums are XXH3.
"""

import contextlib
import errno
import json
import math
import os
from collections.abc import Iterable, Iterator, Mapping
from typing import IO, Any, NamedTuple

import numpy as np
import xxhash

from albert_tf.core import files, short_repr, strict_json

# Errors of a file that is not there, and of a disk that cannot read it.
_DAMAGE_ERRNOS = (errno.ENOENT, errno.EIO)


class DamagedError(ValueError):
    """Files are missing, or are not what was written.

    Attributes:
      faults: by path, what is wrong.
    """

    def __init__(self, faults: Mapping[str, str]):
        super().__init__(dict(faults))
        self.faults = dict(faults)

    def __str__(self) -> str:
        return "; ".join(f"{path} {fault}" for path, fault in self.faults.items())


class _Array(NamedTuple):
    """The place of an array in its file."""

    dtype: np.dtype
    shape: tuple[int, ...]
    checksum: str
    start: int
    num_bytes: int


class Content:
    """An open file; everything that it returns has been checked.

    Attributes:
      values: by name, as JSON has them.
    """

    def __init__(self, path: str, file: IO[bytes]):
        """Reads the first line.

        Raises:
          ValueError: it is damaged, or of a file with another name.
        """
        self._path, self._descriptor = path, file.fileno()
        line = file.readline()
        checksum, _, text = line.rstrip(b" \n").partition(b" ")
        if checksum != xxhash.xxh3_64_hexdigest(text).encode():
            raise ValueError("the checksum of its first line is wrong")
        # Leniently: fingerprints have 64 bits without a sign. It lists all input files,
        # whose names need not be UTF-8.
        head = strict_json.loads(
            text,
            "its first line",
            lenient=True,
            max_bytes=strict_json.MAX_DATA_BYTES,
            takes_surrogates=True,
        )
        try:
            if head["name"] != os.path.basename(path):
                raise ValueError(f"it is a copy of {short_repr.shown(head['name'])}")
            self.values: dict[str, Any] = head["values"]
            self._arrays, self._end = _places(head["arrays"], len(line))
        except (KeyError, TypeError) as error:
            raise ValueError("its first line is not one of this version") from error

    def array(self, name: str) -> np.ndarray:
        """Returns an array; read-only."""
        array = self._arrays[name]
        data = os.pread(self._descriptor, array.num_bytes, array.start)
        _check(name, memoryview(data), array.checksum)
        return np.frombuffer(data, array.dtype).reshape(array.shape)

    def arrays(self) -> dict[str, np.ndarray]:
        """Returns all arrays by name."""
        return {name: self.array(name) for name in self._arrays}

    def mapped_array(self, name: str, is_checked: bool = False) -> np.ndarray:
        """Memory-maps an array.

        Args:
          name: of an array that is not empty.
          is_checked: whether it was checked before.
        """
        array = self._arrays[name]
        data = np.memmap(self._path, array.dtype, "r", array.start, array.shape)
        if not is_checked:
            _check(name, data.data, array.checksum)
        return data

    def chunk(self, start: int, end: int) -> bytes:
        """Returns bytes [start, end) after the arrays, which check themselves."""
        return os.pread(self._descriptor, end - start, self._end + start)


def _places(rows: list[Any], start: int) -> tuple[dict[str, _Array], int]:
    """Returns the places of the arrays after the first line, and where they end."""
    arrays = {}
    for name, dtype, shape, checksum in rows:
        num_bytes = math.prod(shape) * np.dtype(dtype).itemsize
        arrays[name] = _Array(np.dtype(dtype), tuple(shape), checksum, start, num_bytes)
        start += num_bytes + -num_bytes % 8
    return arrays, start


def _check(name: str, data: memoryview, checksum: str) -> None:
    if xxhash.xxh3_64_hexdigest(data) != checksum:
        raise ValueError(f"the checksum of its array {name} is wrong")


@contextlib.contextmanager
def opened(path: str) -> Iterator[Content]:
    """Opens a file of `write`.

    Raises:
      DamagedError: it is missing or damaged; a ValueError in the context means the
        same.
    """
    try:
        with open(path, "rb") as file:
            yield Content(path, file)
    except DamagedError:
        raise
    except ValueError as error:
        raise DamagedError({path: f"is damaged: {error}"}) from error
    except OSError as error:
        if error.errno not in _DAMAGE_ERRNOS:
            raise
        raise DamagedError({path: f"cannot be read: {error.strerror}"}) from error


def write(
    path: str,
    values: Mapping[str, Any],
    arrays: Mapping[str, np.ndarray],
    chunks: Iterable[Any] = (),
) -> None:
    """Writes a file, which appears when it is complete and on disk.

    Args:
      path: local.
      values: JSON values by name.
      arrays: by name.
      chunks: buffers that follow the arrays.
    """
    stored = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    rows = [
        [name, array.dtype.str, array.shape, xxhash.xxh3_64_hexdigest(array.data)]
        for name, array in stored.items()
    ]
    head = {"name": os.path.basename(path), "values": values, "arrays": rows}
    text = json.dumps(head, sort_keys=True).encode()
    line = xxhash.xxh3_64_hexdigest(text).encode() + b" " + text
    with _create(path) as file:
        # Padded, so that every array is aligned when memory-mapped.
        file.write(line + b" " * (-(len(line) + 1) % 8) + b"\n")
        for array in stored.values():
            file.write(array.data)
            file.write(b"\0" * (-array.nbytes % 8))
        file.writelines(chunks)


@contextlib.contextmanager
def _create(path: str) -> Iterator[IO[bytes]]:
    """Opens a file that appears under its name only when it is complete and on disk."""
    temporary = files.temporary_path(path)
    with open(temporary, "wb") as file:
        yield file
        file.flush()
        os.fsync(file.fileno())
    rename(temporary, path)


def rename(source: str, target: str) -> None:
    """Renames a file within its directory, and waits until that is on disk."""
    os.replace(source, target)
    directory = os.open(os.path.dirname(target), os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
