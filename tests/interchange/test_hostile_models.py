"""Models that ask for too much, and damaged weights: refused before they are built."""

import dataclasses
import json
import pathlib
import random
import shutil

import h5py
import numpy as np
import pytest

from albert_tf.core import config
from albert_tf.interchange import (
    conversion,
    keras_hub_files,
    portable,
    weight_files,
    weight_map,
)
from tests.support import hostile_json, portable_models, small_run

# What each format calls the sizes: layers, groups, inner blocks, hidden, vocabulary,
# intermediate, heads, positions.
_EXTERNAL = (
    *("num_hidden_layers", "num_hidden_groups", "inner_group_num", "hidden_size"),
    *("vocab_size", "intermediate_size", "num_attention_heads"),
    "max_position_embeddings",
)
_NATIVE = (
    *("num_layers", "num_groups", "num_inner_groups", "hidden_size", "vocab_size"),
    *("intermediate_size", "num_heads", "max_positions"),
)
_KERAS = (
    *("num_layers", "num_groups", "num_inner_repetitions", "hidden_dim"),
    *("vocabulary_size", "intermediate_dim", "num_heads", "max_sequence_length"),
)
FORMATS = {
    "run": ("config.json", "model", _NATIVE),
    "tf1": ("albert_config.json", None, _EXTERNAL),
    "hf": ("config.json", None, _EXTERNAL),
    "keras": ("config.json", "config", _KERAS),
}
# By the places of these names: sizes that no file here can hold, or no sense.
LITTLE = "a little wider"
DEMANDS = {
    "layers": {0: 2**31},
    "layers and groups": {0: 10**6, 1: 10**6},
    "more groups than layers": {1: 10**6},
    "inner blocks": {2: 2**31},
    "hidden size": {3: 3 * 2**20},
    LITTLE: {3: 120},
    "vocabulary": {4: 2**40},
    "intermediate size": {5: 2**40},
    "heads": {6: 2**31},
    "positions": {7: 2**40},
    "no layers": {0: 0},
}


@pytest.fixture(scope="module")
def models(tmp_path_factory) -> dict[str, pathlib.Path]:
    """A model in each format."""
    vocab = small_run.VOCAB.read_bytes()
    model = dataclasses.replace(portable_models.draw(vocab_size=4000), vocab=vocab)
    folders = {name: tmp_path_factory.mktemp(name) for name in FORMATS}
    for name, folder in folders.items():
        report = weight_map.ConversionReport()
        conversion.write(name, model, str(folder), config.Config(), report)
    return folders


def _read(name: str, folder: pathlib.Path) -> portable.PortableModel:
    options, report = portable.ReadOptions(), weight_map.ConversionReport()
    return conversion.READERS[name](str(folder), options, report)


@pytest.mark.parametrize("demand", list(DEMANDS))
@pytest.mark.parametrize("name", list(FORMATS))
def test_a_configuration_of_another_size_is_refused_at_once(
    models, tmp_path, monkeypatch, name, demand
):
    if demand != LITTLE:  # which a run only shows when it is restored
        model = conversion.native.pretraining_model
        monkeypatch.setattr(model, "build_pretraining_model", _not_called)
    monkeypatch.setattr(conversion.keras_hub, "_backbone", _not_called)
    folder = tmp_path / name
    shutil.copytree(models[name], folder)
    file_name, section, names = FORMATS[name]
    path = folder / file_name
    values = json.loads(path.read_text())
    changed = values[section] if section else values
    changed.update({names[place]: size for place, size in DEMANDS[demand].items()})
    path.write_text(json.dumps(values))
    hostile_json.assert_refused(lambda: _read(name, folder), str(folder))


def _not_called(*_, **__):
    raise AssertionError("a network is built")


def test_the_sizes_are_said(models, tmp_path):
    shutil.copytree(models["hf"], tmp_path / "hf")
    path = tmp_path / "hf" / "config.json"
    path.write_text(
        json.dumps(json.loads(path.read_text()) | {"hidden_size": 3 * 2**20})
    )
    with pytest.raises(ValueError) as info:
        _read("hf", tmp_path / "hf")
    hidden = 3 * 2**20
    num_weights = 4000 * 6 + 16 * 6 + 2 * 6 + 2 * 6 + 6 * hidden + hidden
    num_weights += 4 * (hidden * hidden + hidden) + 2 * hidden
    num_weights += 2 * 20 * hidden + 20 + hidden + 2 * hidden
    size = (tmp_path / "hf" / "model.safetensors").stat().st_size
    assert str(info.value) == (
        f"{path} describes an encoder of {num_weights:,} weights, which need "
        f"{2 * num_weights:,} bytes or more; {tmp_path}/hf/model.safetensors holds "
        f"{size:,}. Give the configuration that belongs to the weights, or copy them "
        "again"
    )


