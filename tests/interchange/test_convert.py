"""Models of other formats: read, written, and the same numbers afterwards."""

import dataclasses
import io
import json
import pathlib
import re
import shutil

import numpy as np
import pytest
import safetensors.numpy
import sentencepiece
import tensorflow as tf

from albert_tf import convert
from albert_tf.core import config, config_io
from albert_tf.interchange import (
    albert_zh,
    conversion,
    hugging_face,
    hugging_face_config,
    keras_hub,
    layer_groups,
    native,
    portable,
    tf1,
    tf1_weights,
    weight_map,
)
from albert_tf.tokenization import tokenizer as tokenizer_lib
from albert_tf.training import pretraining
from tests.support import (
    binaries,
    fine_tuned,
    golden,
    portable_models,
    small_run,
    small_task,
)
from tests.support import training_processes as processes

TOLERANCE = 1e-5  # largest absolute difference, float32
# Formats that are both read and written, and how layers fall into groups there.
OTHERS = {
    "tf1": layer_groups.by_scaling,
    "hf": layer_groups.by_division,
    "keras": layer_groups.by_equal_parts,
}
OPTIONS = portable.ReadOptions()
RECIPE = config.Config()
GOLDEN_STRINGS = "tokenization_spm_small"


@pytest.fixture(scope="module")
def vocab(tmp_path_factory) -> pathlib.Path:
    """A SentencePiece model of 100 pieces."""
    model = io.BytesIO()
    corpus = tmp_path_factory.mktemp("vocab") / "corpus.txt"
    small_run.write_corpus(corpus)
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(corpus.read_text().lower().split("\n")),
        model_writer=model,
        vocab_size=100,
        pad_id=0,
        unk_id=1,
        bos_id=-1,
        eos_id=-1,
        control_symbols=["[CLS]", "[SEP]", "[MASK]"],
        pad_piece="<pad>",
        minloglevel=2,
    )
    path = corpus.with_name("vocab.model")
    path.write_bytes(model.getvalue())
    return path


def assert_close(found, expected):
    assert set(found) >= set(expected)
    for name, value in expected.items():
        assert found[name].shape == value.shape
        assert np.max(np.abs(found[name] - value)) < TOLERANCE, name


def convert_quietly(source, target, **options) -> list[str]:
    given = portable.ReadOptions(**options)
    return conversion.convert(source, target, given, list_weights=True)


# ---- The original ----


@pytest.mark.parametrize("name", ["g1", "g2"])
def test_a_checkpoint_of_the_original_gives_its_outputs(
    testdata, vocab, tmp_path, name
):
    lines = convert_quietly(
        f"tf1:{testdata / f'tf1_{name}'}",
        f"run:{tmp_path / 'run'}",
        vocab_path=str(vocab),
    )
    model = native.read(str(tmp_path / "run"), OPTIONS, weight_map.ConversionReport())
    arrays = golden.load(f"model_{name}")
    found = portable_models.network_of(model)(golden.features(arrays))
    for value, expected in (
        (found.encoder.sequence_output, "out/sequence_output"),
        (found.encoder.pooled_output, "out/pooled_output"),
        (tf.reshape(found.mlm.logits, [-1, 100]), "out/mlm_logits"),
        (found.pair_logits, "out/sop_logits"),
    ):
        golden.assert_near(value, arrays[expected], TOLERANCE, expected)
    moved = (
        "  cls/seq_relationship/output_weights -> "
        "sentence_order/output_projection/kernel [2, 16], transposed"
    )
    assert moved in lines


@pytest.mark.parametrize("name", ["g1", "g2"])
def test_what_is_written_is_the_original_checkpoint(testdata, tmp_path, name):
    source = testdata / f"tf1_{name}"
    model = tf1.read(str(source), OPTIONS, weight_map.ConversionReport())
    (tmp_path / "there").mkdir()
    tf1.write(model, str(tmp_path / "there"), weight_map.ConversionReport())
    before = tf1_weights.read_variables(str(source / "model.ckpt"))
    after = tf1_weights.read_variables(str(tmp_path / "there" / "model.ckpt"))
    assert after.pop("global_step") == 0
    assert set(after) == set(before)
    for key, value in before.items():
        assert after[key].tobytes() == value.tobytes()
    config_before = json.loads((source / "albert_config.json").read_text())
    config_after = json.loads((tmp_path / "there" / "albert_config.json").read_text())
    assert config_after == config_before


