"""The records and the table of `guard_runs`."""

import collections

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.data import manifest as manifest_lib
from albert_tf.data import schema
from tests.support import small_run
from tests.training import guard_runs


@pytest.fixture(scope="module")
def records(tmp_path_factory):
    return small_run.write_records(tmp_path_factory.mktemp("records"))


def _labels(folder):
    found = {}
    for path in sorted(folder.glob("*.tfrecord")):
        found[path.name] = [
            np.frombuffer(
                tf.train.Example.FromString(record.numpy())
                .features.feature["masked_lm_ids"]
                .bytes_list.value[0],
                np.uint16,
            )
            for record in tf.data.TFRecordDataset(str(path))
        ]
    return found


def test_shuffled_labels_are_the_same_ones_in_other_places(records, tmp_path):
    guard_runs.shuffle_labels(records, tmp_path / "shuffled")
    before, after = _labels(records), _labels(tmp_path / "shuffled")
    assert before.keys() == after.keys()
    for name, labels in before.items():
        new = after[name]
        assert [len(one) for one in labels] == [len(one) for one in new]
        counts = [
            collections.Counter(np.concatenate(one).tolist()) for one in (labels, new)
        ]
        assert counts[0] == counts[1]
        moved = np.concatenate(labels) != np.concatenate(new)
        assert np.mean(moved) > 0.5


def test_few_records_are_the_first_ones(records, tmp_path, monkeypatch):
    monkeypatch.setattr(guard_runs, "FEW", 7)
    guard_runs.keep_few(records, tmp_path / "few")
    manifest = manifest_lib.read_manifest(str(tmp_path / "few"))
    train = manifest.splits[schema.TRAIN]
    assert train.num_records == 7
    (name,) = (shard.name for shard in train.shards)
    kept, whole = _labels(tmp_path / "few"), _labels(records)
    np.testing.assert_equal(kept[name], whole[name][:7])
    (heldout,) = (name for name in kept if name.startswith(schema.HELDOUT))
    np.testing.assert_equal(kept[heldout], whole[heldout])


def test_a_verdict_is_what_the_line_says():
    stuck = "step 9: no progress after 2 M tokens: the loss. Likely causes: a. Try b"
    climbing = "step 9: no progress: the held-out MLM loss climbs. Likely causes: a"
    failed = "error: step 3 failed: it rose to 2.5. Kept in X. Likely causes: a. Try b"
    for line, code, expected in (
        ("", 0, ("none", "")),
        (stuck, 78, ("no progress; exit code 78", "a. Try b")),
        (climbing, 78, ("the loss climbs; exit code 78", "a")),
        (failed, 1, ("step 3 failed: it rose to 2.5; exit code 1", "a. Try b")),
    ):
        assert guard_runs.verdict({"line": line, "exit_code": code}) == expected


def test_a_run_that_fails_for_another_reason_has_no_verdict(records, tmp_path):
    run = guard_runs.Run("wrong", ("train.num_steps=0",))
    with pytest.raises(RuntimeError, match="exit code"):
        guard_runs.measure(run, records, tmp_path / "run")