def test_arrays_must_fit_into_their_file():
    weight_files.require_stored([((3, 5), 4), ((), 8)], "FILE", 68)
    with pytest.raises(ValueError, match="FILE .* need 68 bytes, and there are 67"):
        weight_files.require_stored([((3, 5), 4), ((), 8)], "FILE", 67)
    found = {(3, 5): 1, (): 2}
    assert weight_files.lacking([(3, 5), (), ()], found) == []
    assert weight_files.lacking([[3, 5], [3, 5], [7]], found) == [(3, 5), (7,)]


# ---- HDF5 ----

H5_DAMAGE = {
    "empty": lambda content: b"",
    "garbage": lambda content: random.Random(1).randbytes(5000),
    "a signature only": lambda content: content[:8],
    "garbage after the signature": lambda content: (
        content[:8] + random.Random(2).randbytes(5000)
    ),
    "cut off": lambda content: content[: len(content) // 2],
    "its start lost": lambda content: b"\0" * 512 + content[512:],
}


@pytest.mark.parametrize("damage", list(H5_DAMAGE))
@pytest.mark.parametrize("file_name", ["model.weights.h5", "task.weights.h5"])
def test_damaged_hdf5_is_named(models, tmp_path, monkeypatch, file_name, damage):
    monkeypatch.setattr(conversion.keras_hub, "_backbone", _not_called)
    folder = tmp_path / "keras"
    shutil.copytree(models["keras"], folder)
    path = folder / file_name
    path.write_bytes(H5_DAMAGE[damage](path.read_bytes()))
    hostile_json.assert_refused(lambda: _read("keras", folder), str(folder))


def test_damaged_bytes_of_hdf5_are_read_or_named(models, tmp_path):
    content = (models["keras"] / "task.weights.h5").read_bytes()
    path = tmp_path / "task.weights.h5"
    rng = random.Random(3)
    for _ in range(300):
        damaged = bytearray(content)
        for _ in range(rng.randint(1, 8)):
            # Most of what HDF5 reads itself is at the start.
            place = int(len(content) * rng.random() ** 3)
            damaged[place] = rng.randrange(256)
        path.write_bytes(damaged)
        hostile_json.assert_read_or_refused(
            lambda: keras_hub_files.require_arrays([str(path)], [(12, 6)]), str(path)
        )


def test_an_array_that_is_only_claimed_is_refused(tmp_path):
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("vars/0", (2**20, 2**20), np.float32, chunks=(1, 1024))
        file["vars/1"] = np.zeros([3])
    with pytest.raises(ValueError, match="arrays need 4,398,046,511,128 bytes"):
        keras_hub_files.require_arrays([str(path)], [(3,)])


def test_an_array_that_is_missing_is_said(models):
    path = str(models["keras"] / "task.weights.h5")
    with pytest.raises(ValueError, match=r"2 are missing, such as .* shape \[7, 9\]"):
        keras_hub_files.require_arrays([path], [(12, 6), (7, 9), (7, 9)])


def test_a_classifier_of_senseless_size_is_refused(models, tmp_path):
    folder = tmp_path / "keras"
    shutil.copytree(models["keras"], folder)
    (folder / "task.json").write_text(
        '{"class_name": "AlbertTextClassifier", "config": {"num_classes": 2147483648}}'
    )
    hostile_json.assert_refused(lambda: _read("keras", folder), str(folder))


def test_a_checkpoint_that_claims_more_than_it_holds_is_refused(models, tmp_path):
    folder = tmp_path / "tf1"
    shutil.copytree(models["tf1"], folder)
    data = folder / "model.ckpt.data-00000-of-00001"
    data.write_bytes(data.read_bytes()[:-1])
    hostile_json.assert_refused(lambda: _read("tf1", folder), str(folder))


def test_a_damaged_list_of_checkpoints_is_named(models, tmp_path):
    folder = tmp_path / "tf1"
    shutil.copytree(models["tf1"], folder)
    (folder / "checkpoint").write_bytes(b'model_checkpoint_path: "model.c\xebpt"\n')
    with pytest.raises(ValueError, match="/checkpoint, which names .* cannot be read"):
        _read("tf1", folder)