def test_slots_and_step_of_the_original_come_along(tmp_path, vocab):
    model = portable_models.draw()
    rng = np.random.default_rng(9)
    slots = [
        {n: rng.random(v.shape, np.float32) for n, v in model.weights.items()}
        for _ in range(2)
    ]
    model = dataclasses.replace(
        model, moments=portable.Moments(*slots), step=23, vocab=vocab.read_bytes()
    )
    (tmp_path / "tf1").mkdir()
    tf1.write(model, str(tmp_path / "tf1"), weight_map.ConversionReport())
    stored = tf1_weights.read_variables(str(tmp_path / "tf1" / "model.ckpt"))
    assert stored["global_step"] == 23
    assert "bert/pooler/dense/kernel/adam_m" in stored
    convert_quietly(f"tf1:{tmp_path / 'tf1'}", f"run:{tmp_path / 'run'}")
    found = native.read(str(tmp_path / "run"), OPTIONS, weight_map.ConversionReport())
    assert found.step == 23
    for moments, expected in zip(
        (found.moments.first, found.moments.second), slots, strict=True
    ):
        for name, value in expected.items():
            np.testing.assert_array_equal(moments[name], value, name)


def test_pretraining_resumes_from_the_originals_format(tmp_path):
    """A run that was written as TF1 and read back resumes as if unchanged."""
    records = str(small_run.write_records(tmp_path / "data"))
    whole, first, back = (tmp_path / name for name in ("whole", "first", "back"))
    pretraining.train(small_run.small_config(), records, str(whole))
    shutil.copytree(whole, first, ignore=shutil.ignore_patterns("model.ckpt-12*"))
    (first / "checkpoint").write_text('model_checkpoint_path: "model.ckpt-6"\n')
    convert_quietly(f"run:{first}", f"tf1:{tmp_path / 'tf1'}")
    convert_quietly(
        f"tf1:{tmp_path / 'tf1'}",
        f"run:{back}",
        recipe=config_io.load(str(first / "config.json")),
    )
    assert processes.newest_step(back) == 6
    pretraining.train(small_run.small_config(), records, str(back))
    found = [
        native.read(str(folder), OPTIONS, weight_map.ConversionReport())
        for folder in (whole, back)
    ]
    assert found[0].step == found[1].step == 12
    for name, value in found[0].weights.items():
        np.testing.assert_array_equal(found[1].weights[name], value, name)
        np.testing.assert_array_equal(
            found[1].moments.second[name], found[0].moments.second[name], name
        )


# ---- Round trips ----


@pytest.mark.parametrize("sharing", list(portable_models.SHARINGS))
@pytest.mark.parametrize("name", list(OTHERS))
def test_a_round_trip_changes_no_bit(tmp_path, vocab, name, sharing):
    model = dataclasses.replace(portable_models.draw(sharing), vocab=vocab.read_bytes())
    report = weight_map.ConversionReport()
    conversion.write(name, model, str(tmp_path), RECIPE, report)
    back = conversion.READERS[name](str(tmp_path), OPTIONS, report)
    assert back.vocab == model.vocab
    expected = dict(model.weights)
    if name == "keras":  # it has no sentence order
        assert "  no counterpart, omitted: sentence_order" in report.lines
        expected = {n: v for n, v in expected.items() if "sentence_order" not in n}
    # KerasHub keeps no range, which only drawing needs.
    kept = dataclasses.replace(back.config, initializer_range=0.3)
    if kept == model.config:
        assert set(back.weights) == set(expected)
        for key, value in expected.items():
            assert back.weights[key].tobytes() == value.tobytes(), key
        return
    # More weights than before, and the same outputs from them.
    assert back.config.sharing == "none"
    assert any("each layer gets a copy" in line for line in report.lines)
    merged = {**dict(model.weights), **back.weights}
    found = portable_models.outputs_of(dataclasses.replace(back, weights=merged))
    for key, value in portable_models.outputs_of(model).items():
        np.testing.assert_array_equal(found[key], value, key)


