"""Sequences share rows by their lengths alone, and rows are protobuf's bytes."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.core import row_shapes
from data_prep.records import example_builder, example_proto, packing, reader


def test_a_sequence_goes_to_the_fullest_row_with_room():
    lengths = np.array([6, 7, 3, 9, 2, 1, 10, 1])
    row_of, num_rows = packing.assign(lengths, 10, 4)
    # 3 fits 1 (7) exactly; 2 fits 0 (6); 1 fits 3 (9) exactly; 1 fits 0 (6 and 2).
    assert row_of.tolist() == [0, 1, 1, 2, 0, 2, 3, 0]
    assert num_rows == 4


def test_a_row_has_no_more_sequences_than_it_may():
    row_of, num_rows = packing.assign(np.full(7, 2), 100, 3)
    assert row_of.tolist() == [0, 0, 0, 1, 1, 1, 2]
    assert num_rows == 3


def test_rows_are_numbered_in_the_order_of_their_first_sequences():
    rng = np.random.default_rng(4)
    lengths = rng.integers(3, 65, 20_000)
    row_of, num_rows = packing.assign(lengths, 128, 8)
    tokens = np.bincount(row_of, lengths)
    assert tokens.max() <= 128 and np.bincount(row_of).max() <= 8
    _, first = np.unique(row_of, return_index=True)
    assert len(first) == num_rows and (np.diff(first) > 0).all()
    assert tokens.sum() / (num_rows * 128) > 0.99


def test_the_last_rows_are_not_the_emptiest():
    """Rows that are still open at the end would otherwise be read last."""
    rng = np.random.default_rng(9)
    widths = rng.integers(20, 32, 6000).tolist()
    records = _records(widths, 2)
    batch = example_builder.RecordBatch(
        np.frombuffer(b"".join(records), np.uint8),
        np.cumsum([len(record) for record in records]),
        np.sort(rng.integers(0, 1 << 63, 6000).astype(np.uint64)),
        np.zeros(6000, np.int32),
    )
    data, ends = packing.pack(batch, 2, row_shapes.RowShape(128, 20, 8))
    sizes = np.diff(ends, prepend=0)
    # The emptiest tenth of the rows is spread over all of them.
    places = np.argsort(sizes)[: len(sizes) // 10] / len(sizes)
    assert abs(places.mean() - 0.5) < 0.1


def _records(widths, id_bytes):
    """Records of some numbers of tokens, without masks, and their bytes."""
    found = []
    for width in widths:
        ids = np.array([2, *range(10, 8 + width), 3], np.int32)
        size = example_proto.dynamic_size(width, width, -1, id_bytes)[1]
        buffer = np.zeros(size, np.uint8)
        example_proto.put_dynamic(
            buffer, 0, ids, np.zeros(width, bool), width, -1, id_bytes
        )
        found.append(buffer.tobytes())
    return found


@pytest.mark.parametrize("id_bytes", [2, 4])
def test_packed_records_are_the_bytes_of_protobuf(id_bytes):
    widths = [60, 5, 70, 3, 50, 128]
    records = _records(widths, id_bytes)
    batch = example_builder.RecordBatch(
        np.frombuffer(b"".join(records), np.uint8),
        np.cumsum([len(record) for record in records]),
        # The rows are ordered by the lower halves of these.
        np.array([9, 0, 1 << 40, 0, 0, 5], np.uint64),
        np.zeros(6, np.int32),
    )
    data, ends = packing.pack(batch, id_bytes, row_shapes.RowShape(128, 20, 8))
    # 70 + 3 + 50, 128, 60 + 5
    expected = [[2, 3, 4], [5], [0, 1]]
    assert len(ends) == 3
    for row, start, end in zip(expected, [0, *ends[:-1]], ends, strict=True):
        example = tf.train.Example()
        sequences = [records[place] for place in row]
        example.features.feature["sequences"].bytes_list.value.extend(sequences)
        assert data[start:end].tobytes() == example.SerializeToString(
            deterministic=True
        )
        assert reader.sequences_of(data[start:end].tobytes(), True) == sequences
