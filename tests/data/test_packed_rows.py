"""Sequences become rows: each feature at its place, and nothing of it changed."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.core import config_io, row_shapes
from albert_tf.data import input_pipeline, packed_rows, record_parser, schema
from albert_tf.data import manifest as manifest_lib
from data_prep.records import reader
from tests.support import small_run

PACKED = "data.pack_sequences=2"


def test_each_feature_is_at_its_place():
    # Sequences of 4, 3 and 5 tokens; the first two share a row.
    features = {
        "input_ids": [[2, 11, 12, 3, 0], [2, 21, 3, 0, 0], [2, 31, 3, 32, 3]],
        "input_mask": [[1, 1, 1, 1, 0], [1, 1, 1, 0, 0], [1, 1, 1, 1, 1]],
        "segment_ids": [[0, 0, 0, 0, 0], [0, 0, 0, 0, 0], [0, 0, 0, 1, 1]],
        "masked_lm_positions": [[1, 2], [1, 0], [3, 0]],
        "masked_lm_ids": [[71, 72], [73, 0], [74, 0]],
        "masked_lm_weights": [[1.0, 1.0], [1.0, 0.0], [1.0, 0.0]],
        "next_sentence_labels": [-1, -1, 1],
    }
    features = {name: tf.constant(values) for name, values in features.items()}
    counts = tf.constant([2, 1], tf.int64)
    found = packed_rows.pack(features, counts, row_shapes.RowShape(8, 4, 3))
    expected = {
        "input_ids": [[2, 11, 12, 3, 2, 21, 3, 0], [2, 31, 3, 32, 3, 0, 0, 0]],
        "sequence_numbers": [[1, 1, 1, 1, 2, 2, 2, 0], [1, 1, 1, 1, 1, 0, 0, 0]],
        "position_ids": [[0, 1, 2, 3, 0, 1, 2, 0], [0, 1, 2, 3, 4, 0, 0, 0]],
        "first_positions": [[0, 4, 0], [0, 0, 0]],
        "segment_ids": [[0] * 8, [0, 0, 0, 1, 1, 0, 0, 0]],
        "masked_lm_positions": [[1, 2, 5, 0], [3, 0, 0, 0]],
        "masked_lm_ids": [[71, 72, 73, 0], [74, 0, 0, 0]],
        "masked_lm_weights": [[1.0, 1.0, 1.0, 0.0], [1.0, 0.0, 0.0, 0.0]],
        "next_sentence_labels": [[-1, -1, -1], [1, -1, -1]],
    }
    assert {name: values.numpy().tolist() for name, values in found.items()} == expected
    assert [values.dtype for values in found.values()] == [
        tf.float32 if name == "masked_lm_weights" else tf.int32 for name in found
    ]


@pytest.mark.parametrize(
    ("shape", "what"),
    [((8, 4, 1), "sequences"), ((6, 4, 3), "tokens"), ((8, 2, 3), "masked tokens")],
)
def test_what_does_not_fit_a_row_is_an_error(shape, what):
    features = {
        "input_ids": [[2, 11, 12, 3], [2, 21, 3, 0]],
        "input_mask": [[1, 1, 1, 1], [1, 1, 1, 0]],
        "segment_ids": [[0, 0, 0, 0], [0, 0, 0, 0]],
        "masked_lm_positions": [[1, 2], [1, 0]],
        "masked_lm_ids": [[71, 72], [73, 0]],
        "masked_lm_weights": [[1.0, 1.0], [1.0, 0.0]],
        "next_sentence_labels": [-1, -1],
    }
    features = {name: tf.constant(values) for name, values in features.items()}
    row = row_shapes.RowShape(*shape)
    pack = tf.function(lambda: packed_rows.pack(features, tf.constant([2]), row))
    with pytest.raises(tf.errors.InvalidArgumentError, match=f"too many {what}"):
        pack()


@pytest.fixture(scope="module", params=["static", "dynamic"])
def folders(request, tmp_path_factory):
    """Directories of the same sequences, not packed and packed; and the settings."""
    masking = f"data.masking={request.param}"
    return [
        (
            small_run.write_records(tmp_path_factory.mktemp("small"), *settings),
            small_run.small_config(*settings),
        )
        for settings in ((masking,), (masking, PACKED))
    ]


def _epoch(folder, config):
    """All batches of the training records, one row each."""
    manifest = manifest_lib.read_manifest(str(folder))
    num_records = manifest.splits[schema.TRAIN].num_records
    one = config_io.override(config, ["train.batch_size=1"])
    input_fn = input_pipeline.train_input_fn(str(folder), manifest, one)
    return list(
        input_fn(tf.distribute.InputContext()).take(num_records).as_numpy_iterator()
    )


def _sequences(batch):
    """The sequences of a batch of one row: tokens before masking, and so on."""
    [numbers] = batch.get("sequence_numbers", batch.get("input_mask"))
    ids = batch["input_ids"][0].copy()
    is_masked = batch["masked_lm_weights"][0] > 0
    positions = batch["masked_lm_positions"][0][is_masked]
    ids[positions] = batch["masked_lm_ids"][0][is_masked]
    labels = np.atleast_2d(batch["next_sentence_labels"])[0]
    for number in range(1, numbers.max() + 1):
        places = np.flatnonzero(numbers == number)
        assert (np.diff(places) == 1).all()
        if "position_ids" in batch:
            assert batch["position_ids"][0][places].tolist() == list(range(len(places)))
            assert batch["first_positions"][0][number - 1] == places[0]
        own = positions[np.isin(positions, places)] - places[0]
        segments = batch["segment_ids"][0][places]
        yield (
            tuple(ids[places].tolist()),
            tuple(segments.tolist()),
            int(labels[number - 1]),
            len(own),
            tuple(own.tolist()),
        )
    assert (labels[numbers.max() :] == schema.NO_LABEL).all()


def test_packed_records_hold_the_same_sequences(folders):
    (plain, plain_config), (packed, packed_config) = folders
    rows = _epoch(packed, packed_config)
    expected = {
        name: (dtype, (1, *shape))
        for name, (dtype, shape) in schema.model_features(
            packed_config.data.row
        ).items()
    }
    found = {name: (str(v.dtype), v.shape) for name, v in rows[0].items()}
    assert found == expected
    alone = _epoch(plain, plain_config)
    assert len(rows) < 0.7 * len(alone)
    # Dynamic masks are drawn again; all else, and how many, stays.
    kept = 5 if plain_config.data.masking == "static" else 4
    one, other = (
        sorted(found[:kept] for batch in batches for found in _sequences(batch))
        for batches in (alone, rows)
    )
    assert one == other


@pytest.mark.parametrize("folders", ["dynamic"], indirect=True)
def test_masks_of_a_packed_row_are_drawn_for_each_sequence(folders):
    _, (packed, config) = folders
    manifest = manifest_lib.read_manifest(str(packed))
    parser = record_parser.Parser(manifest, config.data)
    path = packed / manifest.splits[schema.TRAIN].shards[0].name
    record = next(iter(tf.data.TFRecordDataset(str(path)))).numpy()
    keys = [[1, 5, 0], [1, 5, 1], [1, 5, 0]]
    found = parser.parse(tf.constant([record] * 3), tf.constant(keys, tf.int64))
    ids = found["input_ids"].numpy()
    assert (ids[0] == ids[2]).all() and (ids[0] != ids[1]).any()
    # Nor are the masks of two sequences of a row the same.
    longest = max(reader.sequences_of(record, True), key=len)
    twice = tf.train.Example()
    twice.features.feature["sequences"].bytes_list.value.extend([longest, longest])
    found = parser.parse(
        tf.constant([twice.SerializeToString()]), tf.constant([[1, 5, 0]], tf.int64)
    )
    numbers, ids = (found[n].numpy()[0] for n in ("sequence_numbers", "input_ids"))
    assert (ids[numbers == 1] != ids[numbers == 2]).any()


def test_an_evaluation_of_packed_records_may_have_an_empty_batch(folders):
    _, (packed, config) = folders
    manifest = manifest_lib.read_manifest(str(packed))
    input_fn, num_batches = input_pipeline.eval_input_fn(str(packed), manifest, config)
    replicas = tf.distribute.InputContext(num_replicas_in_sync=num_batches + 1)
    *batches, last = list(input_fn(replicas).as_numpy_iterator())
    num_rows = sum(batch["example_weights"].sum() for batch in batches)
    assert num_rows == manifest.splits[schema.HELDOUT].num_records
    assert not last["example_weights"].any() and not last["masked_lm_weights"].any()
    assert last["input_ids"].shape == batches[0]["input_ids"].shape


def test_records_and_settings_must_be_packed_alike(folders):
    (plain, plain_config), (packed, packed_config) = folders
    manifest = manifest_lib.read_manifest(str(packed))
    with pytest.raises(ValueError, match="pass --set data.pack_sequences=2"):
        manifest_lib.check_manifest(str(packed), manifest, plain_config)
    other = config_io.override(packed_config, ["data.masked_lm_rate=0.16"])
    if other.data.masking == "static":
        with pytest.raises(ValueError, match="pass --set data.masked_lm_rate=0.15"):
            manifest_lib.check_manifest(str(packed), manifest, other)
    else:
        manifest_lib.check_manifest(str(packed), manifest, other)
    manifest = manifest_lib.read_manifest(str(plain))
    with pytest.raises(ValueError, match="pass --set data.pack_sequences=0"):
        manifest_lib.check_manifest(str(plain), manifest, packed_config)