@pytest.mark.parametrize("sharing", list(portable_models.SHARINGS))
@pytest.mark.parametrize("name", list(OTHERS))
def test_only_what_groups_cannot_share_is_copied(sharing, name):
    settings = portable_models.draw(sharing).config
    layout = layer_groups.of_config(settings, OTHERS[name], name)
    is_copied = sharing in ("attention", "feed_forward")
    is_copied = is_copied or (sharing == "uneven" and name == "keras")
    assert bool(layout.copied) == is_copied
    every = settings.num_layers if is_copied or "none" in settings.sharing else None
    assert layout.num_groups == (every or settings.num_groups)


def test_a_division_that_rounds_otherwise_is_refused():
    """49 layers in 49 groups: the original gives layer 1 the block of layer 0."""
    assert [layer_groups.by_scaling(layer, 49, 49) for layer in range(3)] == [0, 0, 1]
    with pytest.raises(ValueError, match="49 groups of 49 layers"):
        layer_groups.sharing_settings(
            49, 49, layer_groups.by_scaling, "albert_config.json", {}
        )
    settings = config.ModelConfig(
        **{**portable_models.SIZES, "num_layers": 49, "sharing": "none"}
    )
    with pytest.raises(ValueError, match="the original divides 49 layers"):
        layer_groups.of_config(settings, layer_groups.by_scaling, "the original")


@pytest.mark.parametrize("kind", list(fine_tuned.KINDS))
@pytest.mark.parametrize("name", list(OTHERS))
def test_heads_of_tasks_come_back(tmp_path, kind, name):
    folder = fine_tuned.write(tmp_path / "run", kind)
    model = native.read(str(folder), OPTIONS, weight_map.ConversionReport())
    has_head = (
        kind
        in {
            "tf1": ("classification", "regression", "span", "answerable_span")
            + ("multiple_choice",),
            "hf": tuple(hugging_face_config.CLASSES),
            "keras": ("classification", "regression"),
        }[name]
    )
    if name == "tf1" and not has_head:
        with pytest.raises(ValueError, match="has no head for tokens"):
            convert_quietly(f"run:{folder}", f"tf1:{tmp_path / 'there'}")
        assert not (tmp_path / "there").exists()
        return
    lines = convert_quietly(f"run:{folder}", f"{name}:{tmp_path / 'there'}")
    if not has_head:
        lost = [line for line in lines if f"omitted: the head {kind} with" in line]
        assert len(lost) == 1 and "head/" in lost[0]
        return
    options = {"kind": kind} if kind in ("regression", "multiple_choice") else {}
    if model.head.labels and name != "hf":
        options["labels"] = model.head.labels
    convert_quietly(f"{name}:{tmp_path / 'there'}", f"run:{tmp_path / 'b'}", **options)
    back = native.read(str(tmp_path / "b"), OPTIONS, weight_map.ConversionReport())
    assert back.head.kind == kind
    assert back.head.labels == model.head.labels
    for key, value in model.weights.items():
        if key.startswith("encoder/pooler/") and name == "hf" and key not in lines:
            continue
        assert back.weights[key].tobytes() == value.tobytes(), key


# ---- KerasHub ----


