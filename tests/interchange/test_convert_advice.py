"""What convert says of models and flags that it cannot take, and what it keeps."""

import dataclasses
import itertools
import json
import pathlib
import shlex
import shutil

import numpy as np
import pytest

from albert_tf import convert
from albert_tf.core import config
from albert_tf.interchange import (
    conversion,
    formats,
    io,
    native,
    portable,
    tf1_weights,
    tokenizer_json,
    weight_map,
)
from tests.support import binaries, portable_models, small_run

OPTIONS = portable.ReadOptions()
HEAD = portable.TaskHeadConfig("classification", ("no", "perhaps", "yes"))


@pytest.fixture(scope="module")
def model() -> portable.PortableModel:
    """Weights only, as published models are."""
    vocab = small_run.VOCAB.read_bytes()
    return dataclasses.replace(portable_models.draw(vocab_size=4000), vocab=vocab)


@pytest.fixture(scope="module")
def models(model, tmp_path_factory) -> dict[str, pathlib.Path]:
    """The model in each format."""
    folders = {name: tmp_path_factory.mktemp(name) for name in ("run", "tf1", "hf")}
    for name, folder in folders.items():
        _write(name, model, folder)
    return folders


def _write(name: str, model: portable.PortableModel, folder: pathlib.Path) -> list[str]:
    report = weight_map.ConversionReport()
    folder.mkdir(exist_ok=True)
    conversion.write(name, model, str(folder), config.Config(), report)
    return report.lines


def _read(name: str, folder: pathlib.Path, **given) -> portable.PortableModel:
    options, report = portable.ReadOptions(**given), weight_map.ConversionReport()
    return conversion.READERS[name](str(folder), options, report)


def _copy(folder: pathlib.Path, target: pathlib.Path, *without: str) -> pathlib.Path:
    shutil.copytree(folder, target, ignore=shutil.ignore_patterns(*without))
    return target


# ---- Slots ----


def test_weights_only_come_back_as_weights_only(models, tmp_path):
    back = native.read(str(models["run"]), OPTIONS, weight_map.ConversionReport())
    assert back.moments is None
    _write("tf1", back, tmp_path / "tf1")
    found = tf1_weights.read_variables(str(tmp_path / "tf1" / "model.ckpt"))
    before = tf1_weights.read_variables(str(models["tf1"] / "model.ckpt"))
    assert set(found) == set(before)
    assert not [name for name in found if name.endswith(("adam_m", "adam_v"))]


def test_a_run_of_weights_only_says_what_it_is_for(model, tmp_path):
    cased = dataclasses.replace(model, lower_case=True)
    lines = _write("run", cased, tmp_path / "run")
    assert lines == [
        "  weights only, without an optimizer's slots: other runs start from them by "
        "--init_checkpoint; as --model_dir this one cannot be resumed"
    ]


# ---- Vocabularies ----


def test_the_vocabulary_that_is_given_is_taken_where_two_lie(models, model, tmp_path):
    folder = _copy(models["tf1"], tmp_path / "tf1")
    (folder / "another.model").write_bytes(b"not this one")
    with pytest.raises(
        ValueError, match="another.model, spiece.*or pass --vocab_model="
    ):
        _read("tf1", folder)
    assert _read("tf1", folder, vocab_path=str(small_run.VOCAB)).vocab == model.vocab


@pytest.mark.parametrize("name", ["hf", "tf1"])
def test_a_missing_vocabulary_is_named(model, tmp_path, name):
    lines = _write(name, dataclasses.replace(model, vocab=None), tmp_path / name)
    assert (
        "  no spiece.model, since the model has no vocabulary: pass "
        "--vocab_model=FILE, or copy the one that it was trained with"
    ) in lines


@pytest.mark.parametrize("name", ["run", "keras"])
def test_what_needs_a_vocabulary_is_not_written_without(model, tmp_path, name):
    with pytest.raises(
        ValueError, match="needs the vocabulary of its model, .*--vocab"
    ):
        _write(name, dataclasses.replace(model, vocab=None), tmp_path / name)


def test_no_one_is_told_to_train_another_vocabulary(tmp_path):
    """With another vocabulary the weights of a model are of no use."""
    path = tmp_path / "spiece.model"
    path.write_bytes(b"damaged")
    with pytest.raises(ValueError) as info:
        io.read_vocab(str(path), 4000)
    assert str(info.value) == f"{path}: not a SentencePiece model"
    proto = tokenizer_json.sentencepiece_model_pb2.ModelProto()
    proto.ParseFromString(small_run.VOCAB.read_bytes())
    proto.trainer_spec.model_type = proto.trainer_spec.BPE
    with pytest.raises(ValueError, match="must be a unigram model") as info:
        tokenizer_json.build(proto.SerializeToString(), True)
    assert "train_vocab" not in str(info.value)


