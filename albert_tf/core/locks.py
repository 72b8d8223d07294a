"""Locks that admit one process, and say which."""

import contextlib
import dataclasses
import fcntl
import functools
import json
import os
import socket
import time
from typing import IO, Any

from albert_tf.core import short_repr, strict_json

# In seconds since 1970: later ones have no date.
_YEAR_9999 = 250_000_000_000


def values_of(data: bytes) -> dict[str, Any]:
    """Returns the values that `Holder.to_bytes` wrote; empty if they are not whole."""
    try:
        # Leniently: the number of an inode may have 64 bits without a sign.
        values = strict_json.loads(data, "a lock", lenient=True)
        return strict_json.as_object(values, "a lock")
    except ValueError:
        return {}


@dataclasses.dataclass(frozen=True)
class Holder:
    """A process that holds a lock.

    Attributes:
      host: its host's name.
      pid: its number there.
      since: when it took the lock, in seconds since 1970.
      machine: names the table of processes in which `pid` counts, one per boot and
        container; "" if the system does not say.
      started: when the process started, in clock ticks since boot; 0 if unknown.
    """

    host: str
    pid: int
    since: int
    machine: str
    started: int

    @classmethod
    def here(cls) -> "Holder":
        """Returns this process."""
        pid = os.getpid()
        machine = _machine()
        started = _start_of(pid) or 0
        return cls(socket.gethostname(), pid, int(time.time()), machine, started)

    @classmethod
    def from_bytes(cls, data: bytes) -> "Holder | None":
        """Returns the holder that `to_bytes` wrote; None if it is not whole."""
        values = values_of(data)
        names = {field.name for field in dataclasses.fields(cls)}
        own = {name: value for name, value in values.items() if name in names}
        try:
            holder = strict_json.as_type(own, "a lock", cls)
        except ValueError:
            return None
        return holder if 0 <= holder.since < _YEAR_9999 else None

    def to_bytes(self, **more: Any) -> bytes:
        """Returns the holder, and more values, as a line of JSON."""
        return (json.dumps(dataclasses.asdict(self) | more) + "\n").encode()

    def is_alive(self) -> bool | None:
        """Returns whether the process runs; None if it is of another machine."""
        if not self.machine or self.machine != _machine():
            return None
        # Another process may have received its number.
        return _start_of(self.pid) == self.started

    def __str__(self) -> str:
        since = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(self.since))
        return f"process {self.pid} on {short_repr.cut(self.host)}, since {since}"


@functools.cache
def _machine() -> str:
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return f"{file.read().strip()} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return ""


def _start_of(pid: int) -> int | None:
    """Returns when a process started; None if there is none, or only its exit code."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            # The second field, a name in parentheses, may have spaces.
            state, *fields = file.read().rpartition(")")[2].split()
    except OSError:
        return None
    return None if state in ("Z", "X") else int(fields[18])


class HeldError(ValueError):
    """Another process has the lock; the text says which."""

    def __init__(self, holder: Holder | None):
        super().__init__(str(holder or "an unknown process"))


class LostError(Exception):
    """Another process, `holder`, has taken the lock from this one."""

    def __init__(self, holder: Holder | None):
        super().__init__(str(holder or "an unknown process"))
        self.holder = holder


def holder_of(path: str) -> Holder | None:
    """Returns the last holder of a `FileLock`, which may have ended.

    None if there was none, also for a copy of the file.
    """
    try:
        with open(path, "rb") as file:
            data, inode = file.read(), os.fstat(file.fileno()).st_ino
    except OSError:
        return None
    holder = Holder.from_bytes(data)
    is_copy = holder is not None and values_of(data).get("inode") != inode
    return None if is_copy else holder


class FileLock:
    """A lock of the kernel on a local file, which names its holder.

    The kernel releases it when the process ends, also by `kill -9`, or when this object
    is deleted. Children that were forked hold it too. `release` removes the file.
    """

    def __init__(self, path: str):
        """Takes the path of the file, in a directory that exists."""
        self._path = path
        self._file: IO[bytes] | None = None

    def acquire(self) -> None:
        """Takes the lock.

        Raises:
          HeldError: another process has it.
          OSError: the file cannot be written, or the file system has no locks.
        """
        while True:
            file = open(self._path, "a+b")
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                file.close()
                raise HeldError(holder_of(self._path)) from error
            except OSError:
                with contextlib.suppress(FileNotFoundError):
                    if not os.path.getsize(self._path):
                        os.remove(self._path)  # it was made above
                file.close()
                raise
            if self._is_at_path(file):
                break
            file.close()  # its holder has released and removed it meanwhile
        self._file = file
        file.truncate(0)
        file.write(Holder.here().to_bytes(inode=os.fstat(file.fileno()).st_ino))
        file.flush()

    def check(self) -> bool:
        """Returns True: this process has the lock.

        Raises:
          LostError: the directory was replaced, and another process has the new one.
        """
        is_there = os.path.exists(self._path)
        if self._file is not None and is_there and not self._is_at_path(self._file):
            raise LostError(holder_of(self._path))
        return True

    def release(self) -> None:
        """Removes the file and releases the lock; does nothing without the lock."""
        if self._file is None:
            return
        if self._is_at_path(self._file):
            os.remove(self._path)
        self._file.close()
        self._file = None

    def _is_at_path(self, file: IO[bytes] | None) -> bool:
        try:
            there = os.stat(self._path)
        except FileNotFoundError:
            return False
        return file is not None and os.path.samestat(os.fstat(file.fileno()), there)
