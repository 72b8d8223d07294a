"""The bytes of records, the writer of shards, and what is counted."""

import hashlib
import json
import math
import os

import numpy as np
import pytest
import tensorflow as tf

from albert_tf import schema
from data_prep import records

RECORD = records.Record(
    input_ids=np.array([2, 20, 4, 3, 9, 3], np.int32),
    segment_a_length=4,
    masked_lm_positions=np.array([2], np.int32),
    masked_lm_ids=np.array([261], np.int32),
    next_sentence_labels=1,
)


def write(folder, keys_by_shard, overwrite=False, vocabulary=b"vocabulary"):
    """Writes records that are the bytes of their keys."""
    num_shards = {schema.TRAIN: len(keys_by_shard), schema.HELDOUT: 1}
    with records.RecordWriter(str(folder), vocabulary, num_shards, overwrite) as writer:
        for shard, keys in enumerate(keys_by_shard):
            for key in keys:
                writer.add(schema.TRAIN, shard, key, b"%d" % key)
        shards = tuple(shard for _, shard in writer.finish([schema.TRAIN]))
        manifest = schema.Manifest(
            data={},
            vocab_size=10,
            vocab_sha256="",
            seq_length=8,
            num_predictions=1,
            splits={schema.TRAIN: schema.Split(1, 1, shards, {})},
            heldout_unigram_entropy=None,
        )
        writer.publish(manifest)
    return manifest


def test_a_record_is_little_endian_bytes_without_padding():
    features = tf.train.Example.FromString(
        records.serialize_record(RECORD, 30000)
    ).features.feature
    assert set(features) == set(schema.RECORD_FEATURES)
    ids = features["input_ids"].bytes_list.value[0]
    assert ids == bytes([2, 0, 20, 0, 4, 0, 3, 0, 9, 0, 3, 0])
    assert features["masked_lm_positions"].bytes_list.value[0] == bytes([2, 0])
    assert features["masked_lm_ids"].bytes_list.value[0] == bytes([5, 1])
    assert features["segment_a_length"].int64_list.value == [4]
    assert features["next_sentence_labels"].int64_list.value == [1]


@pytest.mark.parametrize("vocab_size", [30000, 65536, 65537, 250000])
def test_parse_gives_back_what_was_serialized(vocab_size):
    values = records.parse_record(
        records.serialize_record(RECORD, vocab_size), vocab_size
    )
    assert {name: np.array(value).tolist() for name, value in values.items()} == {
        "input_ids": [2, 20, 4, 3, 9, 3],
        "segment_a_length": 4,
        "masked_lm_positions": [2],
        "masked_lm_ids": [261],
        "next_sentence_labels": 1,
    }
    assert records.unmask(values).tolist() == [2, 20, 261, 3, 9, 3]


def test_a_record_that_lacks_a_feature_is_an_error():
    with pytest.raises(ValueError, match="one input_ids; received 0"):
        records.parse_record(tf.train.Example().SerializeToString(), 30000)


def test_shards_are_sorted_by_key_and_described(tmp_path):
    manifest = write(tmp_path, [[5, 1, (1 << 63) - 1, 3], [2], []])
    names = [f"train-0000{i}-of-00003.tfrecord" for i in range(3)]
    assert sorted(os.listdir(tmp_path)) == ["manifest.json", *names, "vocab.model"]
    shards = manifest.splits[schema.TRAIN].shards
    assert [(s.name, s.num_records) for s in shards] == list(
        zip(names, [4, 1, 0], strict=True)
    )
    data = tf.data.TFRecordDataset(str(tmp_path / names[0])).as_numpy_iterator()
    assert list(data) == [b"1", b"3", b"5", b"%d" % ((1 << 63) - 1)]
    for shard in shards:
        contents = (tmp_path / shard.name).read_bytes()
        assert shard.num_bytes == len(contents)
        assert shard.sha256 == hashlib.sha256(contents).hexdigest()
    text = (tmp_path / "manifest.json").read_text()
    assert schema.Manifest.from_json(text) == manifest
    assert (tmp_path / "vocab.model").read_bytes() == b"vocabulary"


def test_records_that_are_there_are_not_touched(tmp_path):
    write(tmp_path, [[1], [2]])
    before = {p.name: p.read_bytes() for p in tmp_path.iterdir()}
    with pytest.raises(ValueError, match="manifest.json. Remove it, choose another"):
        write(tmp_path, [[3]])
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == before


