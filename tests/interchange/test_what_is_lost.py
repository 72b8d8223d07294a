"""What one format has and another lacks: said, and never answered with."""

import dataclasses
import json
import pathlib
import shutil

import pytest

from albert_tf import convert
from albert_tf.checkpoints import checkpoint_average, untrained
from albert_tf.core import config, config_io
from albert_tf.interchange import (
    conversion,
    hugging_face_weights,
    native,
    portable,
    tf1,
    weight_map,
)
from albert_tf.serving import export, load
from tests.support import binaries, fine_tuned, portable_models, small_run, small_task

OPTIONS = portable.ReadOptions()
ALL = ["encode", "fill_mask", "sentence_order", "score_tokens"]


@pytest.fixture(scope="module")
def model() -> portable.PortableModel:
    vocab = small_run.VOCAB.read_bytes()
    return dataclasses.replace(portable_models.draw(vocab_size=4000), vocab=vocab)


def write(
    name: str, model: portable.PortableModel, folder: pathlib.Path, *settings: str
) -> list[str]:
    report = weight_map.ConversionReport()
    folder.mkdir(exist_ok=True)
    recipe = config_io.override(config.Config(), settings)
    conversion.write(name, model, str(folder), recipe, report)
    return report.lines


def read(name: str, folder: pathlib.Path) -> portable.PortableModel:
    report = weight_map.ConversionReport()
    return conversion.READERS[name](str(folder), OPTIONS, report)


def signatures(folder: pathlib.Path) -> list[str]:
    return list(load.load_serving(str(folder))[0].signatures)


# ---- Untrained heads ----


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        (("encoder", "pooler", "masked_lm", "sentence_order"), ALL),
        (("encoder", "pooler", "masked_lm"), ["encode", "fill_mask", "score_tokens"]),
        (("encoder", "masked_lm", "sentence_order"), [ALL[0], ALL[1], ALL[3]]),
        (("encoder", "pooler"), ["encode"]),
    ],
)
def test_heads_that_a_format_lacks_answer_nothing(model, tmp_path, parts, expected):
    folder = tmp_path / "run"
    lines = write("run", model.keeping(parts, None), folder)
    assert signatures(folder) == expected
    is_whole = len(parts) == 4
    assert (folder / untrained.FILE).exists() == (not is_whole)
    assert any("Heads among them answer nothing" in line for line in lines) != is_whole
    # They are not taken for trained ones by the next format.
    assert read("run", folder).parts == parts


@pytest.mark.parametrize(
    ("export_run", "parts", "said"),
    [
        (export.export_encoder, ("encoder", "masked_lm"), "pooler"),
        (export.export_encoder, ("encoder", "pooler"), None),
        (export.export_tflite, ("encoder", "pooler"), "masked_lm, sentence_order"),
    ],
)
def test_untrained_parts_that_are_exported_are_named(
    model, tmp_path, capsys, export_run, parts, said
):
    write("run", model.keeping(parts, None), tmp_path / "run")
    export_run(str(tmp_path / "run"), str(tmp_path / "exported"))
    _, separator, named = capsys.readouterr().err.partition("not to be used: ")
    assert (named.splitlines()[0] if separator else None) == said


@pytest.mark.parametrize("pair_loss", ["none", "nsp"])
def test_sentence_order_that_was_not_learnt_is_not_answered(model, tmp_path, pair_loss):
    write("run", model, tmp_path / "run", f"data.pair_loss={pair_loss}")
    assert signatures(tmp_path / "run") == ["encode", "fill_mask", "score_tokens"]
    binaries.run(convert, f"--from=run:{tmp_path}/run", f"--to=hf:{tmp_path}/hf")
    values = json.loads((tmp_path / "hf" / "config.json").read_text())
    assert values["architectures"] == ["AlbertForMaskedLM"]


def test_the_card_of_an_encoder_alone_asks_no_head(model, tmp_path):
    write("hf", model.keeping(("encoder", "pooler"), None), tmp_path / "hf")
    binaries.run(convert, f"--from=hf:{tmp_path}/hf", f"--to=run:{tmp_path}/run")
    card = (tmp_path / "run" / "README.md").read_text()
    assert "pipeline_tag: feature-extraction" in card
    assert "model.embed(" in card and "fill_mask" not in card


def test_a_damaged_note_is_named(model, tmp_path):
    write("run", model.keeping(("encoder", "pooler"), None), tmp_path / "run")
    (tmp_path / "run" / untrained.FILE).write_text('{"untrained": ["encoder"]}')
    with pytest.raises(
        ValueError, match=f"{untrained.FILE} must have a list untrained"
    ):
        signatures(tmp_path / "run")


def test_the_average_of_checkpoints_keeps_the_note(model, tmp_path):
    parts = ("encoder", "pooler", "masked_lm")
    write("run", model.keeping(parts, None), tmp_path / "run")
    checkpoint_average.average(str(tmp_path / "run"), [0], str(tmp_path / "average"))
    assert read("run", tmp_path / "average").parts == parts