def test_keras_hub_computes_the_same(tmp_path, vocab):
    import keras_hub as library

    model = dataclasses.replace(
        portable_models.draw("groups"), vocab=vocab.read_bytes()
    )
    keras_hub.write(model, str(tmp_path), weight_map.ConversionReport())
    theirs = library.models.AlbertMaskedLM.from_preset(str(tmp_path), preprocessor=None)
    features = portable_models.batch(model.config)
    inputs = {
        "token_ids": features["input_ids"],
        "segment_ids": features["segment_ids"],
        "padding_mask": features["input_mask"],
    }
    encoded = theirs.backbone.predict(inputs, verbose=0)
    expected = portable_models.outputs_of(model)
    del expected["pair_logits"]
    # Their masked LM's layer norm adds 1e-5 where ALBERT adds 1e-12.
    network = portable_models.network_of(model)
    network.masked_lm.layer_norm.epsilon = 1e-5
    expected["mlm_logits"] = network(features).mlm.logits.numpy()
    found = {
        "sequence_output": encoded["sequence_output"],
        "pooled_output": encoded["pooled_output"],
        "mlm_logits": theirs.predict(
            {**inputs, "mask_positions": features["masked_lm_positions"]}, verbose=0
        ),
    }
    assert_close(found, expected)


def test_keras_hub_cuts_normalized_texts_the_same(tmp_path):
    import keras_hub as library

    model = dataclasses.replace(
        portable_models.draw(vocab_size=4000), vocab=small_run.VOCAB.read_bytes()
    )
    keras_hub.write(model, str(tmp_path), weight_map.ConversionReport())
    theirs = library.models.AlbertTokenizer.from_preset(str(tmp_path))
    tokenizer = tokenizer_lib.Tokenizer(model.vocab)
    rows = json.loads(small_run.VOCAB.with_name(f"{GOLDEN_STRINGS}.json").read_text())
    texts = [row["text"] for row in rows["rows"]]
    differing = []
    for text in texts:
        found = np.asarray(theirs(tokenizer_lib.normalize(text))).tolist()
        if found != tokenizer.encode(text):
            differing.append(text)
    # It does not cut "1990," again so that the comma stands alone; and "1٬000" and such
    # end in a tie of "0 00" and "00 0".
    assert [t for t in differing if not re.search(r"\d,|\D000$", t)] == []
    assert len(differing) < len(texts) / 10


# ---- albert_zh ----


def _write_zh(folder: pathlib.Path, **settings) -> dict[str, np.ndarray]:
    """A synthetic checkpoint with the names of brightmart's code."""
    rng = np.random.default_rng(2)
    vocab_size, embedding, hidden, inner = 100, 5, 12, 20
    layer = "bert/encoder/layer_shared"
    shapes = {
        "bert/embeddings/word_embeddings": [vocab_size, embedding],
        "bert/embeddings/word_embeddings_2": [embedding, hidden],
        "bert/embeddings/token_type_embeddings": [2, hidden],
        "bert/embeddings/position_embeddings": [16, hidden],
        "bert/embeddings/LayerNorm/gamma": [hidden],
        "bert/embeddings/LayerNorm/beta": [hidden],
        "bert/pooler/dense/kernel": [hidden, hidden],
        "bert/pooler/dense/bias": [hidden],
        "cls/predictions/transform/dense/kernel": [hidden, hidden],
        "cls/predictions/transform/dense/bias": [hidden],
        "cls/predictions/transform/LayerNorm/gamma": [hidden],
        "cls/predictions/transform/LayerNorm/beta": [hidden],
        "cls/predictions/output_bias": [vocab_size],
        "cls/seq_relationship/output_weights": [2, hidden],
        "cls/seq_relationship/output_bias": [2],
        f"{layer}/intermediate/dense/kernel": [hidden, inner],
        f"{layer}/intermediate/dense/bias": [inner],
        f"{layer}/output/dense/kernel": [inner, hidden],
    }
    for name in ("self/query", "self/key", "self/value", "output/dense"):
        shapes[f"{layer}/attention/{name}/kernel"] = [hidden, hidden]
        shapes[f"{layer}/attention/{name}/bias"] = [hidden]
    for name in ("attention/output/LayerNorm/gamma", "attention/output/LayerNorm/beta"):
        shapes[f"{layer}/{name}"] = [hidden]
    for name in (
        "output/dense/bias",
        "output/LayerNorm/gamma",
        "output/LayerNorm/beta",
    ):
        shapes[f"{layer}/{name}"] = [hidden]
    values = {
        name: rng.normal(0.1, 0.3, shape).astype(np.float32)
        for name, shape in shapes.items()
    }
    folder.mkdir()
    tf1_weights.save_variables(
        str(folder / "albert_model.ckpt"), {**values, "global_step": np.int64(5)}
    )
    described = {
        "vocab_size": vocab_size,
        "hidden_size": hidden,
        "num_hidden_layers": 3,
        "num_attention_heads": 3,
        "intermediate_size": inner,
        "max_position_embeddings": 16,
        "type_vocab_size": 2,
        "hidden_act": "gelu",
        **settings,
    }
    (folder / "albert_config_tiny.json").write_text(json.dumps(described))
    return values


