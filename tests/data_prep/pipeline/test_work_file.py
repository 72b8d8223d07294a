"""A work file is what was written, or an error that names it."""

import errno
import os

import numpy as np
import pytest

from data_prep.pipeline import work_file

VALUES = {"num_blocks": 3}
ARRAYS = {
    "ids": np.array([[1, 2, 3]], np.int32),
    "none": np.empty((0, 7), np.uint64),
    "flags": np.array([True, False]),
}


def write(path, chunks=(b"one", b"three")):
    work_file.write(str(path), VALUES, ARRAYS, chunks)
    return path.read_bytes()


def read(path):
    with work_file.opened(str(path)) as content:
        return content.values, content.arrays()


def assert_as_written(values, arrays):
    assert values == VALUES and list(arrays) == list(ARRAYS)
    for name, array in ARRAYS.items():
        assert arrays[name].dtype == array.dtype
        np.testing.assert_array_equal(arrays[name], array)


def test_values_arrays_and_chunks_come_back(tmp_path):
    write(tmp_path / "x")
    assert_as_written(*read(tmp_path / "x"))
    with work_file.opened(str(tmp_path / "x")) as content:
        np.testing.assert_array_equal(content.mapped_array("ids"), ARRAYS["ids"])
        assert [content.chunk(0, 3), content.chunk(3, 8)] == [b"one", b"three"]


def test_no_flipped_bit_and_no_other_length_gives_other_content(tmp_path):
    path = tmp_path / "x"
    data = write(path, chunks=())
    damaged = [data[:size] for size in range(len(data))] + [data + b"\0", data + data]
    for place in range(len(data)):
        for bit in range(8):
            flipped = data[place] ^ (1 << bit)
            damaged.append(data[:place] + bytes([flipped]) + data[place + 1 :])
    num_noticed = 0
    for content in damaged:
        path.write_bytes(content)
        try:
            found = read(path)
        except work_file.DamagedError as error:
            assert list(error.faults) == [str(path)]
            num_noticed += 1
        else:  # the damage was after the arrays, or in the zeros between them
            assert_as_written(*found)
    # 4 and 6 bytes fill up the arrays; the last ones may be missing.
    assert num_noticed >= len(damaged) - 8 * (4 + 6) - 6 - 2


def test_a_file_under_another_name_is_not_read(tmp_path):
    write(tmp_path / "x")
    (tmp_path / "x").rename(tmp_path / "y")
    message = "y is damaged: it is a copy of 'x'"
    with pytest.raises(work_file.DamagedError, match=message):
        read(tmp_path / "y")


def test_a_file_that_is_missing_or_unreadable_is_named(tmp_path, monkeypatch):
    with pytest.raises(work_file.DamagedError, match="x cannot be read: No such file"):
        read(tmp_path / "x")
    write(tmp_path / "x")

    def fail(*_):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "pread", fail)
    with pytest.raises(work_file.DamagedError, match="x cannot be read: Input/output"):
        read(tmp_path / "x")


def test_other_errors_of_the_system_are_not_damage(tmp_path):
    (tmp_path / "x").mkdir()
    with pytest.raises(IsADirectoryError):
        read(tmp_path / "x")


def test_a_memory_mapped_array_is_checked_unless_it_was(tmp_path):
    data = write(tmp_path / "x", chunks=())
    at = data.index(ARRAYS["ids"].tobytes())
    (tmp_path / "x").write_bytes(data[:at] + b"\7" + data[at + 1 :])
    with work_file.opened(str(tmp_path / "x")) as content:
        assert content.mapped_array("ids", is_checked=True).tolist() == [[7, 2, 3]]
    with pytest.raises(work_file.DamagedError, match="checksum of its array ids"):
        with work_file.opened(str(tmp_path / "x")) as content:
            content.mapped_array("ids")