@pytest.mark.parametrize(
    "name", ["train-00000-of-00001.tfrecord", "heldout-00000-of-00001.tfrecord"]
)
def test_stray_shards_and_another_vocabulary_are_not_touched(tmp_path, name):
    (tmp_path / name).write_bytes(b"stray")
    with pytest.raises(ValueError, match=f"has {name}"):
        write(tmp_path, [[3]])
    (tmp_path / name).rename(tmp_path / "vocab.model")
    with pytest.raises(ValueError, match="has vocab.model"):
        write(tmp_path, [[3]])


def test_the_used_vocabulary_may_lie_in_the_output_folder(tmp_path):
    (tmp_path / "vocab.model").write_bytes(b"vocabulary")
    write(tmp_path, [[3]])
    assert (tmp_path / "vocab.model").read_bytes() == b"vocabulary"


def test_overwrite_replaces_old_records_of_other_names(tmp_path):
    write(tmp_path, [[1], [2]])
    (tmp_path / "notes.txt").write_text("stays")
    write(tmp_path, [[3]], overwrite=True, vocabulary=b"another")
    assert sorted(os.listdir(tmp_path)) == [
        "manifest.json",
        "notes.txt",
        "train-00000-of-00001.tfrecord",
        "vocab.model",
    ]
    assert (tmp_path / "vocab.model").read_bytes() == b"another"


def test_a_failure_leaves_nothing_and_the_old_records(tmp_path):
    write(tmp_path / "old", [[1]])
    for folder in (tmp_path / "old", tmp_path / "new"):
        before = sorted(folder.iterdir()) if folder.exists() else []
        with pytest.raises(ZeroDivisionError):
            with records.RecordWriter(
                str(folder), b"vocabulary", {schema.TRAIN: 2}, overwrite=True
            ) as writer:
                writer.add(schema.TRAIN, 0, 1, b"x")
                next(writer.finish([schema.TRAIN]))
                raise ZeroDivisionError
        assert sorted(folder.iterdir()) == before


def test_a_failure_while_files_get_their_names_leaves_nothing(tmp_path, monkeypatch):
    rename = tf.io.gfile.rename

    def rename_but_the_manifest(source, target, overwrite=False):
        if target.endswith(schema.MANIFEST_FILE):
            raise tf.errors.ResourceExhaustedError(None, None, "no space left")
        rename(source, target, overwrite)

    monkeypatch.setattr(tf.io.gfile, "rename", rename_but_the_manifest)
    with pytest.raises(tf.errors.ResourceExhaustedError):
        write(tmp_path, [[1], [2]])
    assert os.listdir(tmp_path) == []


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(ValueError, match="file/records cannot"):
        write(tmp_path / "file" / "records", [[1]])


def test_counts_add_up_to_the_statistics():
    def counts(scale):
        part = records.SplitCounts.zeros(6, 3)
        part.num_documents = scale
        part.num_documents_without_records = 1
        part.labels += np.array([2, 1]) * scale
        part.tokens += np.array([0, 1, 3, 6, 0, 5]) * scale
        part.masked += np.array([0, 0, 0, 0, 0, 3]) * scale
        part.drawn_lengths += np.array([0, 0, 1]) * scale
        part.placed_lengths += np.array([0, 1, 0]) * scale
        part.kinds += np.array([2, 0, 1]) * scale
        part.dropped["single_word"] += scale
        return part

    total = records.SplitCounts.zeros(6, 3)
    total.add(counts(1))
    total.add(counts(3))
    assert total.num_documents == 4
    assert json.loads(json.dumps(total.statistics(seq_length=10, unk_id=1))) == {
        "num_tokens": 60,
        "mean_length": 5.0,
        "padding_rate": 0.5,
        "num_masked": 12,
        "masked_rate": 0.2,
        "drawn_ngram_lengths": {"1": 0, "2": 0, "3": 4},
        "placed_ngram_lengths": {"1": 0, "2": 4, "3": 0},
        "replacements": {"mask": 8, "keep": 0, "random": 4},
        "labels": {"0": 8, "1": 4},
        "unknown_rate": 0.066667,
        "num_documents_without_records": 2,
        "dropped_tokens": {"single_word": 4},
    }


def test_unigram_entropy_is_the_smoothed_cross_entropy():
    train = np.array([100, 0, 6, 1])  # id 0 is a control symbol and does not count
    masked = np.array([0, 1, 3, 0])
    # Smoothed: 1, 7 and 2 of 10.
    expected = -(math.log(0.1) + 3 * math.log(0.7)) / 4
    found = records.unigram_entropy(train, masked, np.array([1, 2, 3]))
    assert found == pytest.approx(expected, abs=1e-6)


def test_unigram_entropy_of_nothing_is_none():
    zeros = np.zeros(4, np.int64)
    assert records.unigram_entropy(zeros + 3, zeros, np.arange(4)) is None