def test_training_all_parts_removes_the_note(model, tmp_path):
    write("run", model.keeping(("encoder", "pooler"), None), tmp_path / "run")
    untrained.forget(str(tmp_path / "run"))
    assert signatures(tmp_path / "run") == ALL
    untrained.forget(str(tmp_path / "run"))


# ---- Lower-casing ----


@pytest.mark.parametrize("name", ["tf1", "hf", "keras"])
@pytest.mark.parametrize("lower_case", [True, False])
def test_lower_casing_is_kept_or_asked_for(model, tmp_path, capsys, name, lower_case):
    cased = dataclasses.replace(model, lower_case=lower_case)
    lines = write(name, cased, tmp_path / name)
    back = read(name, tmp_path / name)
    assert back.lower_case == (lower_case if name == "hf" else None)
    if name == "tf1":
        is_said = any("that texts are not lower-cased" in line for line in lines)
        assert is_said != lower_case
    setting = f"--set=data.lower_case={str(lower_case).lower()}"
    command = f"--from={name}:{tmp_path / name}", f"--to=run:{tmp_path / 'run'}"
    if name == "hf":
        assert "Omit it" in binaries.error_of(capsys, convert, *command, setting)
        binaries.run(convert, *command)
    else:
        binaries.run(convert, *command, setting)
        said = capsys.readouterr().out
        assert f"data.lower_case={str(lower_case).lower()} is taken" in said
    found = config_io.read(str(tmp_path / "run" / "config.json"))
    assert found.data.lower_case is lower_case


# ---- The original ----


def test_what_the_original_keeps_in_flags_is_said(tmp_path):
    folder = fine_tuned.write(tmp_path / "run", "answerable_span")
    model = native.read(str(folder), OPTIONS, weight_map.ConversionReport())
    (line,) = [
        line
        for line in write("tf1", model, tmp_path / "tf1")
        if "the threshold of questions without an answer" in line
    ]
    for name, value in model.head.settings.items():
        assert f"{name}={value}" in line


def test_slots_of_a_fine_tuned_model_are_omitted(tmp_path):
    folder = fine_tuned.write(tmp_path / "run", "classification")
    model = native.read(str(folder), OPTIONS, weight_map.ConversionReport())
    zeros = {name: 0 * value for name, value in model.weights.items()}
    with_slots = dataclasses.replace(model, moments=portable.Moments(zeros, zeros))
    lines = write("run", with_slots, tmp_path / "again")
    assert any("omitted: the optimizer's slots" in line for line in lines)


def test_a_checkpoint_by_its_prefix_is_checked_too(tmp_path, capsys):
    run = small_task.write_pretrained(tmp_path / "run")
    binaries.run(convert, f"--from=run:{run}", f"--to=tf1:{tmp_path}/tf1")
    settings = tmp_path / "tf1" / tf1.CONFIG_FILE
    settings.write_text(settings.read_text().replace("gelu", "relu"))
    target = f"--to=run:{tmp_path}/back"
    for source in ("tf1", "tf1/model.ckpt"):
        error = binaries.error_of(
            capsys, convert, f"--from=tf1:{tmp_path}/{source}", target
        )
        assert f"{settings} is damaged or was replaced" in error


# ---- Hugging Face ----


@pytest.mark.parametrize(
    ("num_labels", "problem", "is_known"),
    [
        (3, None, True),
        (3, "single_label_classification", True),
        (3, "multi_label_classification", False),
        (3, "regression", False),
        (1, "regression", True),
        (1, "multi_label_classification", False),
    ],
)
def test_only_one_class_or_one_number_of_a_text(
    tmp_path, num_labels, problem, is_known
):
    labels = ("no", "perhaps", "yes")
    head = (
        portable.TaskHeadConfig("classification", labels)
        if num_labels == 3
        else portable.TaskHeadConfig("regression")
    )
    model = portable_models.draw(vocab_size=4000, head=head)
    folder = tmp_path / "hf"
    write("hf", dataclasses.replace(model, vocab=small_run.VOCAB.read_bytes()), folder)
    path = folder / "config.json"
    path.write_text(
        json.dumps(json.loads(path.read_text()) | {"problem_type": problem})
    )
    if is_known:
        assert read("hf", folder).head.kind == head.kind
    else:
        with pytest.raises(ValueError, match=f"problem_type .* received '{problem}'"):
            read("hf", folder)


def test_a_single_file_of_weights_comes_before_an_index(model, tmp_path):
    write("hf", model, tmp_path / "hf")
    single = tmp_path / "hf" / "model.safetensors"
    shard = "model-00001-of-00001.safetensors"
    shutil.copy(single, tmp_path / "hf" / shard)
    index = {"weight_map": {"albert.pooler.bias": shard}}
    (tmp_path / "hf" / "model.safetensors.index.json").write_text(json.dumps(index))
    assert hugging_face_weights.paths_in(str(tmp_path / "hf")) == [str(single)]
    single.unlink()
    assert hugging_face_weights.paths_in(str(tmp_path / "hf")) == [
        str(tmp_path / "hf" / shard)
    ]
