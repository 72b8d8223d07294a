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
