"""A model of another library, or an exported one, given as a run."""

import json

import pytest

import albert_tf
from albert_tf import (
    average_checkpoints,
    convert,
    export,
    finetune,
    predict,
    probe,
    serve,
)
from albert_tf.checkpoints import warm_start
from albert_tf.core import config as config_lib
from albert_tf.core import config_io, other_formats
from albert_tf.serving import load
from tests.support import binaries

# The files of a model, by what its error must say.
MODELS = {
    "hf": ("config.json", {"architectures": ["AlbertModel"], "model_type": "albert"}),
    "keras": ("config.json", {"class_name": "AlbertBackbone", "config": {}}),
    "tf1": ("albert_config.json", {"hidden_size": 768}),
    "albert_zh": ("albert_config_tiny.json", {"hidden_size": 312}),
}
TITLES = {
    "hf": "Hugging Face transformers",
    "keras": "KerasHub",
    "tf1": "ALBERT's authors",
    "albert_zh": "albert_zh",
}


def _write(folder, name):
    folder.mkdir()
    file, values = MODELS[name]
    (folder / file).write_text(json.dumps(values))
    for suffix in ("index", "data-00000-of-00001"):
        (folder / f"model.ckpt-best.{suffix}").touch()
    return folder


@pytest.mark.parametrize("name", MODELS)
def test_the_command_that_converts_it_is_named(tmp_path, name):
    folder = _write(tmp_path / "a model", name)
    expected = (
        f"{folder} holds a model of {TITLES[name]}, which must be converted to a run "
        f"first: python -m albert_tf.convert '--from={name}:{folder}' "
        "'--to=run:a model_run'. Then give a model_run"
    )
    for path in (folder, f"{folder}/", folder / "model.ckpt-best"):
        with pytest.raises(ValueError) as raised:
            other_formats.refuse(str(path))
        assert str(raised.value) == expected


@pytest.mark.parametrize("name", ["hf", "tf1"])
def test_each_command_names_it_before_tensorflow_is_needed(tmp_path, capsys, name):
    folder = _write(tmp_path / "model", name)
    pairs = tmp_path / "pairs.jsonl"
    pairs.write_text('{"sentence_good": "A", "sentence_bad": "B"}')
    new = tmp_path / "new"
    for module, *arguments in (
        (export, f"--model_dir={folder}", f"--output_dir={new}"),
        (
            *(finetune, f"--init_checkpoint={folder}", f"--model_dir={new}"),
            f"--data_dir={tmp_path}",
        ),
        (probe, f"--model={folder}", f"--suite={pairs}", f"--output_dir={new}"),
        (predict, f"--saved_model={folder}", "A text"),
        (serve, f"--saved_model={folder}"),
    ):
        said = binaries.error_of(capsys, module, *arguments)
        assert f"albert_tf.convert --from={name}:{folder} --to=run:model_run" in said


@pytest.mark.parametrize("file", ["saved_model.pb", "model.tflite"])
def test_an_exported_model_is_not_taken_for_a_run(tmp_path, capsys, file):
    folder, new = tmp_path / "run_model", tmp_path / "new"
    folder.mkdir()
    (folder / file).write_bytes(b"")
    if file == "model.tflite":  # beside a copy of the run's configuration
        (folder / "config.json").write_text(config_io.to_json(config_lib.Config()))
    message = (
        f"{folder} is an exported model; give the directory of the run that it was "
        "made from"
    )
    for module, *arguments in (
        (export, f"--model_dir={folder}", f"--output_dir={new}"),
        (
            *(finetune, f"--init_checkpoint={folder}", f"--model_dir={new}"),
            f"--data_dir={tmp_path}",
        ),
        (convert, f"--from=run:{folder}/", f"--to=hf:{new}"),
        (
            average_checkpoints,
            f"--model_dir={folder}",
            "--last=2",
            f"--output_dir={new}",
        ),
    ):
        assert binaries.error_of(capsys, module, *arguments) == message
    with pytest.raises(ValueError) as raised:
        warm_start.checkpoint_path(str(folder))
    assert str(raised.value) == message
    with pytest.raises(ValueError) as raised:
        load.read_run(str(folder))
    assert str(raised.value) == message
    with pytest.raises(ValueError) as raised:
        albert_tf.load_encoder(folder)
    assert str(raised.value) == message


def test_a_model_for_tensorflow_lite_is_not_probed(tmp_path, capsys):
    for name in ("config.json", "model.tflite"):
        (tmp_path / name).write_text("{}")
    pairs = tmp_path / "pairs.jsonl"
    pairs.write_text('{"sentence_good": "A", "sentence_bad": "B"}')
    new = tmp_path / "new"
    arguments = f"--model={tmp_path}", f"--suite={pairs}", f"--output_dir={new}"
    error = binaries.error_of(capsys, probe, *arguments)
    assert error.startswith(f"{tmp_path} is an exported model; give the directory")


def test_a_configuration_of_another_library_is_not_read_as_one_of_a_run(tmp_path):
    folder = _write(tmp_path / "model", "hf")
    with pytest.raises(ValueError, match="holds a model of Hugging Face transformers"):
        config_io.read(str(folder / "config.json"))


@pytest.mark.parametrize("content", [None, '{"model": {}}', "[]", "{"])
def test_a_run_and_what_is_nothing_known_pass(tmp_path, content, monkeypatch):
    _write(tmp_path / "model", "hf")
    folder = tmp_path / "other"
    folder.mkdir()
    if content is not None:
        (folder / "config.json").write_text(content)
    other_formats.refuse(str(folder))
    # A name that is no path is not looked for in the present directory.
    monkeypatch.chdir(tmp_path / "model")
    other_formats.refuse("absent")
