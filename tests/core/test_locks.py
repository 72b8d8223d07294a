"""Locks of the kernel: one process has one, and leaves none when it is killed."""

import contextlib
import dataclasses
import fcntl
import os
import shutil
import subprocess
import sys

import pytest

from albert_tf.core import locks

_HOLD = """
import sys
from albert_tf.core import locks
lock = locks.FileLock(sys.argv[1])
lock.acquire()
print("held", flush=True)
sys.stdin.read()
"""


@contextlib.contextmanager
def _holder(path):
    """A process that holds the lock."""
    command = [sys.executable, "-c", _HOLD, str(path)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, **pipes) as process:
        assert process.stdout.readline() == b"held\n"
        yield process
        process.kill()


def test_a_second_process_is_refused_and_told_who_has_the_lock(tmp_path):
    path = str(tmp_path / "lock")
    with _holder(path) as process:
        with pytest.raises(locks.HeldError, match=f"^process {process.pid} on .* UTC$"):
            locks.FileLock(path).acquire()
        holder = locks.holder_of(path)
        assert (holder.pid, holder.is_alive()) == (process.pid, True)


def test_a_killed_process_leaves_no_lock(tmp_path):
    path = str(tmp_path / "lock")
    with _holder(path) as process:
        holder = locks.holder_of(path)
        process.kill()
        process.wait()
        assert holder.is_alive() is False
        lock = locks.FileLock(path)
        lock.acquire()
    assert locks.holder_of(path).pid == os.getpid()
    lock.release()
    assert os.listdir(tmp_path) == []
    lock.release()  # again, without effect


def test_a_process_whose_exit_code_was_not_read_is_not_alive(tmp_path):
    with _holder(tmp_path / "lock") as process:
        holder = locks.holder_of(tmp_path / "lock")
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # still a zombie
        assert holder.is_alive() is False


def test_a_process_that_received_the_number_of_another_is_not_that_one():
    here = locks.Holder.here()
    assert here.is_alive() is True
    assert dataclasses.replace(here, started=here.started + 1).is_alive() is False


def test_of_another_machine_nothing_is_known():
    here = locks.Holder.here()
    assert dataclasses.replace(here, machine="another").is_alive() is None
    assert dataclasses.replace(here, machine="").is_alive() is None


def test_a_holder_is_read_as_it_was_written_or_not_at_all(tmp_path):
    holder = locks.Holder("host", 7, 1_000_000_000, "boot", 3)
    data = holder.to_bytes()
    assert locks.Holder.from_bytes(data) == holder
    assert str(holder) == "process 7 on host, since 2001-09-09 01:46:40 UTC"
    for damaged in (b"", data[:30], b"[1]", b'{"host": "a"}', b"\xff"):
        assert locks.Holder.from_bytes(damaged) is None
    assert locks.holder_of(str(tmp_path / "absent")) is None


def test_a_file_that_its_holder_removed_meanwhile_gives_no_lock(tmp_path, monkeypatch):
    path = tmp_path / "lock"
    opened = []

    def flock(file, operation):
        opened.append(file)
        if len(opened) == 1:
            path.unlink()  # between opening and locking
        return system_flock(file, operation)

    system_flock = fcntl.flock
    monkeypatch.setattr(locks.fcntl, "flock", flock)
    locks.FileLock(str(path)).acquire()
    assert len(opened) == 2
    with pytest.raises(locks.HeldError):
        locks.FileLock(str(path)).acquire()


def test_a_copy_of_the_file_has_no_holder(tmp_path):
    locks.FileLock(str(tmp_path / "lock")).acquire()
    shutil.copy(tmp_path / "lock", tmp_path / "copy")
    assert locks.holder_of(str(tmp_path / "lock")).pid == os.getpid()
    assert locks.holder_of(str(tmp_path / "copy")) is None


def test_a_directory_that_was_replaced_is_lost_to_its_next_holder(tmp_path):
    path = tmp_path / "run" / "lock"
    path.parent.mkdir()
    first, second = locks.FileLock(str(path)), locks.FileLock(str(path))
    first.acquire()
    assert first.check() is True
    shutil.rmtree(path.parent)
    assert first.check() is True  # and nobody else has it
    path.parent.mkdir()
    second.acquire()
    with pytest.raises(locks.LostError, match=f"process {os.getpid()} on"):
        first.check()
    first.release()
    assert path.exists() and second.check() is True