def test_albert_zh_becomes_a_model_with_a_wide_table(tmp_path, vocab):
    values = _write_zh(tmp_path / "zh")
    convert_quietly(
        f"albert_zh:{tmp_path / 'zh'}",
        f"run:{tmp_path / 'run'}",
        vocab_path=str(vocab),
    )
    model = native.read(str(tmp_path / "run"), OPTIONS, weight_map.ConversionReport())
    assert model.config.embedding_size == model.config.hidden_size == 12
    assert model.config.num_layers == 3 and model.config.sharing == "all"
    features = portable_models.batch(model.config)
    found = portable_models.network_of(model)(features)
    # What its code computes before and after the layers, in float64.
    there = {name: value.astype(np.float64) for name, value in values.items()}
    embeddings = "bert/embeddings/"
    summed = (
        there[f"{embeddings}word_embeddings"][features["input_ids"]]
        @ there[f"{embeddings}word_embeddings_2"]
        + there[f"{embeddings}position_embeddings"][:7]
        + there[f"{embeddings}token_type_embeddings"][features["segment_ids"]]
    )
    expected = _normed(summed, there, f"{embeddings}LayerNorm")
    assert np.max(np.abs(found.encoder.embedding_output - expected)) < TOLERANCE
    rows = np.arange(3)[:, None]
    hidden = found.encoder.sequence_output.numpy()[
        rows, features["masked_lm_positions"]
    ].astype(np.float64)
    hidden = hidden @ there["cls/predictions/transform/dense/kernel"]
    hidden = _gelu(hidden + there["cls/predictions/transform/dense/bias"])
    hidden = _normed(hidden, there, "cls/predictions/transform/LayerNorm")
    logits = (
        hidden
        @ there[f"{embeddings}word_embeddings_2"].T
        @ there[f"{embeddings}word_embeddings"].T
        + there["cls/predictions/output_bias"]
    )
    assert np.max(np.abs(found.mlm.logits - logits)) < TOLERANCE
    layer = "bert/encoder/layer_shared"
    for ours_, theirs in (
        ("attention/query/kernel", "attention/self/query/kernel"),
        ("attention/layer_norm/gamma", "attention/output/LayerNorm/gamma"),
        ("feed_forward/output_projection/bias", "output/dense/bias"),
        ("feed_forward/layer_norm/beta", "output/LayerNorm/beta"),
    ):
        np.testing.assert_array_equal(
            model.weights[f"encoder/blocks/0/{ours_}"], values[f"{layer}/{theirs}"]
        )


def _normed(values, there, name):
    mean = values.mean(-1, keepdims=True)
    spread = np.sqrt(((values - mean) ** 2).mean(-1, keepdims=True) + 1e-12)
    return (values - mean) / spread * there[f"{name}/gamma"] + there[f"{name}/beta"]


