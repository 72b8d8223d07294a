"""Each kind of damage to a directory of records, and the problem that is reported."""

import dataclasses
import json
import os
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.core import files
from albert_tf.data import schema
from data_prep import inspect_records, verify
from data_prep.verification import run, shards
from tests.support import binaries, small_run

COMPRESSIONS = ("none", "gzip")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Directories of records by name; to be copied before they are damaged."""
    folder = tmp_path_factory.mktemp("made")
    return {
        "none": small_run.write_records(folder / "none"),
        "gzip": small_run.write_records(folder / "gzip", "data.compression=gzip"),
        "dynamic": small_run.write_records(
            folder / "dynamic", "data.masking=dynamic", "data.pair_loss=none"
        ),
    }


@pytest.fixture
def records(made, tmp_path):
    return shutil.copytree(made["none"], tmp_path / "records")


def shard_paths(folder):
    return sorted(folder.glob("*.tfrecord*"))


def read_manifest(folder):
    return json.loads((folder / schema.MANIFEST_FILE).read_text())


def write_manifest(folder, values):
    (folder / schema.MANIFEST_FILE).write_text(json.dumps(values))


def only_problem(folder, deep=False):
    problems = run.verify(str(folder), deep)
    assert len(problems) == 1, problems
    return problems[0].replace(f"{folder}/", "")


def replace_shard(folder, path, records):
    """Replaces the records of a shard, and its size and digest in the manifest."""
    with tf.io.TFRecordWriter(str(path)) as writer:
        for record in records:
            writer.write(record)
    values = read_manifest(folder)
    digest = shards.read_shard(str(path), None, False, lambda _: None)
    for split in values["splits"].values():
        for shard in split["shards"]:
            if shard["name"] == path.name:
                shard["num_bytes"] = digest.num_bytes
                shard["sha256"] = digest.sha256
    write_manifest(folder, values)


@pytest.mark.parametrize("deep", [False, True])
@pytest.mark.parametrize("name", ["none", "gzip", "dynamic"])
def test_untouched_records_have_no_problem(made, name, deep):
    assert run.verify(str(made[name]), deep) == []


def test_binary_prints_one_line_if_there_is_no_problem(records, capsys):
    binaries.run(verify, records)
    total = sum(s["num_records"] for s in read_manifest(records)["splits"].values())
    out = capsys.readouterr().out
    assert out == (f"{records}: 4 shards, {total} records, all as in the manifest\n")


def test_binary_prints_a_line_for_each_problem_and_exits_with_1(records, capsys):
    first, second, *_ = shard_paths(records)
    first.unlink()
    second.write_bytes(second.read_bytes()[:-1])
    (records / schema.VOCAB_FILE).unlink()
    with pytest.raises(SystemExit) as stopped:
        binaries.run(verify, records, "--deep")
    assert stopped.value.code == 1
    captured = capsys.readouterr()
    lines = captured.out.splitlines()
    assert [re.split("[:;] ", line)[1] for line in lines] == [
        "missing",
        "missing",
        "cut off",
    ]
    assert (
        "does not match its manifest; number of problems, listed above: 3"
        in captured.err
    )


def test_binary_wants_one_argument(capsys):
    error = binaries.error_of(capsys, verify)
    assert error == "one argument is needed, the directory of the records; received 0"


# The files.


@pytest.mark.parametrize("deep", [False, True])
def test_a_flipped_bit_is_placed_in_its_record(records, deep):
    path = shard_paths(records)[1]
    content = bytearray(path.read_bytes())
    first_size = int.from_bytes(content[:8], "little")
    second_data = first_size + 16 + 12  # after the first record and a header
    content[second_data + 30] ^= 4
    path.write_bytes(content)
    problem = only_problem(records, deep)
    assert problem.startswith(f"{path.name}: its bytes were changed: SHA-256 ")
    assert "; record 1 (the first is 0): the checksum of its data is wrong;" in problem


def test_a_flipped_bit_in_a_length_is_placed(records):
    path = shard_paths(records)[1]
    content = bytearray(path.read_bytes())
    for byte, fault in ((0, "the checksum of its length is wrong"), (7, "impossible")):
        broken = bytearray(content)
        broken[byte] ^= 1
        path.write_bytes(broken)
        problem = only_problem(records)
        assert "record 0 (the first is 0): " in problem and fault in problem


def test_flipped_bits_in_gzip_are_found_wherever_they_are(made, tmp_path):
    folder = shutil.copytree(made["gzip"], tmp_path / "records")
    path = shard_paths(folder)[1]
    content = path.read_bytes()
    placed = 0
    for byte in range(0, len(content), len(content) // 40):
        broken = bytearray(content)
        broken[byte] ^= 16
        path.write_bytes(broken)
        problem = only_problem(folder)
        assert "its bytes were changed" in problem
        placed += "record " in problem
    assert placed >= 36  # all but those in gzip's header


@pytest.mark.parametrize("name", COMPRESSIONS)
def test_a_cut_and_a_longer_shard_are_distinguished(made, tmp_path, name):
    folder = shutil.copytree(made[name], tmp_path / "records")
    path = shard_paths(folder)[2]
    content = path.read_bytes()
    size = f"{len(content):,} in the manifest"
    path.write_bytes(content[: len(content) // 2])
    problem = only_problem(folder)
    assert f"cut off: it has {len(content) // 2:,} bytes, {size}; record " in problem
    assert ("gzip stream is cut" if name == "gzip" else "file ends within") in problem
    path.write_bytes(content + b"more")
    problem = only_problem(folder)
    assert f"too long: it has {len(content) + 4:,} bytes, {size}; record " in problem
    path.write_bytes(b"")
    assert "cut off: it has 0 bytes" in only_problem(folder)


def test_a_renamed_shard_is_missing_and_unknown(records):
    path = shard_paths(records)[0]
    path.rename(path.with_name("other.tfrecord"))
    problems = run.verify(str(records))
    assert problems[0].startswith(f"{path}: missing; copy it again")
    assert problems[1].startswith(
        f"{records}/other.tfrecord: a shard that the manifest does not name; remove it"
    )


def test_a_directory_name_with_glob_characters_hides_no_unknown_shard(made, tmp_path):
    folder = shutil.copytree(made["none"], tmp_path / "re[c]ords*")
    (folder / "train-00009-of-00010.tfrecord").write_bytes(b"")
    assert "does not name" in only_problem(folder)


def test_vocabulary_must_be_there_and_the_same(records, testdata):
    path = records / schema.VOCAB_FILE
    other = testdata / "tokenization" / "spm_small.model"
    path.write_bytes(other.read_bytes() + b"\x5a\x00")  # an unknown empty field
    problem = only_problem(records)
    assert problem.startswith("vocab.model: not the vocabulary that the records were")
    path.write_bytes(b"no model")
    assert "vocab.model: not a SentencePiece model" in only_problem(records)
    path.unlink()
    assert only_problem(records).startswith("vocab.model: missing; copy it again")


# The manifest.


def test_missing_directory_and_missing_manifest_are_distinguished(records, tmp_path):
    assert "nothing: no such directory" in only_problem(tmp_path / "nothing")
    (records / schema.MANIFEST_FILE).unlink()
    problem = only_problem(records)
    assert problem.startswith(
        "manifest.json: missing; run the same `python -m data_prep.create_pretraining_"
    )


@pytest.mark.parametrize("binary", [verify, inspect_records])
@pytest.mark.parametrize("has_manifest", [False, True])
def test_a_run_is_told_from_its_records(
    records, tmp_path, capsys, binary, has_manifest
):
    folder = tmp_path / "run"
    folder.mkdir()
    for name in (schema.CONFIG_FILE, schema.CHECKPOINT_FILE):
        (folder / name).write_text("{}")
    if has_manifest:
        shutil.copy(records / schema.MANIFEST_FILE, folder)
    assert binaries.error_of(capsys, binary, folder) == (
        f"{folder} is the directory of a run, not of records; give the --output_dir of "
        "`python -m data_prep.create_pretraining_data` that it was trained on"
    )


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"{", "manifest.json must be JSON; it is damaged (Expecting property name"),
        (b"\xff", "manifest.json must be JSON; it is damaged ('utf-8' codec can't"),
        (b"{}", "manifest.json: not a manifest of records, which has a format_version"),
        (b"[]", "manifest.json: not a manifest of records, which has a format_version"),
        (
            b'{"format_version": 1}',
            "manifest.json: the manifest must have format_version 3; received 1. Make",
        ),
        (
            b'{"format_version": 2}',
            "manifest.json: the manifest must have format_version 3; received 2 (it "
            "cut sentences to make pairs, so that punctuation revealed labels of "
            "pairs). Make the records again",
        ),
    ],
)
def test_a_manifest_that_cannot_be_read_is_one_line(records, content, problem):
    (records / schema.MANIFEST_FILE).write_bytes(content)
    assert only_problem(records).startswith(problem)


def add(values, path, change):
    *folders, last = path
    for key in folders:
        values = values[key]
    values[last] += change


@pytest.mark.parametrize(
    ("path", "change", "problem"),
    [
        (("documents", "read"), 1, "documents.read is 61, but documents.kept 60 + "),
        (("characters", "kept"), -1, "but characters.kept "),
        (
            ("splits", "train", "statistics", "tokens_in"),
            2,
            "train: statistics.tokens_in is ",
        ),
        (
            ("splits", "train", "statistics", "tokens_special"),
            2,
            "train: statistics.num_tokens is ",
        ),
        (
            ("splits", "heldout", "statistics", "replacements", "mask"),
            1,
            "heldout: statistics.num_masked is ",
        ),
        (
            ("splits", "heldout", "statistics", "labels", "1"),
            1,
            "heldout: num_records is ",
        ),
        (("seq_length",), 1, "seq_length is 25, but its settings make it 24"),
        (("mask_id",), 1, "mask_id is 5, but 4 in vocab.model"),
        (("data", "min_shards"), -9, "data.min_shards must be at least 1"),
    ],
)
def test_an_edited_manifest_contradicts_itself(records, path, change, problem):
    values = read_manifest(records)
    add(values, path, change)
    write_manifest(records, values)
    line = only_problem(records)
    assert problem in line and "the manifest was edited" in line


def test_an_edited_number_of_records_is_found_twice(records):
    values = read_manifest(records)
    add(values, ("splits", "train", "shards", 1, "num_records"), 1)
    write_manifest(records, values)
    first, second = run.verify(str(records))
    assert "train: num_records is " in first
    name = values["splits"]["train"]["shards"][1]["name"]
    assert f"{name}: it holds " in second and "records, " in second


def test_a_long_name_is_shortened(records):
    values = read_manifest(records)
    values["splits"]["x" * 100_000] = values["splits"].pop("heldout")
    write_manifest(records, values)
    problems = run.verify(str(records), deep=False)
    assert any("splits must be train and perhaps heldout" in one for one in problems)
    assert max(map(len, problems)) < 1000


@pytest.mark.parametrize("name", ["pipe", "zeros"])
def test_a_shard_that_is_no_file_is_named(records, name):
    path = shard_paths(records)[0]
    path.unlink()
    if name == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero")
    (problem, *_) = run.verify(str(records), deep=True)
    assert path.name in problem


def test_a_manifest_without_a_part_is_named_not_a_crash(records):
    values = read_manifest(records)
    del values["documents"]["kept"]
    values["splits"]["train"]["statistics"]["tokens_in"] = "half"
    write_manifest(records, values)
    problems = run.verify(str(records), deep=True)
    assert "documents.kept must be a number" in problems[0]
    assert "train: statistics.tokens_in must be a number" in problems[1]
    values["splits"]["train"]["shards"][0]["num_bytes"] = "many"
    write_manifest(records, values)
    line = only_problem(records)
    assert "splits.train.shards.1.num_bytes must be an integer; received 'm" in line
    values["splits"] = [1]
    write_manifest(records, values)
    assert only_problem(records).startswith("manifest.json: ")


# Records, which only a deep check reads.


def test_deep_names_the_record_that_breaks_a_rule(records):
    path = shard_paths(records)[1]
    kept = [r.numpy() for r in tf.data.TFRecordDataset(str(path))]
    example = tf.train.Example.FromString(kept[3])
    example.features.feature["next_sentence_labels"].int64_list.value[:] = [2]
    bad = example.SerializeToString(deterministic=True)
    replace_shard(records, path, [*kept[:3], bad, *kept[4:]])
    assert run.verify(str(records)) == []
    problem = only_problem(records, deep=True)
    assert problem.startswith(f"{path.name}: record 3 (the first is 0): next_sentence")
    assert problem.endswith("; make the records again")


@pytest.mark.parametrize("label", ["-1", "1"])
def test_deep_compares_the_numbers_of_labels(records, label):
    values = read_manifest(records)
    labels = values["splits"]["train"]["statistics"]["labels"]
    labels["0"] -= 1
    labels[label] += 1
    number = labels[label]
    write_manifest(records, values)
    assert run.verify(str(records)) == []
    line = only_problem(records, deep=True)
    assert f"train: labels.{label} is {number}, but {number - 1} in the" in line


def test_reading_in_small_chunks_finds_the_same(made, monkeypatch):
    for name in ("none", "gzip"):
        path = str(shard_paths(made[name])[1])
        whole = shards.read_shard(path, None, True, lambda _: None)
        monkeypatch.setattr(shards, "_CHUNK_BYTES", 7)
        monkeypatch.setattr(shards, "_GZIP_CHUNK_BYTES", 7)
        parts: list[int] = []
        small = shards.read_shard(path, None, True, parts.append)
        monkeypatch.undo()
        assert sum(parts) == files.size(path) and max(parts) == 7
        assert whole.num_records > 10 and not whole.fault
        for field in dataclasses.fields(whole):
            left, right = (getattr(found, field.name) for found in (whole, small))
            assert np.array_equal(left, right)


def test_verify_runs_without_tensorflow(records):
    program = (
        "import sys; from data_prep.verification import run; "
        f"assert run.verify({str(records)!r}, deep=True) == []; "
        "assert 'tensorflow' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
