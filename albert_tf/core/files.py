"""Files and directories, local or remote (gs://).

A path with a scheme goes through `tf.io.gfile`, all others through Python's own files:
data preparation then needs no TensorFlow for local files, which saves each of its
processes 350 MB and three seconds.
"""

import contextlib
import errno
import glob as glob_lib
import os
import shutil
import socket
from collections.abc import Iterator
from typing import IO, Any


def is_remote(path: str) -> bool:
    """Returns whether a path has a scheme, such as gs://bucket/file."""
    return "://" in path


def _gfile() -> Any:
    import tensorflow as tf  # takes seconds, and only remote paths need it

    return tf.io.gfile


def open_file(path: str, mode: str = "rb") -> IO[bytes]:
    """Opens a file for reading or writing bytes.

    Args:
      path: local or remote.
      mode: "rb" or "wb".

    Raises:
      OSError: a local file cannot be opened.
      tf.errors.OpError: a remote one cannot, sometimes only at the first read or write.
    """
    return _gfile().GFile(path, mode) if is_remote(path) else open(path, mode)


def read_bytes(path: str) -> bytes:
    """Reads a whole file."""
    with open_file(path) as file:
        return file.read()


def write_bytes(path: str, data: bytes) -> None:
    """Writes a file, which appears under its name only when it is complete."""
    if is_remote(path):  # an object appears when its upload ends
        with open_file(path, "wb") as file:
            file.write(data)
        return
    with _replacing(path) as file:
        file.write(data)


def copy(source: str, target: str) -> None:
    """Copies a file, which appears under the new name only when it is complete."""
    if is_remote(source) or is_remote(target):
        _gfile().copy(source, target, overwrite=True)
        return
    with open(source, "rb") as original, _replacing(target) as file:
        shutil.copyfileobj(original, file)


@contextlib.contextmanager
def _replacing(path: str) -> Iterator[IO[bytes]]:
    """Opens a temporary file that replaces a local one when the block ends.

    The bytes are on the disk before that, so that neither a killed process nor a power
    loss leaves a part of a file under its name.
    """
    # No other process has this name, on any host that shares the disk.
    temporary = f"{path}.tmp-{socket.gethostname()}-{os.getpid()}"
    try:
        with open(temporary, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
    except OSError:  # such as a full disk
        if os.path.exists(temporary):
            os.remove(temporary)
        raise
    os.replace(temporary, path)


def exists(path: str) -> bool:
    """Returns whether there is a file or a directory."""
    return _gfile().exists(path) if is_remote(path) else os.path.exists(path)


def is_folder(path: str) -> bool:
    """Returns whether there is a directory."""
    return _gfile().isdir(path) if is_remote(path) else os.path.isdir(path)


def size(path: str) -> int:
    """Returns the size of a file in bytes."""
    return _gfile().stat(path).length if is_remote(path) else os.path.getsize(path)


def glob(pattern: str) -> list[str]:
    """Returns the paths that a pattern matches, sorted."""
    found = _gfile().glob(pattern) if is_remote(pattern) else glob_lib.glob(pattern)
    return sorted(found)


def make_folder(path: str) -> None:
    """Makes a directory and its parents, unless they exist."""
    if is_remote(path):
        _gfile().makedirs(path)
    else:
        os.makedirs(path, exist_ok=True)


def remove(path: str) -> None:
    """Removes a file."""
    if is_remote(path):
        _gfile().remove(path)
    else:
        os.remove(path)


def move(source: str, target: str) -> None:
    """Moves a local file to a local or remote path, where it appears complete."""
    if not is_remote(target):
        try:
            os.replace(source, target)
            return
        except OSError as error:
            if error.errno != errno.EXDEV:  # another disk
                raise
    copy(source, target)
    os.remove(source)


def stamp(path: str) -> list[int]:
    """Returns size in bytes and time of the last change in nanoseconds."""
    if is_remote(path):
        status = _gfile().stat(path)
        return [status.length, status.mtime_nsec]
    local = os.stat(path)
    return [local.st_size, local.st_mtime_ns]