def _gelu(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def test_albert_zh_with_norms_before_the_layers_is_refused(tmp_path):
    _write_zh(tmp_path / "zh", ln_type="preln")
    with pytest.raises(ValueError, match="ln_type must be 'postln'"):
        albert_zh.read(str(tmp_path / "zh"), OPTIONS, weight_map.ConversionReport())


# ---- What is refused ----


@pytest.fixture
def hf_folder(tmp_path, vocab) -> pathlib.Path:
    folder = tmp_path / "hf"
    folder.mkdir()
    model = dataclasses.replace(portable_models.draw(), vocab=vocab.read_bytes())
    hugging_face.write(model, str(folder), weight_map.ConversionReport())
    return folder


def _change_weights(folder: pathlib.Path, **changes) -> None:
    """Adds arrays, or takes away those that are None."""
    path = folder / "model.safetensors"
    arrays = safetensors.numpy.load_file(path) | changes
    kept = {name: value for name, value in arrays.items() if value is not None}
    safetensors.numpy.save_file(kept, path)


def _change_config(folder: pathlib.Path, **changes) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def _cut(folder: pathlib.Path) -> None:
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-100])


def _pickle_only(folder: pathlib.Path) -> None:
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")


BAD_FOLDERS = {
    "another architecture": (
        lambda folder: _change_config(folder, model_type="bert"),
        "model_type must be 'albert'",
    ),
    "another class": (
        lambda folder: _change_config(folder, architectures=["BertModel"]),
        "received 'BertModel'",
    ),
    "another activation": (
        lambda folder: _change_config(folder, hidden_act="silu"),
        "hidden_act must be .* received 'silu'",
    ),
    "cut off": (_cut, "model.safetensors is damaged or cut off"),
    "a pickle": (_pickle_only, "pytorch_model.bin, a pickle"),
    "a variable missing": (
        lambda folder: _change_weights(folder, **{"predictions.dense.weight": None}),
        "missing: predictions.dense.weight",
    ),
    "a variable more": (
        lambda folder: _change_weights(folder, adapter=np.zeros(3, np.float32)),
        "not of such a model: adapter",
    ),
    "another shape": (
        lambda folder: _change_weights(
            folder, **{"albert.pooler.bias": np.zeros(7, np.float32)}
        ),
        r"albert.pooler.bias is \[7\] instead of \[12\]",
    ),
    "whole numbers": (
        lambda folder: _change_weights(
            folder, **{"albert.pooler.bias": np.zeros(12, np.int32)}
        ),
        "albert.pooler.bias must hold float32",
    ),
    "not a number": (
        lambda folder: _change_weights(
            folder, **{"albert.pooler.bias": np.full(12, np.nan, np.float32)}
        ),
        "albert.pooler.bias must hold finite numbers",
    ),
    "embeddings that are not tied": (
        lambda folder: _change_weights(
            folder, **{"predictions.decoder.weight": np.zeros([100, 6], np.float32)}
        ),
        "predictions.decoder.weight must equal albert.embeddings.word_embeddings",
    ),
    "a vocabulary of another size": (
        lambda folder: shutil.copy(small_run.VOCAB, folder / "spiece.model"),
        "spiece.model has 4000, the model 100",
    ),
    "accents kept": (
        lambda folder: (folder / "tokenizer_config.json").write_text(
            '{"keep_accents": true}'
        ),
        "keep_accents must be False",
    ),
    "no JSON": (
        lambda folder: (folder / "config.json").write_text("{"),
        "config.json must be JSON",
    ),
}


@pytest.mark.parametrize("name", list(BAD_FOLDERS))
def test_a_bad_folder_is_refused_and_the_target_untouched(hf_folder, tmp_path, name):
    spoil, message = BAD_FOLDERS[name]
    spoil(hf_folder)
    with pytest.raises(ValueError, match=message):
        convert_quietly(f"hf:{hf_folder}", f"run:{tmp_path / 'run'}")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["hf"]


def test_a_target_that_holds_something_is_left_as_it_is(hf_folder, tmp_path):
    target = tmp_path / "run"
    target.mkdir()
    (target / "mine").write_text("kept")
    with pytest.raises(ValueError, match="must name a new or empty directory"):
        convert_quietly(f"hf:{hf_folder}", f"run:{target}")
    assert [path.name for path in target.iterdir()] == ["mine"]


