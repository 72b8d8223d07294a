"""Records of many blocks to shards: the order, the bytes, and the counts."""

import gzip
import hashlib

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.core import config
from albert_tf.data import schema
from data_prep.records import example_builder, example_proto, shards

HELDOUT = int(example_builder.HELDOUT_BIT)
DATA = config.DataConfig()


def make_part(keys, documents=None, tag=0):
    """Records sorted by key; a token of each identifies the place of its key."""
    keys = sorted(keys)
    data, ends = [], []
    for place in range(len(keys)):
        ids = np.array([2, 100 + tag, 3, 10 + place, 3], np.int32)
        buffer = np.zeros(400, np.uint8)
        none = np.empty(0, np.int32)
        end = example_proto.put_static(buffer, 0, ids, none, none, 3, 0, 2)
        data.append(buffer[:end])
        ends.append(end)
    return example_builder.RecordBatch(
        np.concatenate([np.empty(0, np.uint8), *data]),
        np.cumsum(ends, dtype=np.int64),
        np.array(keys, np.uint64),
        np.array(documents or [0] * len(keys), np.int32),
    )


def assemble(selected):
    return shards.assemble(selected, DATA, 200)


def read(path, compression=""):
    """(tag, place) of each record of a file, as TensorFlow reads it."""
    rows = []
    for serialized in tf.data.TFRecordDataset(str(path), compression):
        example = tf.train.Example.FromString(serialized.numpy())
        ids = example.features.feature["input_ids"].bytes_list.value[0]
        _, tag, _, place, _ = np.frombuffer(ids, "<u2")
        rows.append((int(tag) - 100, int(place) - 10))
    return rows


def test_a_shard_takes_the_keys_of_its_range():
    top, third = (1 << 63) - 1, (1 << 63) // 3
    part = make_part([0, third - 1, third, top // 2, top, HELDOUT, HELDOUT + top])
    found = [shards.select(part, None, schema.TRAIN, n, 3).keys for n in range(3)]
    assert [keys.tolist() for keys in found] == [
        [0, third - 1],
        [third, top // 2],
        [top],
    ]
    found = [shards.select(part, None, schema.HELDOUT, n, 2).keys for n in range(2)]
    assert [keys.tolist() for keys in found] == [[HELDOUT], [HELDOUT + top]]


@pytest.mark.parametrize("count", [1, 2, 3, 7, 1000])
def test_every_record_is_in_exactly_one_shard(count):
    rng = np.random.default_rng(count)
    part = make_part(rng.integers(0, 1 << 63, 50).tolist() + [0, (1 << 63) - 1])
    found = [shards.select(part, None, schema.TRAIN, n, count) for n in range(count)]
    assert np.concatenate([f.keys for f in found]).tolist() == part.keys.tolist()
    assert np.concatenate([f.data for f in found]).tolist() == part.data.tolist()


def test_a_shard_is_sorted_by_key_and_ties_are_in_the_order_of_the_input(tmp_path):
    parts = [make_part([5, 40, 40]), make_part([40, 7], tag=1), make_part([], tag=2)]
    content, num_records, _, _ = assemble(parts)
    shards.write_shard(str(tmp_path / "x"), "x", content, num_records, "none")
    # The keys are 5, 40, 40 and 7, 40.
    assert read(tmp_path / "x") == [(0, 0), (1, 0), (0, 1), (0, 2), (1, 1)]


def test_the_file_is_the_one_that_tensorflow_writes(tmp_path):
    part = make_part(list(range(40)))
    content, _, _, _ = assemble([part])
    starts = [0, *part.ends[:-1]]
    with tf.io.TFRecordWriter(str(tmp_path / "theirs")) as writer:
        for start, end in zip(starts, part.ends, strict=True):
            writer.write(part.data[start:end].tobytes())
    assert content.tobytes() == (tmp_path / "theirs").read_bytes()


def test_records_of_dropped_documents_are_left_out(tmp_path):
    part = make_part([1, 2, 3, 4], documents=[0, 1, 0, 2])
    dropped = np.array([0, 1, 2], np.uint8)
    kept = shards.select(part, dropped, schema.TRAIN, 0, 1)
    content, num_records, tokens, masked = assemble([kept])
    shards.write_shard(str(tmp_path / "x"), "x", content, num_records, "none")
    assert read(tmp_path / "x") == [(0, 0), (0, 2)]
    assert num_records == 2 and not masked.any()
    assert {i: int(n) for i, n in enumerate(tokens) if n} == {
        2: 2,
        3: 4,
        10: 1,
        12: 1,
        100: 2,
    }


def test_an_empty_shard_is_an_empty_file(tmp_path):
    content, num_records, tokens, _ = assemble([make_part([])])
    shard = shards.write_shard(str(tmp_path / "x"), "x", content, num_records, "none")
    assert (shard.num_records, shard.num_bytes) == (0, 0)
    assert (tmp_path / "x").read_bytes() == b"" and not tokens.any()


def test_a_compressed_shard_reads_the_same_and_is_described(tmp_path):
    content, num_records, _, _ = assemble([make_part(list(range(90)))])
    shard = shards.write_shard(
        str(tmp_path / "x"), "x.gz", content, num_records, "gzip"
    )
    data = (tmp_path / "x").read_bytes()
    assert gzip.decompress(data) == content.tobytes()
    assert read(tmp_path / "x", "GZIP") == [(0, place) for place in range(90)]
    assert shard == schema.Shard(
        "x.gz", 90, len(data), hashlib.sha256(data).hexdigest()
    )


@pytest.mark.parametrize(
    ("split", "num_bytes", "expected"),
    [
        ("train", 0, 8),
        ("train", 16 << 20, 8),
        ("train", (16 << 20) + 1, 9),
        ("heldout", 1, 1),
        ("heldout", (4 << 20) + 1, 3),
    ],
)
def test_there_are_as_many_shards_as_their_size_needs(split, num_bytes, expected):
    data = config.DataConfig(min_shards=8, shard_megabytes=2)
    assert shards.num_shards(data, split, num_bytes) == expected
