"""Sums of a directory's files: what is damaged, missing or replaced is named."""

import os
import pathlib
import subprocess

import pytest

from albert_tf.core import checksums


@pytest.fixture
def folder(tmp_path) -> pathlib.Path:
    (tmp_path / "model.bin").write_bytes(bytes(range(256)))
    (tmp_path / "README.md").write_text("a card")
    (tmp_path / "assets.extra").mkdir()
    (tmp_path / "assets.extra/vocab of mine.model").write_text("pieces")
    checksums.write(str(tmp_path))
    return tmp_path


def test_a_whole_directory_passes(folder):
    checksums.check(str(folder))


def test_sha256sum_reads_them(folder):
    command = ["sha256sum", "--check", "--strict", checksums.FILE]
    said = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert said.returncode == 0
    assert said.stdout.splitlines() == [
        "assets.extra/vocab of mine.model: OK",
        "model.bin: OK",
    ]


def test_a_directory_without_sums_passes(folder):
    (folder / checksums.FILE).unlink()
    (folder / "model.bin").write_bytes(b"other")
    checksums.check(str(folder))
    checksums.check(str(folder / "missing"))


def test_the_card_may_be_edited_and_files_added(folder):
    (folder / "README.md").write_text("another card")
    (folder / "notes.txt").write_text("mine")
    checksums.check(str(folder))


@pytest.mark.parametrize("name", ["model.bin", "assets.extra/vocab of mine.model"])
def test_one_flipped_bit_is_named(folder, name):
    content = bytearray((folder / name).read_bytes())
    content[3] ^= 4
    (folder / name).write_bytes(content)
    with pytest.raises(ValueError, match="damaged or was replaced") as raised:
        checksums.check(str(folder))
    assert str(folder / name) in str(raised.value)
    assert f"remove {checksums.FILE}" in str(raised.value)


def test_a_missing_file_is_named(folder):
    (folder / "model.bin").unlink()
    with pytest.raises(ValueError, match="model.bin is missing, but is listed"):
        checksums.check(str(folder))


@pytest.mark.parametrize(
    "line",
    [
        "not a sum  model.bin",
        f"{'0' * 64}  ../outside",
        f"{'0' * 64}  a/../../outside",
        f"{'0' * 64}  /etc/hostname",
        f"{'0' * 64} model.bin",
        f"{'0' * 64}  \0",
        "",
        "\udcff".encode(errors="surrogateescape"),
    ],
)
def test_sums_that_cannot_be_read_are_named(folder, line):
    path = folder / checksums.FILE
    content = line if isinstance(line, bytes) else line.encode()
    path.write_bytes(content + b"\n" + path.read_bytes())
    with pytest.raises(ValueError, match="line 1, must be the SHA-256") as raised:
        checksums.check(str(folder))
    assert str(path) in str(raised.value)


def test_what_is_no_file_is_named(folder):
    (folder / "model.bin").unlink()
    (folder / "model.bin").mkdir()
    with pytest.raises(ValueError, match="model.bin cannot be read: must be a file"):
        checksums.check(str(folder))
    (folder / "model.bin").rmdir()
    os.mkfifo(folder / "model.bin")  # which never ends
    with pytest.raises(ValueError, match="model.bin cannot be read: must be a file"):
        checksums.check(str(folder))


def test_empty_sums_are_refused(folder):
    (folder / checksums.FILE).write_bytes(b"")
    with pytest.raises(ValueError, match="SHA256SUMS is empty"):
        checksums.check(str(folder))


def test_sums_of_another_size_are_refused(folder):
    (folder / checksums.FILE).write_bytes(b"\n" * (1 << 21))
    with pytest.raises(ValueError, match="at most 1,048,576 bytes"):
        checksums.check(str(folder))


def test_sums_that_are_a_link_to_nothing_are_not_none(folder):
    (folder / checksums.FILE).unlink()
    (folder / checksums.FILE).symlink_to(folder / "moved")
    with pytest.raises(OSError, match=f"{folder}/{checksums.FILE}"):
        checksums.check(str(folder))