@pytest.mark.parametrize("name", ["tf1", "hf", "keras"])
def test_a_converted_model_that_was_damaged_is_named(hf_folder, tmp_path, capsys, name):
    folder = tmp_path / "converted"
    binaries.run(convert, f"--from=hf:{hf_folder}", f"--to={name}:{folder}")
    (vocab,) = [*folder.rglob("spiece.model"), *folder.rglob("vocabulary.spm")]
    content = bytearray(vocab.read_bytes())
    content[-20] ^= 1
    vocab.write_bytes(content)
    error = binaries.error_of(
        *(capsys, convert, f"--from={name}:{folder}", f"--to=run:{tmp_path / 'run'}")
    )
    assert f"{vocab} is damaged or was replaced" in error
    assert not (tmp_path / "run").exists()


def test_a_failure_while_writing_leaves_nothing(hf_folder, tmp_path):
    """Without a vocabulary nothing can be made of the model, which shows late."""
    (hf_folder / "spiece.model").unlink()
    for name in ("run", "keras"):
        with pytest.raises(ValueError, match="pass --vocab_model=FILE"):
            convert_quietly(f"hf:{hf_folder}", f"{name}:{tmp_path / name}")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["hf"]


def test_a_checkpoint_of_bert_is_refused(testdata, tmp_path):
    shutil.copytree(testdata / "tf1_g1", tmp_path / "bert")
    described = json.loads((tmp_path / "bert" / "albert_config.json").read_text())
    del described["embedding_size"]
    (tmp_path / "bert" / "albert_config.json").write_text(json.dumps(described))
    with pytest.raises(ValueError, match="must hold embedding_size"):
        convert_quietly(f"tf1:{tmp_path / 'bert'}", f"hf:{tmp_path / 'hf'}")


def test_a_damaged_checkpoint_is_refused(testdata, tmp_path):
    shutil.copytree(testdata / "tf1_g1", tmp_path / "cut")
    data = tmp_path / "cut" / "model.ckpt.data-00000-of-00001"
    data.write_bytes(data.read_bytes()[:500])
    with pytest.raises(ValueError, match="describes an encoder of .* holds 500"):
        convert_quietly(f"tf1:{tmp_path / 'cut'}", f"hf:{tmp_path / 'hf'}")
    assert not (tmp_path / "hf").exists()


def test_a_grade_and_a_choice_must_be_told_apart(tmp_path):
    folder = fine_tuned.write(tmp_path / "run", "regression")
    convert_quietly(f"run:{folder}", f"tf1:{tmp_path / 'tf1'}")
    with pytest.raises(ValueError, match="--head=regression or --head=multiple_choice"):
        convert_quietly(f"tf1:{tmp_path / 'tf1'}", f"hf:{tmp_path / 'hf'}")


@pytest.mark.parametrize(
    ("location", "message"),
    [
        ("albert-base-v2", "must be FORMAT:PATH"),
        ("onnx:model", "must be FORMAT:PATH"),
        ("hf:", "must be FORMAT:PATH"),
    ],
)
def test_locations_that_are_none_are_refused(location, message):
    with pytest.raises(ValueError, match=message):
        convert_quietly(location, "run:there")


def test_the_command_prints_the_number_of_weights_or_each_of_them(tmp_path, capsys):
    run = small_task.write_pretrained(tmp_path / "run")
    binaries.run(convert, f"--from=run:{run}", f"--to=hf:{run}-hf")
    lines = capsys.readouterr().out.splitlines()
    assert not any(" -> " in line for line in lines)
    counted = [line == "  32 weights, 46,008 parameters" for line in lines]
    assert sum(counted) == 1, lines
    assert len(lines) < 10, lines
    names = f"--from=run:{run}", f"--to=hf:{run}-listed"
    binaries.run(convert, *names, "--list_weights")
    assert "encoder/pooler/kernel -> albert.pooler.weight [12, 12], transposed" in (
        capsys.readouterr().out
    )
    assert (tmp_path / "run-hf" / "config.json").exists()
    error = binaries.error_of(capsys, convert, f"--from=hf:{run}", f"--to=tf1:{run}-2")
    assert error.endswith(f"{run} looks like a run: pass --from=run:{run}")
