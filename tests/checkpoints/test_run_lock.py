"""A run directory admits one training process, on any file system."""

import errno
import os
import shutil
import threading

import pytest
import tensorflow as tf

from albert_tf.checkpoints import run_lock
from albert_tf.core import files, locks


def _hold(folder, is_chief=True, on_lost=pytest.fail):
    return run_lock.hold(str(folder), is_chief, on_lost)


REFUSED = f"another run is training in .*process {os.getpid()} on .*: two would mix"


@pytest.fixture(params=["lock", "lease"])
def folder(request, tmp_path, monkeypatch):
    """A directory that is not there yet, on a file system with or without locks."""

    def flock(*_):
        raise OSError(errno.ENOSYS, "Function not implemented")

    if request.param == "lease":
        monkeypatch.setattr(locks.fcntl, "flock", flock)
    return str(tmp_path / "run")


def test_a_second_run_is_refused_until_the_first_ends(folder):
    with _hold(folder) as check:
        check()
        held = files.names(folder)
        with pytest.raises(ValueError, match=REFUSED), _hold(folder):
            pass
        assert files.names(folder) == held and held
    assert files.names(folder) == []
    with _hold(folder):
        pass


def test_a_run_that_fails_leaves_no_lock(folder):
    with pytest.raises(ZeroDivisionError), _hold(folder):
        raise ZeroDivisionError
    assert files.names(folder) == []


def test_only_the_chief_of_a_run_holds_its_directory(folder):
    with _hold(folder, is_chief=False) as check:
        check()
        assert not files.exists(folder)
    with _hold(folder), _hold(folder, is_chief=False):
        pass


def _take_over(folder):
    """Removes what a run holds, and takes the directory for another one."""
    for name in files.names(folder):
        files.remove(os.path.join(folder, name))
    lock = run_lock._acquire(folder)
    assert lock.check()


def test_a_run_whose_directory_was_taken_ends_soon(folder, monkeypatch):
    monkeypatch.setattr(run_lock, "RENEW_SECONDS", 0.01)
    ended, lines = threading.Event(), []

    def on_lost(line):
        lines.append(line)
        ended.set()

    with _hold(folder, on_lost=on_lost):
        _take_over(folder)
        assert ended.wait(timeout=60.0)
    assert lines[0].startswith(f"another run has taken {folder} (")


def test_a_run_whose_directory_was_taken_writes_no_checkpoint(folder, monkeypatch):
    class Ended(BaseException):
        pass

    def on_lost(line):
        raise Ended

    monkeypatch.setattr(run_lock, "_TRUSTED_SECONDS", -1.0)  # as after a long time
    with _hold(folder, on_lost=on_lost) as check:
        check()
        _take_over(folder)
        with pytest.raises(Ended):
            check()


def test_a_lock_that_was_confirmed_lately_costs_nothing(tmp_path, monkeypatch):
    with _hold(tmp_path) as check:
        monkeypatch.setattr(locks.FileLock, "check", pytest.fail)
        check()


def test_a_check_confirms_the_lock_as_of_its_beginning(tmp_path, monkeypatch):
    """The machine may be suspended within it."""
    seconds, checked_at = [0.0], []

    def check_and_be_suspended(lock):
        checked_at.append(seconds[0])
        seconds[0] += 1000.0
        return True

    monkeypatch.setattr(run_lock, "_now", lambda: seconds[0])
    monkeypatch.setattr(locks.FileLock, "check", check_and_be_suspended)
    with _hold(tmp_path) as check:
        seconds[0] = 200.0
        check()
        check()
    assert checked_at == [200.0, 1200.0]


def test_a_local_directory_in_use_is_seen_without_tensorflow(tmp_path):
    folder = str(tmp_path)
    run_lock.refuse_second(folder)
    with _hold(folder):
        with pytest.raises(ValueError, match=REFUSED):
            run_lock.refuse_second(folder)
        shutil.copytree(folder, tmp_path / "copy")
        # A copy of a directory in use is free: the lock is not the file's content.
        run_lock.refuse_second(str(tmp_path / "copy"))
        with _hold(tmp_path / "copy"):
            pass
    run_lock.refuse_second(folder)


def test_a_directory_that_cannot_be_written_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(ValueError, match="--model_dir must be a writable directory"),
        _hold(tmp_path / "file" / "run"),
    ):
        pass


def test_an_outage_is_not_a_refusal(monkeypatch):
    def away(path):
        raise tf.errors.UnavailableError(None, None, "no answer")

    monkeypatch.setattr(run_lock.files, "make_folder", away)
    with pytest.raises(tf.errors.UnavailableError), _hold("ram://away"):
        pass