# ---- Files and keys ----


def _change(folder: pathlib.Path, name: str, **changes) -> None:
    path = folder / name
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"num_attention_heads": 5},
            "hidden_size must be a multiple of num_attention_heads; received (12, 5)",
        ),
        (
            {"num_hidden_groups": 5},
            "num_hidden_groups must be from 1 to num_hidden_layers; received 5 and 4",
        ),
        (
            {"num_hidden_layers": 2000},
            "num_hidden_layers must be at most 1,024; received 2,000",
        ),
        (
            {"hidden_dropout_prob": 1.5},
            "hidden_dropout_prob must lie in [0, 1); received 1.5",
        ),
    ],
)
@pytest.mark.parametrize(("name", "file"), [("hf", "config"), ("tf1", "albert_config")])
def test_a_wrong_size_is_named_by_its_file_and_key(
    models, tmp_path, name, file, changes, message
):
    folder = _copy(models[name], tmp_path / name)
    _change(folder, f"{file}.json", **changes)
    with pytest.raises(ValueError) as info:
        _read(name, folder)
    assert str(info.value) == f"{folder}/{file}.json: {message}"


def test_labels_of_another_number_are_named_with_the_model(tmp_path):
    folder = tmp_path / "tf1"
    _write("tf1", portable_models.draw(head=HEAD, vocab_size=4000), folder)
    with pytest.raises(ValueError) as info:
        _read("tf1", folder, labels=("no", "yes"))
    assert str(info.value) == (
        f"--labels must name each class of the head of {folder}/model.ckpt, 3 in "
        "order; received no, yes"
    )


# ---- Models of another kind ----


def _variables(folder: pathlib.Path, *names: str) -> pathlib.Path:
    folder.mkdir()
    values = {name: np.zeros([2], np.float32) for name in names}
    tf1_weights.save_variables(str(folder / "model.ckpt"), values)
    return folder


def test_a_checkpoint_of_albert_zh_as_tf1_is_told(tmp_path):
    layer = "bert/encoder/layer_shared/attention/self/query/kernel"
    folder = _variables(tmp_path / "zh", "bert/embeddings/word_embeddings_2", layer)
    with pytest.raises(ValueError) as info:
        _read("tf1", folder)
    assert str(info.value) == (
        f"{folder}/model.ckpt must hold variables with the names of ALBERT's authors; "
        "it holds bert/encoder/layer_shared/..., as does brightmart's albert_zh. Pass "
        f"--from=albert_zh:{folder}"
    )


def test_a_checkpoint_of_bert_as_tf1_is_told(tmp_path):
    folder = _variables(tmp_path / "bert", "bert/encoder/layer_0/output/dense/bias")
    with pytest.raises(ValueError, match="as does BERT, which is not converted"):
        _read("tf1", folder)


def test_a_run_as_tf1_is_told(models):
    with pytest.raises(ValueError, match=f"Pass --from=run:{models['run']}"):
        _read("tf1", models["run"])


@pytest.fixture(scope="module")
def of_each_format(models, model, tmp_path_factory) -> dict[str, pathlib.Path]:
    """Directories that each look like one format of models to read."""
    folder = tmp_path_factory.mktemp("formats")
    keras = folder / "of keras"
    _write("keras", model, keras)
    zh = _copy(models["tf1"], folder / "zh")
    (zh / "albert_config.json").rename(zh / "albert_config_tiny.json")
    return {**models, "keras": keras, "albert_zh": zh}


_LOOKS = {
    "run": "a run",
    "tf1": "a model of ALBERT's authors",
    "albert_zh": "a model of albert_zh",
    "hf": "a model of Hugging Face transformers",
    "keras": "a model of KerasHub",
}


@pytest.mark.parametrize(
    ("given", "found"),
    [
        pair
        for pair in itertools.permutations(formats.READ, 2)
        if set(pair) != {"tf1", "albert_zh"}  # told apart by their variables
    ],
)
def test_a_model_of_another_format_is_told(
    of_each_format, tmp_path, capsys, given, found
):
    folder, target = of_each_format[found], tmp_path / "target"
    # There is no conversion from a run to a run.
    to = "tf1" if given == "run" else "run"
    error = binaries.error_of(
        capsys, convert, f"--from={given}:{folder}/", f"--to={to}:{target}"
    )
    place = f"{folder}/" if found in ("tf1", "albert_zh") else f"{folder}"
    assert error == (
        f"--from has the format {given}, and {folder} looks like {_LOOKS[found]}: pass "
        + shlex.quote(f"--from={found}:{place}")
    )
    assert not target.exists()


