"""Access to one directory, in a process of its own; prints JSON, one object a line."""

import json
import os
import socket
import time

from albert_tf.core import cli, files
from albert_tf.diagnostics import disk

_DATA = b"written by albert_tf.doctor, and may be removed\n"
_READ_BYTES = 1 << 20


def write_read_remove(folder: str) -> None:
    """Writes a small file to a directory, reads it and removes it.

    A local directory that does not exist is not made: the nearest one above it is used.
    Prints the step before each step, and at the end when the file was written by this
    machine's clock and by the storage's.
    """
    if not files.is_remote(folder):
        if os.path.isfile(folder):
            with cli.user_errors():
                raise ValueError(f"{folder} is a file and not a directory")
        folder = disk.existing(folder)
    path = f"{folder.rstrip('/')}/doctor-{socket.gethostname()}-{os.getpid()}"
    with cli.user_errors():
        _say(step="write", path=path)
        with files.open_file(path, "wb") as file:
            # After the import of TensorFlow, and before the request.
            started, before = time.perf_counter(), time.time()
            file.write(_DATA)
        after = time.time()
        _say(step="read", path=path)
        if files.read_bytes(path) != _DATA:
            raise OSError(f"{path} has other bytes than were written to it")
        written = files.stamp(path)[1] / 1e9
        _say(step="remove", path=path)
        files.remove(path)
        seconds = time.perf_counter() - started
        _say(before=before, after=after, written=written, seconds=seconds)


def list_read(folder: str) -> None:
    """Lists a directory, and reads the start of one file in it or one level below.

    Raises:
      ValueError: it does not exist, or has no file.
    """
    with cli.user_errors():
        _say(step="list", path=folder)
        if not files.is_folder(folder):
            raise ValueError(f"there is no directory {folder}")
        started = time.perf_counter()
        path = _any_file(folder.rstrip("/"))
        if path is None:
            raise ValueError(f"{folder} has no files")
        _say(step="read", path=path)
        with files.open_file(path) as file:
            size = len(file.read(_READ_BYTES))
        seconds = time.perf_counter() - started
        _say(read=path, size=size, seconds=seconds)


def _any_file(folder: str, depth: int = 1) -> str | None:
    names = files.names(folder)
    # The records' own file is small.
    for name in sorted(names, key=lambda name: (name != "manifest.json", name)):
        path = f"{folder}/{name}"
        if not files.is_folder(path):
            return path
        if depth and (inner := _any_file(path, depth - 1)) is not None:
            return inner
    return None


def _say(**values) -> None:
    print(json.dumps(values), flush=True)
