"""Rows are made once, on any number of processes, and of nothing but the examples."""

import dataclasses
import os

import numpy as np
import pytest

from albert_tf.core import task_config
from albert_tf.tasks import examples as examples_lib
from albert_tf.tasks import feature_cache, registry, splits
from albert_tf.tasks import features as features_lib
from albert_tf.tokenization import tokenizer as tokenizer_lib
from tests.support import small_run

SETTINGS = task_config.TaskConfig(name="mrpc", max_seq_length=24)


@pytest.fixture(scope="module")
def tokenizer():
    return tokenizer_lib.Tokenizer.from_file(str(small_run.VOCAB))


def _examples(count=7):
    return [
        examples_lib.TextExample(
            str(n), f"The river number {n}", "New York " * n, str(n % 2), f"x:{n}"
        )
        for n in range(1, count + 1)
    ]


def _assert_equal(ours, theirs):
    for name in ("ids", "offsets", "num_first", "example_index"):
        np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name))
    for part in ("per_row", "per_token", "notes"):
        assert getattr(ours, part).keys() == getattr(theirs, part).keys()
        for key, value in getattr(ours, part).items():
            np.testing.assert_array_equal(value, getattr(theirs, part)[key])


def _prepare(tokenizer, settings=SETTINGS, examples=None, **more):
    return feature_cache.load_or_encode(
        registry.create(settings),
        tokenizer,
        examples or _examples(),
        more.pop("is_training", True),
        str(more.pop("cache_dir", "")),
        **more,
    )


def test_any_number_of_processes_gives_the_same_rows(tokenizer, monkeypatch):
    whole = _prepare(tokenizer)
    assert whole.example_index.tolist() == list(range(7))
    assert whole.per_row["label_ids"].tolist() == [1, 0, 1, 0, 1, 0, 1]
    monkeypatch.setattr(feature_cache, "_CHUNK_CHARACTERS", 150)
    _assert_equal(_prepare(tokenizer, num_workers=1), whole)
    _assert_equal(_prepare(tokenizer, num_workers=2), whole)


def test_rows_come_back_from_the_cache(tokenizer, tmp_path, monkeypatch):
    made = _prepare(tokenizer, cache_dir=tmp_path)
    (name,) = os.listdir(tmp_path)
    assert name.endswith(".npz")

    def fail(*_):
        raise AssertionError("made anew")

    monkeypatch.setattr(feature_cache, "_encode", fail)
    _assert_equal(_prepare(tokenizer, cache_dir=tmp_path), made)


@pytest.mark.parametrize("damage", [b"", b"PK\x03\x04 no archive", None])
def test_a_damaged_file_is_made_anew(tokenizer, tmp_path, damage):
    made = _prepare(tokenizer, cache_dir=tmp_path)
    (name,) = os.listdir(tmp_path)
    path = tmp_path / name
    path.write_bytes(path.read_bytes()[:300] if damage is None else damage)
    _assert_equal(_prepare(tokenizer, cache_dir=tmp_path), made)
    _assert_equal(features_lib.from_bytes(path.read_bytes()), made)


def test_what_rows_follow_from_is_in_the_name_of_their_file(tokenizer, tmp_path):
    def files_after(**changed):
        _prepare(tokenizer, cache_dir=tmp_path, **changed)
        return len(os.listdir(tmp_path))

    assert files_after() == 1
    slower = dataclasses.replace(SETTINGS, layer_decay=0.5, patience=3)
    assert files_after(settings=slower) == 1
    shorter = dataclasses.replace(SETTINGS, max_seq_length=16)
    assert files_after(settings=shorter) == 2
    assert files_after(is_training=False) == 3
    assert files_after(examples=_examples(6)) == 4
    elsewhere = [dataclasses.replace(e, origin="y:1") for e in _examples()]
    assert files_after(examples=elsewhere) == 4
    other = tokenizer_lib.Tokenizer(tokenizer.model_proto, lower_case=False)
    _prepare(other, cache_dir=tmp_path)
    assert len(os.listdir(tmp_path)) == 5


def test_a_cached_file_that_would_have_to_be_unpickled_is_refused(tmp_path):
    path = tmp_path / "rows.npz"
    np.savez(path, ids=np.array([{}], object))
    with pytest.raises(ValueError, match="allow_pickle=False"):
        features_lib.from_bytes(path.read_bytes())


def _load(tokenizer, folder, **settings):
    task = registry.create(
        task_config.TaskConfig(
            name="table", train_file="train.tsv", dev_file="dev.tsv", **settings
        )
    )
    return splits.Loader(task, tokenizer, str(folder), "").load()


@pytest.fixture
def table(tmp_path):
    lines = [f"text {n}\t{'ab'[n % 2]}" for n in range(200)]
    (tmp_path / "train.tsv").write_text("\n".join(["text\tlabel", *lines]) + "\n")
    (tmp_path / "dev.tsv").write_text("text\tlabel\nx\ta\ny\tb\n")
    return tmp_path


def test_the_share_that_chooses_is_not_learnt_from(tokenizer, table):
    found = _load(tokenizer, table, selection_fraction=0.25)
    learnt = {example.id for example in found.train.examples}
    kept = {example.id for example in found.selection.examples}
    assert not learnt & kept and len(learnt | kept) == 200
    assert 30 <= len(kept) <= 70  # 50 +- 3 standard deviations of 6.1
    assert [split.name for split in found.eval_splits] == ["dev"]
    assert _load(tokenizer, table).selection.name == "dev"


def test_bad_examples_are_refused_with_their_line_or_left_out_and_counted(
    tokenizer, table
):
    with open(table / "train.tsv", "a") as file:
        file.write("\ta\ntext\n")
    with pytest.raises(ValueError, match=r"train\.tsv:202: .*must not be empty"):
        _load(tokenizer, table)
    found = _load(tokenizer, table, on_bad_example="skip")
    assert len(found.train.examples) == 200
    assert len(found.notes) == 2
    assert all(note.startswith("skipped 1: ") for note in found.notes)
    assert "train.tsv:202" in found.notes[0]


def test_examples_that_choose_must_have_labels(tokenizer, table):
    (table / "dev.tsv").write_text("text\tlabel\nx\t\n")
    with pytest.raises(ValueError, match=r"dev\.tsv:2"):
        _load(tokenizer, table)