def test_the_prefix_of_a_checkpoint_and_seeds_of_a_run_are_recognized(
    of_each_format, tmp_path
):
    prefix = of_each_format["tf1"] / "model.ckpt"
    with pytest.raises(ValueError, match=f"pass --from=tf1:{prefix}$"):
        formats.locate(f"hf:{prefix}", f"run:{tmp_path / 'new'}")
    (tmp_path / "seeds.json").write_text("{}")
    with pytest.raises(ValueError, match=f"pass --from=run:{tmp_path}$"):
        formats.locate(f"hf:{tmp_path}", f"run:{tmp_path / 'new'}")


@pytest.mark.parametrize("name", formats.READ)
def test_a_model_of_the_named_format_is_taken(of_each_format, tmp_path, name):
    folder = of_each_format[name]
    to = "tf1" if name == "run" else "run"
    found, _ = formats.locate(f"{name}:{folder}", f"{to}:{tmp_path / 'new'}")
    assert found == (name, str(folder))


@pytest.mark.parametrize("name", ["tf1", "albert_zh"])
def test_a_checkpoint_beside_files_of_another_library_is_taken(
    of_each_format, tmp_path, name
):
    folder = _copy(of_each_format[name], tmp_path / "both")
    shutil.copy(of_each_format["hf"] / "config.json", folder)
    formats.locate(f"{name}:{folder}", f"run:{tmp_path / 'new'}")


@pytest.mark.parametrize("name", ["hf", "tf1"])
def test_a_configuration_of_another_name_is_pointed_at(models, tmp_path, name):
    expected = {"hf": "config.json", "tf1": "albert_config.json"}[name]
    folder = _copy(models[name], tmp_path / name, "token*")
    (folder / expected).rename(folder / "albert_config_base.json")
    with pytest.raises(ValueError) as info:
        _read(name, folder)
    assert str(info.value) == (
        f"there is no {folder}/{expected}; a model of this format has one. If "
        f"albert_config_base.json there is that file, rename it to {expected}"
    )


def test_a_missing_index_of_a_checkpoint_is_told(models, tmp_path):
    folder = _copy(models["tf1"], tmp_path / "tf1", "*.index", "checkpoint")
    with pytest.raises(ValueError) as info:
        _read("tf1", folder)
    assert str(info.value) == (
        f"{folder} must hold a TensorFlow checkpoint, files of one prefix; it holds no "
        ".index file, though it holds model.ckpt.data-00000-of-00001: copy both"
    )


@pytest.mark.parametrize(
    ("file", "message"),
    [
        ("tf_model.h5", "It holds tf_model.h5, weights of TensorFlow: open them in tr"),
        ("flax_model.msgpack", "It holds flax_model.msgpack, weights of Flax"),
        ("pytorch_model.bin", "It holds pytorch_model.bin, a pickle"),
        ("model-00002-of-00003.safetensors", "copy model.safetensors.index.json and"),
    ],
)
def test_weights_that_are_not_read_are_told_with_a_remedy(
    models, tmp_path, file, message
):
    folder = _copy(models["hf"], tmp_path / "hf")
    (folder / "model.safetensors").rename(folder / file)
    with pytest.raises(ValueError, match=f"there is no {folder}.*{message}"):
        _read("hf", folder)


# ---- Flags, and what a failure leaves ----


@pytest.mark.parametrize(
    ("target", "flags", "message"),
    [
        ("run", ["--set=model.num_layers=2"], "received model.num_layers=2, which is"),
        ("run", ["--set=data.lower_case=false"], "lower_case=false, which is that of"),
        ("tf1", ["--set=train.batch_size=8"], "settings of a new run, --to=run:DIR"),
        ("tf1", ["--config=configs/small.py"], "settings of a new run, --to=run:DIR"),
        ("run", ["--config=configs/finetune_table.py"], "--config has 'table'"),
    ],
)
def test_settings_of_which_nothing_would_come_are_refused(
    models, tmp_path, capsys, target, flags, message
):
    places = f"--from=hf:{models['hf']}", f"--to={target}:{tmp_path}/new/there"
    assert message in binaries.error_of(capsys, convert, *places, *flags)
    assert list(tmp_path.iterdir()) == []


def test_a_failure_leaves_no_new_parents(models, tmp_path):
    folder = _copy(models["hf"], tmp_path / "hf", "spiece.model")
    with pytest.raises(ValueError, match="needs the vocabulary"):
        conversion.convert(f"hf:{folder}", f"run:{tmp_path}/new/parents/run", OPTIONS)
    assert [path.name for path in tmp_path.iterdir()] == ["hf"]
