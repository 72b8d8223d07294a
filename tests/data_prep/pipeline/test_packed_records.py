"""Directories of packed records are checked and shown like others."""

import json

import pytest

from albert_tf.data import manifest as manifest_lib
from albert_tf.data import schema
from data_prep import inspect_records
from data_prep.pipeline import common
from data_prep.verification import run as verification
from tests.support import binaries, small_run

SETTINGS = {
    "dynamic": ("data.masking=dynamic", "data.compression=gzip"),
    "static": ("data.max_predictions_per_seq=3",),
    "one segment": ("data.pair_loss=none",),
    "next sentence": ("data.pair_loss=nsp",),
}


@pytest.fixture(scope="module", params=SETTINGS)
def records(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("packed")
    return small_run.write_records(
        folder, "data.pack_sequences=3", *SETTINGS[request.param]
    )


def test_each_sequence_is_verified(records):
    assert verification.verify(str(records), deep=True) == []
    manifest = json.loads((records / schema.MANIFEST_FILE).read_text())
    labels = manifest["splits"]["train"]["statistics"]["labels"]
    labels["-1"] += 1
    (records / schema.MANIFEST_FILE).write_text(json.dumps(manifest))
    try:
        [problem] = verification.verify(str(records), deep=True)
        assert "train: labels.-1 is" in problem
    finally:
        labels["-1"] -= 1
        (records / schema.MANIFEST_FILE).write_text(json.dumps(manifest))


def test_sequences_are_shown(records, tmp_path, capsys):
    page = tmp_path / "page.html"
    binaries.run(inspect_records, str(records), "--num_records=2", f"--html={page}")
    output = capsys.readouterr().out
    split = manifest_lib.read_manifest(str(records)).splits[schema.TRAIN]
    assert split.num_sequences > 1.5 * split.num_records
    rows = [line.split() for line in output.splitlines()]
    assert ["records", f"{split.num_records:,}"] in rows
    assert ["sequences", "in", "them", f"{split.num_sequences:,}"] in rows
    assert ["sampled", "all"] in rows
    assert output.startswith("sequence ") and "<html" in page.read_text()


def test_the_summary_counts_both(records):
    manifest = manifest_lib.read_manifest(str(records))
    split = manifest.splits[schema.TRAIN]
    assert (
        f"train: {split.num_sequences:,} sequences in {split.num_records:,} records of"
    ) in common.describe(manifest, "out")
