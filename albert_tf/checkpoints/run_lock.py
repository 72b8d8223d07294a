"""One training process for each run directory.

A local directory has a lock of the kernel (`core.locks`). A remote one, or one on a
file system without locks, has a lease (`checkpoints.lease`), which is renewed while the
process runs. This module does not import TensorFlow.
"""

import contextlib
import errno
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Protocol

from albert_tf.core import files, locks

LOCK_FILE = "run.lock"
# How often a lock is checked, which renews a lease.
RENEW_SECONDS = 20.0
# A check is repeated before a save or a row if the last one was longer ago.
_TRUSTED_SECONDS = 150.0
# Ending is not delayed longer by a storage that does not answer.
_RELEASE_SECONDS = 10.0
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)


class _Lock(Protocol):
    def check(self) -> bool:
        """Returns whether the lock was confirmed; raises `locks.LostError`."""

    def release(self) -> None:
        """Lets another process take the lock."""


def refuse_second(model_dir: str) -> None:
    """Checks at once that no process of this machine trains in a local directory.

    `hold` decides; this saves a second process the import of TensorFlow.

    Raises:
      ValueError: one does.
    """
    if files.is_remote(model_dir):
        return
    holder = locks.holder_of(os.path.join(model_dir, LOCK_FILE))
    if holder is not None and holder.is_alive():
        raise ValueError(_refusal(model_dir, str(holder)))


@contextlib.contextmanager
def hold(
    model_dir: str, is_chief: bool, on_lost: Callable[[str], None]
) -> Iterator[Callable[[], None]]:
    """Creates a run directory and keeps other runs out of it within the `with`.

    Args:
      model_dir: the directory, which need not exist.
      is_chief: whether this process writes; the others of a run hold nothing.
      on_lost: ends the process, with a line to print; called by any thread, if another
        run has taken the directory.

    Yields:
      A function to call before writing a checkpoint or metrics: it calls `on_lost` if
      the directory is lost.

    Raises:
      ValueError: another run has the directory, it cannot be written, or its name is
        not allowed.
    """
    if not is_chief:
        yield lambda: None
        return
    _check_name(model_dir)
    try:
        files.make_folder(model_dir)
        lock = _acquire(model_dir)
    except locks.HeldError as error:
        raise ValueError(_refusal(model_dir, str(error))) from error
    except OSError as error:
        raise ValueError(
            f"--model_dir must be a writable directory: {error}"
        ) from error
    guard = _Guard(model_dir, lock, on_lost)
    try:
        yield guard.check
    finally:
        guard.close()


def _acquire(model_dir: str) -> _Lock:
    if not files.is_remote(model_dir):
        lock = locks.FileLock(os.path.join(model_dir, LOCK_FILE))
        try:
            lock.acquire()
            return lock
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                raise
    from albert_tf.checkpoints import lease as lease_lib  # imports TensorFlow

    lease = lease_lib.Lease(model_dir, RENEW_SECONDS)
    lease.acquire(lambda line: print(line, file=sys.stderr))
    return lease


class _Guard:
    """Checks a lock every `RENEW_SECONDS`, in a thread, until it is closed."""

    def __init__(self, model_dir: str, lock: _Lock, on_lost: Callable[[str], None]):
        self._model_dir, self._lock, self._on_lost = model_dir, lock, on_lost
        self._confirmed = _now()
        self._mutex = threading.Lock()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def check(self) -> None:
        """Confirms the lock, unless that was done lately."""
        if _now() - self._confirmed > _TRUSTED_SECONDS:
            self._confirm()

    def close(self) -> None:
        """Releases the lock."""
        self._ended.set()
        # A check may be waiting for the storage; then the lease ends by its age.
        if self._mutex.acquire(timeout=_RELEASE_SECONDS):
            self._lock.release()
            self._mutex.release()

    def _watch(self) -> None:
        while not self._ended.wait(RENEW_SECONDS):
            self._confirm()

    def _confirm(self) -> None:
        with self._mutex:
            if self._ended.is_set():
                return
            # The machine may be suspended within the check, after it saw the claim.
            began = _now()
            try:
                if self._lock.check():
                    self._confirmed = began
            except locks.LostError as error:
                self._on_lost(
                    f"another run has taken {self._model_dir} ({error}): this one ends "
                    "and writes nothing more"
                )


def _now() -> float:
    """Returns seconds, also of the time for which the machine was suspended."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


def _check_name(model_dir: str) -> None:
    """Raises ValueError if checkpoints in the directory could not be restored."""
    if set(model_dir) & set("*?[]"):
        raise ValueError(
            "--model_dir must not contain any of * ? [ ], which TensorFlow reads as a "
            f"pattern when it restores a checkpoint; received {model_dir!r}"
        )


def _refusal(model_dir: str, holder: str) -> str:
    return (
        f"another run is training in {model_dir} ({holder}): two would mix their "
        "checkpoints and metrics. Wait until it ends, or give another --model_dir"
    )
