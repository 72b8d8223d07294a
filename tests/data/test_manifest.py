"""Manifests: read, compared with a configuration, and with the shards."""

import dataclasses
import json
import shutil

import pytest

from albert_tf.data import manifest as manifest_lib
from albert_tf.data import schema
from tests.support import small_run


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory):
    return small_run.write_records(tmp_path_factory.mktemp("small"))


@pytest.fixture(scope="module")
def manifest(data_dir):
    return manifest_lib.read_manifest(str(data_dir))


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("data.max_seq_length=20", "sequence length .* is 24, but .* makes it 20"),
        ("model.vocab_size=5000", "vocabulary size .* is 4000, but .* makes it 5000"),
        ("data.max_predictions_per_seq=2", "number of predictions .* is 4"),
        ("data.pair_loss=nsp", "pair loss .* is sop, but data.pair_loss makes it nsp"),
        ("data.masking=dynamic", "masking .* is static, but .* makes it dynamic"),
        ("data.lower_case=false", "lower-casing .* is True, but .* makes it False"),
    ],
)
def test_records_of_another_shape_are_refused(data_dir, manifest, override, message):
    with pytest.raises(ValueError, match=message):
        manifest_lib.check_manifest(
            str(data_dir), manifest, small_run.small_config(override)
        )


def test_all_that_differs_is_named_at_once(data_dir, manifest):
    config = small_run.small_config("data.pair_loss=nsp", "data.lower_case=false")
    with pytest.raises(ValueError) as refused:
        manifest_lib.check_manifest(str(data_dir), manifest, config)
    assert str(refused.value) == (
        f"the pair loss of the records in {data_dir} is sop, but data.pair_loss makes "
        "it nsp; the lower-casing is True, but data.lower_case makes it False; make "
        "the records again or pass --set data.pair_loss=sop and "
        "--set data.lower_case=True"
    )


@pytest.mark.parametrize(
    ("overrides", "fix"),
    [
        (["data.masked_lm_rate=0.3"], "data.masked_lm_rate=0.15"),
        (["data.max_predictions_per_seq=2"], "data.max_predictions_per_seq=4"),
    ],
)
def test_the_setting_that_differs_is_to_be_changed(data_dir, manifest, overrides, fix):
    config = small_run.small_config(*overrides)
    with pytest.raises(ValueError, match=f"pass --set {fix}$"):
        manifest_lib.check_manifest(str(data_dir), manifest, config)


def test_static_masks_that_are_not_those_of_the_settings_are_noted(data_dir, manifest):
    def notes(*overrides):
        config = small_run.small_config(*overrides)
        manifest_lib.check_manifest(str(data_dir), manifest, config)
        return manifest_lib.mask_notes(str(data_dir), manifest, config)

    of_records = manifest.data["max_ngram"], manifest.data["mask_token_rate"]
    assert of_records == (3, 0.8)
    assert notes() == []
    assert notes("data.max_ngram=1", "data.mask_token_rate=0.9") == [
        f"the records in {data_dir} were masked with data.mask_token_rate=0.8 and not "
        "0.9, data.max_ngram=3 and not 1; their masks are used as they are"
    ]
    dynamic = dataclasses.replace(
        manifest, data={**manifest.data, "masking": "dynamic"}
    )
    config = small_run.small_config("data.max_ngram=1")
    assert manifest_lib.mask_notes("", dynamic, config) == []


def test_missing_cut_and_changed_shards_are_named(data_dir, manifest, tmp_path):
    config = small_run.small_config()
    copy = tmp_path / "records"
    shutil.copytree(data_dir, copy)
    manifest_lib.check_manifest(str(copy), manifest, config)
    assert manifest_lib.damaged_shards(str(copy), manifest) == []

    shard = copy / manifest.splits[schema.TRAIN].shards[1].name
    whole = shard.read_bytes()
    shard.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    assert manifest_lib.damaged_shards(str(copy), manifest) == [str(shard)]
    shard.write_bytes(whole[:-9])
    with pytest.raises(ValueError, match=rf"{shard.name} has \d+ bytes, but"):
        manifest_lib.check_manifest(str(copy), manifest, config)
    shard.unlink()
    with pytest.raises(ValueError, match=f"{shard.name} is missing"):
        manifest_lib.check_manifest(str(copy), manifest, config)


def test_a_folder_without_manifest_is_refused(tmp_path):
    with pytest.raises(ValueError, match="must hold records and their manifest.json"):
        manifest_lib.read_manifest(str(tmp_path))
    (tmp_path / "manifest.json").write_text("{}")
    with pytest.raises(ValueError, match=r"manifest.json: not a manifest of records"):
        manifest_lib.read_manifest(str(tmp_path))


def test_the_directory_above_records_is_told_from_that_of_records(data_dir, tmp_path):
    (tmp_path / "128").mkdir()
    advice = "Make them with `python -m data_prep.create_pretraining_data`$"
    with pytest.raises(ValueError, match=advice):
        manifest_lib.read_manifest(str(tmp_path))
    shutil.copy(data_dir / "manifest.json", tmp_path / "128")
    rule = f"data_dir must hold records .*. Give the .*, such as {tmp_path / '128'}$"
    with pytest.raises(ValueError, match=rule):
        manifest_lib.read_manifest(str(tmp_path), "data_dir")


def test_a_value_of_another_type_is_named(data_dir, tmp_path):
    values = json.loads((data_dir / "manifest.json").read_text())
    for name, value, message in (
        ("vocab_size", "many", "vocab_size must be an integer; received 'many'"),
        ("data", [], r"data must be an object; received \[\]"),
        ("splits", [], r"splits must be an object; received \[\]"),
    ):
        path = tmp_path / "manifest.json"
        path.write_text(json.dumps(values | {name: value}))
        with pytest.raises(ValueError, match=f"^{path}: {message}"):
            manifest_lib.read_manifest(str(tmp_path))


def test_a_manifest_with_settings_named_as_before_is_read(data_dir, manifest, tmp_path):
    values = json.loads((data_dir / "manifest.json").read_text())
    values["data"]["ngram_law"] = values["data"].pop("ngram_distribution")
    values["text"]["invalid_utf8"] = "refuse"
    (tmp_path / "manifest.json").write_text(json.dumps(values))
    assert manifest_lib.read_manifest(str(tmp_path)) == manifest
    assert manifest.data["ngram_distribution"] == "shorter"
    assert manifest.text["invalid_utf8"] == "error"
