"""Files of records: what they give back, and how often they are read."""

import numpy as np
import pytest

from data_prep.pipeline import record_file, work_file
from data_prep.records import example_builder, shards

END = 1 << 64


def records_of(keys, tag):
    """Records of one byte, whose document is their place."""
    return example_builder.RecordBatch(
        np.full(len(keys), tag, np.uint8),
        np.arange(1, len(keys) + 1),
        np.array(keys, np.uint64),
        np.arange(len(keys), dtype=np.int32),
    )


@pytest.fixture
def parts(tmp_path, monkeypatch):
    """The records of three files, in chunks of two, by path."""
    monkeypatch.setattr(record_file, "CHUNK_BYTES", 2)
    found = {
        f"{tmp_path}/{tag}": records_of(keys, tag)
        for tag, keys in enumerate(
            ([1, 1, 5, 5, 5, 7, END - 1], [], [0, 5, 6, 6, 1 << 63])
        )
    }
    for path, part in found.items():
        record_file.write(path, part)
    return found


def assert_equal(found, expected):
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    "end_keys", [[END], [0, 5, 6, 6, 100, END], [1, 2, 3, END - 1, END]]
)
def test_merged_ranges_are_all_records_in_the_order_of_keys_and_input(parts, end_keys):
    readers = [record_file.Reader(path, None) for path in parts]
    pieces = list(record_file.merged(readers, end_keys))
    first_key = 0
    for end_key, piece in zip(end_keys, pieces, strict=True):
        assert all(first_key <= int(key) < end_key for key in piece.keys)
        first_key = end_key
    assert_equal(shards.merge(pieces), shards.merge(parts.values()))


def test_merging_reads_each_chunk_once_with_one_file_open(parts, monkeypatch):
    read, places, opened = work_file.Content.chunk, [], []
    monkeypatch.setattr(
        work_file.Content,
        "chunk",
        lambda self, *place: places.append((self._path, *place)) or read(self, *place),
    )
    enter = work_file.Content.__init__

    def note(self, path, file):
        assert all(other.closed for other in opened)
        opened.append(file)
        enter(self, path, file)

    monkeypatch.setattr(work_file.Content, "__init__", note)
    readers = [record_file.Reader(path, None) for path in parts]
    list(record_file.merged(readers, [1, 2, 5, 6, 7, 100, END]))
    assert len(places) == len(set(places)) == 4 + 3


def test_the_records_of_dropped_documents_are_left_out(parts):
    path = next(iter(parts))
    reader = record_file.Reader(path, np.array([0, 1, 1, 0, 0, 2, 0], np.uint8))
    (piece,) = record_file.merged([reader], [END])
    assert piece.documents.tolist() == [0, 3, 4, 6]


def test_damage_of_a_chunk_names_the_file(parts):
    path = next(iter(parts))
    with open(path, "r+b") as file:
        file.seek(-1, 2)
        file.write(b"\x01")
    reader = record_file.Reader(path, None)
    assert [len(part.keys) for part in reader.take(5)] == [2]
    with pytest.raises(work_file.DamagedError) as raised:
        list(record_file.merged([reader], [END]))
    assert list(raised.value.faults) == [path]
