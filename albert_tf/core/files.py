"""Files and directories, local or remote (gs://).

A path with a scheme goes through `tf.io.gfile`, all others through Python's own files:
data preparation then needs no TensorFlow for local files, which saves each of its
processes 350 MB and three seconds.
"""

import concurrent.futures
import contextlib
import errno
import glob as glob_lib
import hashlib
import json
import os
import shutil
import socket
import stat
from collections.abc import Callable, Iterator, Sequence
from typing import IO, Any, TypeVar

_READ_BYTES = 1 << 20
_NUM_QUESTIONS = 32  # to a remote storage at a time
_T = TypeVar("_T")
# Of a file that is read at once; larger ones are none of this project's.
_MAX_WHOLE_BYTES = 4 << 30


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


def read_bytes(path: str, max_bytes: int = _MAX_WHOLE_BYTES) -> bytes:
    """Reads a whole file.

    Args:
      path: local or remote.
      max_bytes: of a local file.

    Raises:
      ValueError: it has more bytes.
      OSError: there is none, or it is a pipe or a device, which may have no end.
    """
    require_regular(path)
    if not is_remote(path) and (found := size(path)) > max_bytes:
        raise ValueError(
            f"{path} must have at most {max_bytes:,} bytes; received {found:,}. It is "
            "damaged, or another file"
        )
    with open_file(path) as file:
        return file.read()


def sha256(path: str) -> str:
    """Returns the SHA-256 of a file's bytes in hexadecimal digits.

    Raises:
      OSError: as `read_bytes`.
    """
    require_regular(path)
    digest = hashlib.sha256()
    with open_file(path) as file:
        while data := file.read(_READ_BYTES):
            digest.update(data)
    return digest.hexdigest()


def require_regular(path: str) -> None:
    """Raises OSError for a local pipe, device or directory, or if there is nothing."""
    if not is_remote(path) and not stat.S_ISREG(os.stat(path).st_mode):
        raise OSError(errno.EINVAL, "must be a file with an end", path)


def write_bytes(path: str, data: bytes) -> None:
    """Writes a file, which appears under its name only when it is complete."""
    with open_complete(path) as file:
        file.write(data)


def write_json(path: str, values: Any) -> None:
    """Writes a JSON file as `write_bytes` does, keys in the order given."""
    write_bytes(path, (json.dumps(values, indent=2) + "\n").encode())


def copy(source: str, target: str) -> None:
    """Copies a file, which appears under the new name only when it is complete."""
    if is_remote(source) or is_remote(target):
        _gfile().copy(source, target, overwrite=True)
        return
    with open(source, "rb") as original, open_complete(target) as file:
        shutil.copyfileobj(original, file)


def temporary_path(path: str) -> str:
    """Returns a name beside `path` of no other process on any host with this disk."""
    return f"{path}.tmp-{socket.gethostname()}-{os.getpid()}"


@contextlib.contextmanager
def open_complete(path: str) -> Iterator[IO[bytes]]:
    """Opens a file to write, which appears under its name when the block ends.

    The bytes of a local file are on the disk before that, so that neither a killed
    process nor a power loss leaves a part of a file under its name.
    """
    if is_remote(path):  # an object appears when its upload ends
        with open_file(path, "wb") as file:
            yield file
        return
    temporary = temporary_path(path)
    try:
        with open(temporary, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        if os.path.exists(temporary):  # after an error, such as a full disk
            os.remove(temporary)


@contextlib.contextmanager
def complete_folder(path: str) -> Iterator[str]:
    """Yields the directory to fill; it appears as `path` when the block ends.

    A remote directory is filled in place: it would be renamed file by file, and one
    transient error on the way would leave it in two parts. After an error in the block
    parents that were made for a local one are removed again.

    Args:
      path: a new or empty directory.
    """
    path = path.rstrip("/")
    if is_remote(path):
        make_folder(path)
        yield path
        return
    temporary = temporary_path(path)
    parents = _missing_parents(path)
    # Of a process that was killed and had this host and number, as in a container.
    shutil.rmtree(temporary, ignore_errors=True)
    os.makedirs(temporary)
    try:
        yield temporary
        if os.path.exists(path):
            os.rmdir(path)
        os.rename(temporary, path)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
        for parent in parents:
            with contextlib.suppress(OSError):  # the directory is in it, or others are
                os.rmdir(parent)


def _missing_parents(path: str) -> list[str]:
    """Returns the parents that do not exist, the innermost first."""
    parents = []
    while (path := os.path.dirname(path)) and not os.path.exists(path):
        parents.append(path)
    return parents


def exists(path: str) -> bool:
    """Returns whether there is a file or a directory."""
    return _gfile().exists(path) if is_remote(path) else os.path.exists(path)


def is_folder(path: str) -> bool:
    """Returns whether there is a directory."""
    if not is_remote(path):
        return os.path.isdir(path)
    # isdir would say False of a storage that does not answer.
    return _gfile().exists(path) and _gfile().stat(path).is_directory


def is_new_or_empty(path: str) -> bool:
    """Returns whether there is nothing at a path but, perhaps, an empty directory."""
    if not exists(path):
        return True
    listed = _gfile().listdir if is_remote(path) else os.listdir
    return is_folder(path) and not listed(path)


def size(path: str) -> int:
    """Returns the size of a file in bytes."""
    return _gfile().stat(path).length if is_remote(path) else os.path.getsize(path)


def glob(pattern: str) -> list[str]:
    """Returns the paths that a pattern matches, sorted.

    Args:
      pattern: with the wildcards of a shell; in a local one, `**` matches any number of
        directories.
    """
    if is_remote(pattern):
        return sorted(_gfile().glob(pattern))
    return sorted(glob_lib.glob(pattern, recursive=True))


def names(path: str) -> list[str]:
    """Returns the names in a directory, sorted; none if there is no directory."""
    if not is_folder(path):
        return []
    found = _gfile().listdir(path) if is_remote(path) else os.listdir(path)
    return sorted(name.rstrip("/") for name in found)


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


def of_each(function: Callable[[str], _T], paths: Sequence[str]) -> list[_T]:
    """Returns a function of each path, several at a time if they are remote.

    A storage takes tens of milliseconds for a question, and a corpus has thousands of
    files.

    Args:
      function: of this module, which asks for one path.
      paths: local or remote.
    """
    if not any(map(is_remote, paths)):
        return [function(path) for path in paths]
    with concurrent.futures.ThreadPoolExecutor(_NUM_QUESTIONS) as pool:
        return list(pool.map(function, paths))


def stamp(path: str) -> list[int]:
    """Returns size in bytes and time of the last change in nanoseconds."""
    if is_remote(path):
        status = _gfile().stat(path)
        return [status.length, status.mtime_nsec]
    local = os.stat(path)
    return [local.st_size, local.st_mtime_ns]
