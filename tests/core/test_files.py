"""Local files appear complete, after their bytes are on the disk."""

import errno
import os
import shutil

import pytest

from albert_tf.core import files


def _write(path, data):
    files.write_bytes(path, data)


def _copy(path, data):
    source = f"{path}-source"
    with open(source, "wb") as file:
        file.write(data)
    files.copy(source, path)
    os.remove(source)


@pytest.mark.parametrize("make", [_write, _copy])
def test_a_file_is_on_the_disk_before_it_has_its_name(tmp_path, monkeypatch, make):
    path = tmp_path / "file"
    path.write_bytes(b"before")
    synced = []

    def fsync(descriptor):
        synced.append(os.fstat(descriptor).st_size)
        assert path.read_bytes() == b"before"

    monkeypatch.setattr(os, "fsync", fsync)
    make(str(path), b"after it")
    assert synced == [8] and path.read_bytes() == b"after it"
    assert os.listdir(tmp_path) == ["file"]


def test_a_copy_that_fails_leaves_the_file_of_before(tmp_path, monkeypatch):
    (tmp_path / "source").write_bytes(b"new")
    (tmp_path / "file").write_bytes(b"before")

    def full(source, target):
        target.write(b"n")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(shutil, "copyfileobj", full)
    with pytest.raises(OSError, match="No space"):
        files.copy(str(tmp_path / "source"), str(tmp_path / "file"))
    assert (tmp_path / "file").read_bytes() == b"before"
    assert sorted(os.listdir(tmp_path)) == ["file", "source"]


def test_a_directory_that_is_not_completed_leaves_no_new_parents(tmp_path):
    (tmp_path / "before").mkdir()
    path = tmp_path / "before" / "new" / "newer" / "folder"
    with pytest.raises(ValueError, match="stop"):
        with files.complete_folder(str(path)) as unfinished:
            assert os.path.isdir(unfinished)
            raise ValueError("stop")
    assert [found.name for found in tmp_path.rglob("*")] == ["before"]
    with files.complete_folder(f"{path}/"):
        pass
    assert path.is_dir()


def test_a_parent_that_another_process_uses_stays(tmp_path):
    path = tmp_path / "new" / "folder"
    with pytest.raises(ValueError, match="stop"):
        with files.complete_folder(str(path)):
            (tmp_path / "new" / "other").mkdir()
            raise ValueError("stop")
    assert [found.name for found in tmp_path.rglob("*")] == ["new", "other"]


def test_what_a_killed_process_of_this_name_left_is_replaced(tmp_path):
    """In a container each process may have the same host and number."""
    left = files.temporary_path(str(tmp_path / "folder"))
    os.makedirs(left)
    open(os.path.join(left, "half"), "w").close()
    (tmp_path / "folder.incomplete").mkdir()  # of the user
    with files.complete_folder(str(tmp_path / "folder")):
        pass
    assert sorted(os.listdir(tmp_path)) == ["folder", "folder.incomplete"]
    assert not os.listdir(tmp_path / "folder")


def test_a_file_of_more_bytes_than_allowed_is_not_read(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"12345")
    assert files.read_bytes(str(path), max_bytes=5) == b"12345"
    with pytest.raises(ValueError, match="file must have at most 4 bytes; received 5"):
        files.read_bytes(str(path), max_bytes=4)
    os.truncate(path, 9 << 30)  # no bytes on the disk
    with pytest.raises(ValueError, match="at most 4,294,967,296 bytes; received 9,"):
        files.read_bytes(str(path))


@pytest.mark.parametrize("read", [files.read_bytes, files.sha256])
def test_pipes_and_devices_are_not_read_to_their_end(tmp_path, read):
    os.mkfifo(tmp_path / "pipe")
    os.symlink("/dev/zero", tmp_path / "zeros")
    for name in ("pipe", "zeros"):
        with pytest.raises(OSError, match="must be a file with an end"):
            read(str(tmp_path / name))
