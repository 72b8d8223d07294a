"""Chunks of records: they come back whole, or are an error."""

import numpy as np
import pytest
import xxhash

from albert_tf.data import schema
from data_prep.records import chunks, example_builder, shards


def _records(sizes, keys):
    return example_builder.RecordBatch(
        np.arange(sum(sizes), dtype=np.uint8),
        np.cumsum(sizes, dtype=np.int64),
        np.array(keys, np.uint64),
        np.arange(len(sizes), dtype=np.int32),
    )


def test_records_are_cut_into_chunks_that_hold_them_in_order():
    found = list(chunks.cut(_records([2, 3, 1, 7, 4], [10, 20, 30, 40, 50]), 5))
    assert [chunk.data.tolist() for chunk in found] == [
        [0, 1, 2, 3, 4],
        [5],
        [6, 7, 8, 9, 10, 11, 12],
        [13, 14, 15, 16],
    ]
    assert [chunk.ends.tolist() for chunk in found] == [[2, 5], [1], [7], [4]]
    assert [chunk.keys.tolist() for chunk in found] == [[10, 20], [30], [40], [50]]
    assert [chunk.documents.tolist() for chunk in found] == [[0, 1], [2], [3], [4]]
    assert list(chunks.cut(_records([], []), 5)) == []


def test_packed_records_come_back_the_same():
    batch = _records([2, 3], [10, 1 << 63])
    packed = chunks.pack(batch)
    # Checksum, sizes, keys, ends, documents, data, and padding to 8 bytes.
    assert len(packed) == 8 + 16 + 16 + 16 + 8 + 5 + 3
    for before, after in zip(batch, chunks.unpack(packed), strict=True):
        assert before.dtype == after.dtype
        np.testing.assert_array_equal(before, after)
    assert len(chunks.unpack(chunks.EMPTY).keys) == 0


def test_equal_keys_keep_the_order_of_the_input():
    places = [(1, 0, 0, 0), (0, 2, 1, 0), (0, 2, 0, 3), (0, 10, 0, 0), ()]
    packed = {p: chunks.pack(_records([1], [n])) for n, p in enumerate(places)}
    order = [int(batch.keys[0]) for batch in chunks.in_order(packed)]
    assert order == [4, 2, 1, 3, 0]


def test_no_shard_that_takes_a_key_is_left_out():
    third = (1 << 63) // 3  # rounded down, so that key * 3 >> 63 is still 0
    keys = np.array([third, (1 << 63) + 5], np.uint64)
    assert chunks.shards_of(keys, schema.TRAIN, 3) == range(0, 2)
    assert chunks.shards_of(keys, schema.HELDOUT, 3) == range(0, 2)
    assert chunks.shards_of(keys[:1], schema.HELDOUT, 3) == range(0)
    assert chunks.shards_of(keys[:1], schema.TRAIN, 1) == range(0, 1)
    last = np.array([(1 << 63) - 1, (1 << 64) - 1], np.uint64)
    assert chunks.shards_of(last, schema.TRAIN, 7) == range(6, 7)
    assert chunks.shards_of(last, schema.HELDOUT, 7) == range(6, 7)


def test_the_shards_of_a_chunk_take_all_of_it():
    rng = np.random.default_rng(0)
    keys = np.sort(rng.integers(0, 1 << 64, 200, np.uint64))
    batch = _records([1] * 200, keys)
    for count in (1, 2, 7, 1000):
        taken = [
            shards.select(batch, None, split, number, count).keys
            for split in schema.SPLITS
            for number in chunks.shards_of(keys, split, count)
        ]
        np.testing.assert_array_equal(np.sort(np.concatenate(taken)), keys)


def test_any_damaged_bit_or_length_of_a_chunk_is_an_error():
    packed = chunks.pack(_records([2, 3], [10, 1 << 63]))
    damaged = [packed[:size] for size in range(len(packed))] + [packed + bytes(8)]
    for place in range(len(packed)):
        for bit in range(8):
            content = bytearray(packed)
            content[place] ^= 1 << bit
            damaged.append(bytes(content))
    for content in damaged:
        with pytest.raises(
            ValueError, match="the checksum of a chunk of records is wrong"
        ):
            chunks.unpack(content)


@pytest.mark.parametrize(
    ("at", "value"),
    [
        (8, -1),  # the number of records
        (8, 1 << 40),
        (16, 4),  # the bytes of their data
        (16, 1 << 62),
        (24, 1 << 62),  # the first key, above the second one
        (40, -1),  # where the first record ends
        (40, 6),
        (48, 4),  # where the last one ends
        (56, -1),  # the document of the first record, and of the second one
    ],
)
def test_impossible_places_are_an_error_even_if_the_checksum_is_right(at, value):
    packed = bytearray(chunks.pack(_records([2, 3], [10, 20])))
    chunks.unpack(bytes(packed))
    packed[at : at + 8] = value.to_bytes(8, "little", signed=True)
    checksum = xxhash.xxh3_64_intdigest(packed[8:])
    with pytest.raises(ValueError, match="impossible"):
        chunks.unpack(checksum.to_bytes(8, "little") + packed[8:])


def test_a_record_of_a_document_that_its_block_lacks_is_an_error():
    batch = _records([2, 3], [10, 20])
    with pytest.raises(ValueError, match="document 1 of a block of 1"):
        shards.select(batch, np.zeros(1, np.uint8), schema.TRAIN, 0, 1)
