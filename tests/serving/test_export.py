"""The SavedModel answers as the model did, in a process that knows nothing of us."""

import json
import pathlib
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2
from tensorflow_serving.apis import prediction_log_pb2

import albert_tf
from albert_tf import average_checkpoints, convert, export, predict, probe
from albert_tf.checkpoints import checkpointer
from albert_tf.core import config_io
from albert_tf.data import schema
from albert_tf.inference import saved_model_dir
from albert_tf.model import pretraining_model
from albert_tf.probing import scoring
from albert_tf.serving import load, scaled_weights, token_scorer, warmup
from albert_tf.tokenization import tokenizer as tokenizer_lib
from albert_tf.training import pretraining
from tests.support import binaries, small_run, small_serving

TEXTS = [
    "The river runs [MASK] a small lake, and number 3 is [MASK].",
    "His brother lies [MASK].",
]

# Loads and asks in a fresh process; nothing of this project is imported there.
_FRESH = """
import sys
import numpy as np
import tensorflow as tf
import tensorflow_text
model = tf.saved_model.load(sys.argv[1])
asked = np.load(sys.argv[2])
texts = tf.constant([str(text) for text in asked["texts"]])
found = {}
for name, inputs in {
    "encode": {"text": texts},
    "fill_mask": {"text": texts, "top_k": tf.constant(4)},
    "sentence_order": {"first": texts, "second": texts[::-1]},
}.items():
    for key, value in model.signatures[name](**inputs).items():
        value = value.numpy()
        found[f"{name}/{key}"] = value.astype("S") if value.dtype == object else value
np.savez(sys.argv[3], **found)
assert not any(name.startswith("albert_tf") for name in sys.modules)
"""


@pytest.fixture(scope="module")
def model_dir(tmp_path_factory):
    folder = tmp_path_factory.mktemp("export")
    records = small_run.write_records(folder)
    pretraining.train(small_run.small_config(), str(records), str(folder / "run"))
    return folder / "run"


@pytest.fixture(scope="module")
def saved_model(model_dir):
    path = model_dir.parent / "saved_model"
    arguments = f"--model_dir={model_dir}", f"--output_dir={path}"
    binaries.run(export, *arguments, "--compute_dtype=float32")
    with small_serving.loaded_once():
        yield path


@pytest.fixture(scope="module")
def signatures(saved_model):
    return tf.saved_model.load(str(saved_model)).signatures


@pytest.fixture(scope="module")
def module(model_dir):
    """What was exported; each of its functions is traced once."""
    return load.load_serving(str(model_dir))[0]


def test_tensorflow_serving_finds_requests_that_the_signatures_answer(
    saved_model, signatures
):
    asked = []
    for record in tf.data.TFRecordDataset(str(saved_model / warmup.FILE)):
        request = prediction_log_pb2.PredictionLog.FromString(record.numpy())
        request = request.predict_log.request
        name = request.model_spec.signature_name
        inputs = {
            key: tf.constant(tf.make_ndarray(value))
            for key, value in request.inputs.items()
        }
        found = signatures[name](**inputs)
        num_texts = len(inputs["first" if name == "sentence_order" else "text"])
        if name == "encode":
            asked.append(found["input_ids"].shape.as_list())
        elif name == "fill_mask":
            assert found["token"].shape == [num_texts, 5]
        else:
            assert found["probability"].shape == [num_texts]
    length = small_run.small_config().data.max_seq_length
    (one, short), (many, as_short), (alone, longest) = asked
    assert (one, many, alone) == (1, 32, 1)
    assert short == as_short < longest == length


def test_a_fresh_process_gives_bitwise_the_same_outputs(module, saved_model, tmp_path):
    texts = tf.constant(TEXTS)
    expected = {
        "encode": module.encode(texts),
        "fill_mask": module.fill_mask(texts, tf.constant(4)),
        "sentence_order": module.sentence_order(texts, texts[::-1]),
    }
    np.savez(tmp_path / "asked.npz", texts=np.array(TEXTS))
    subprocess.run(
        [
            sys.executable,
            "-c",
            _FRESH,
            saved_model,
            tmp_path / "asked.npz",
            tmp_path / "found.npz",
        ],
        check=True,
        cwd=tmp_path,
    )
    found = np.load(tmp_path / "found.npz", allow_pickle=False)
    names = {f"{name}/{key}" for name in expected for key in expected[name]}
    assert names == set(found.files)
    for name in names:
        signature, key = name.split("/")
        value = expected[signature][key].numpy()
        if value.dtype == object:
            value = value.astype("S")
        np.testing.assert_array_equal(value, found[name], err_msg=name)


def test_an_export_has_a_card_and_a_description(model_dir, saved_model):
    folder = pathlib.Path(saved_model)
    card = (folder / "README.md").read_text()
    assert card.startswith("---\nlanguage:\n- en\nlicense: unknown\n")
    assert "Exported as text from model.ckpt-" in card and "mlm loss" in card
    described = saved_model_dir.describe(saved_model)
    assert (described.name, described.task) == (model_dir.name, "pre-training")
    assert described.versions["TensorFlow"] == tf.__version__
    assert described.checkpoint.startswith("model.ckpt-")
    assert described.date.endswith(" UTC")
    # A model of an earlier export has the name of its directory alone.
    assert saved_model_dir.describe(f"{saved_model}/variables/") == (
        saved_model_dir.Description("variables")
    )


def test_texts_of_a_fixed_length_have_the_same_answers(model_dir, module, tmp_path):
    binaries.run(
        export,
        f"--model_dir={model_dir}",
        f"--output_dir={tmp_path / 'fixed'}",
        "--fixed_length=24",
    )
    assert saved_model_dir.describe(str(tmp_path / "fixed")).is_fixed_length
    signatures = tf.saved_model.load(str(tmp_path / "fixed")).signatures
    shape = signatures["encode"].structured_outputs["sequence_output"].shape
    assert shape.as_list() == [None, 24, 12]
    short = tf.constant(["a lake [MASK]", "a"])
    for name, inputs in {
        "encode": {"text": short},
        "fill_mask": {"text": short, "top_k": tf.constant(4)},
        "sentence_order": {"first": short, "second": short[::-1]},
    }.items():
        expected = getattr(module, name)(**inputs)
        found = signatures[name](**inputs)
        if name == "encode":
            assert found["input_ids"].shape == [2, 24]
            length = expected["input_ids"].shape[1]
            assert length < 24
            assert int(tf.reduce_sum(found["input_mask"][:, length:])) == 0
        for key, value in expected.items():
            value, other = value.numpy(), found[key].numpy()
            if value.ndim > 1 and name == "encode" and key != "pooled_output":
                other = other[:, :length]
            if value.dtype.kind == "f":
                np.testing.assert_allclose(other, value, atol=1e-6, err_msg=key)
            else:
                np.testing.assert_array_equal(other, value, err_msg=key)
    cut, _ = load.load_serving(str(model_dir), fixed_length=8)
    assert cut.encode(tf.constant(TEXTS))["input_ids"].shape == [2, 8]


def test_bfloat16_is_that_of_the_model_and_its_weights_lie_in_it(
    model_dir, saved_model, signatures, module, tmp_path
):
    folders = {"float32": saved_model, "bfloat16": tmp_path / "bfloat16"}
    arguments = f"--model_dir={model_dir}", f"--output_dir={folders['bfloat16']}"
    binaries.run(export, *arguments, "--compute_dtype=bfloat16")
    in_bfloat16 = tf.saved_model.load(str(folders["bfloat16"])).signatures
    found, sizes = {}, {}
    for dtype, answers in (("float32", signatures), ("bfloat16", in_bfloat16)):
        found[dtype] = answers["encode"](text=tf.constant(TEXTS))
        folder = folders[dtype]
        kept = tf.train.load_checkpoint(f"{folder}/variables/variables")
        dtypes = kept.get_variable_to_dtype_map()
        shapes = kept.get_variable_to_shape_map()
        sizes[dtype] = [dtypes[name] for name in shapes if len(shapes[name]) > 1]
    # Attention has four matrices, and the feed-forward part two.
    assert sizes["float32"].count(tf.bfloat16) == 0
    assert sizes["bfloat16"].count(tf.bfloat16) == 6
    assert len(sizes["bfloat16"]) == len(sizes["float32"])
    plain = module.encode(tf.constant(TEXTS))
    for key, value in plain.items():
        np.testing.assert_array_equal(found["float32"][key], value)
    settings = small_run.small_config()
    model = pretraining_model.build_pretraining_model(
        settings.model, 0, scaled_weights.serving_form("bfloat16")
    )
    checkpointer.restore_parts(checkpointer.newest_path(str(model_dir)), model=model)
    inputs = {
        "input_ids": plain["input_ids"],
        "input_mask": plain["input_mask"],
        "segment_ids": tf.zeros_like(plain["input_ids"]),
    }
    encoder = scaled_weights.ScaledEncoder(model.encoder)
    encode = tf.function(lambda: encoder(**inputs), autograph=False)
    expected = encode().sequence_output
    np.testing.assert_array_equal(found["bfloat16"]["sequence_output"], expected)
    difference = np.abs(expected - plain["sequence_output"]).max()
    assert 1e-4 < difference < 0.1


@pytest.mark.parametrize(
    ("flag", "rule"),
    [
        ("--fixed_length=1000", "at most model.max_positions of the run, 32"),
        ("--fixed_length=2", "data.max_seq_length must"),
        ("--form=encoder", "must go with --form=text"),
    ],
)
def test_a_length_that_does_not_suit_is_refused(
    model_dir, tmp_path, capsys, flag, rule
):
    arguments = f"--model_dir={model_dir}", f"--output_dir={tmp_path / 'none'}"
    error = binaries.error_of(
        capsys, export, *arguments, "--compute_dtype=float32", flag
    )
    assert rule in error
    assert not (tmp_path / "none").exists()


def test_encode_follows_the_tokenizer_and_the_mask(model_dir, module):
    tokenizer = tokenizer_lib.Tokenizer.from_file(str(model_dir / "vocab.model"))
    outputs = module.encode(tf.constant(TEXTS))
    for row, text in enumerate(TEXTS):
        ids = [tokenizer.cls_id, *tokenizer.encode_with_masks(text), tokenizer.sep_id]
        ids = [*ids[:23], tokenizer.sep_id] if len(ids) > 24 else ids
        assert outputs["input_ids"][row].numpy().tolist()[: len(ids)] == ids
        assert int(tf.reduce_sum(outputs["input_mask"][row])) == len(ids)
    alone = module.encode(tf.constant(TEXTS[1:]))["pooled_output"][0]
    batched = outputs["pooled_output"][1]
    np.testing.assert_allclose(alone, batched, atol=1e-6)


def test_arguments_may_be_omitted_where_there_is_a_default(saved_model):
    loaded = tf.saved_model.load(str(saved_model))
    texts = tf.constant(TEXTS)
    whole, short = loaded.fill_mask(texts, 5), loaded.fill_mask(texts)
    assert short["token"].shape[1] == 5
    np.testing.assert_array_equal(short["token_id"], whole["token_id"])
    content = (saved_model / "saved_model.pb").read_bytes()
    saved = saved_model_pb2.SavedModel.FromString(content)
    signature = saved.meta_graphs[0].signature_def["fill_mask"]
    assert list(signature.defaults["top_k"].int_val) == [5]


def test_signatures_are_described(saved_model):
    text = (saved_model / "assets.extra" / "signatures.md").read_text()
    assert "## fill_mask\n\n```text\nFinds the most probable pieces for each" in text
    assert (
        "top_k: int32 scalar, K; at most the size of the vocabulary. Default: 5" in text
    )
    for name in ("encode", "sentence_order", "score_tokens"):
        assert f"## {name}\n" in text


def test_fill_mask_gives_the_best_pieces_for_each_mask(module):
    found = {
        k: v.numpy() for k, v in module.fill_mask(tf.constant(TEXTS), 4000).items()
    }
    assert found["text_index"].tolist() == [0, 0, 1]
    np.testing.assert_allclose(found["probability"].sum(1), 1.0, atol=1e-5)
    assert np.all(np.diff(found["probability"], axis=1) <= 0)
    vocabulary = [piece.decode() for piece in found["token"][0]]
    assert len(set(vocabulary)) == 4000


def test_sentence_order_cuts_long_pairs_and_depends_on_the_order(model_dir, module):
    long, short = "the river " * 40, "a lake"
    found = module.sentence_order(
        tf.constant([long, short]), tf.constant([short, long])
    )
    assert found["probability"].shape == [2]
    assert found["probability"][0] != found["probability"][1]
    inputs = module._pack([module.tokenizer([long]), module.tokenizer([short])])
    assert inputs["input_ids"].shape == [1, 24]
    kept = len(
        tokenizer_lib.Tokenizer.from_file(str(model_dir / "vocab.model")).encode(short)
    )
    assert int(tf.reduce_sum(inputs["segment_ids"])) == kept + 1


@pytest.mark.parametrize("form", ["text", "encoder", "lite"])
def test_an_export_says_what_takes_its_seconds(model_dir, tmp_path, capsys, form):
    arguments = f"--model_dir={model_dir}", f"--output_dir={tmp_path / 'out'}"
    binaries.run(export, *arguments, f"--form={form}")
    following = {
        "text": "tracing and writing the signatures",
        "encoder": "tracing and writing the encoder",
        "lite": "converting it for TensorFlow Lite",
    }[form]
    (line,) = re.findall(r"restored (.*)", capsys.readouterr().err)
    assert re.fullmatch(rf"{model_dir}/model\.ckpt-\d+; {following}", line)


@pytest.mark.parametrize("is_terminal", [False, True])
def test_many_texts_have_a_progress_bar_where_no_terminal_shows_the_answers(
    saved_model, tmp_path, capsys, monkeypatch, is_terminal
):
    (tmp_path / "texts").write_text("\n".join(3 * TEXTS))
    monkeypatch.setattr(predict, "_BAR_DELAY", 0.0)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: is_terminal)
    binaries.run(predict, f"--saved_model={saved_model}", f"--input={tmp_path}/texts")
    errors = capsys.readouterr().err
    assert errors.startswith(f"loading {saved_model}\n")
    assert ("6line" in errors) == (not is_terminal)


def test_few_texts_have_no_progress_bar(saved_model, capsys):
    binaries.run(predict, f"--saved_model={saved_model}", *TEXTS)
    assert capsys.readouterr().err == f"loading {saved_model}\n"


def test_predict_prints_readable_answers(saved_model, capsys):
    binaries.run(predict, f"--saved_model={saved_model}", "--top_k=2", TEXTS[1])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == TEXTS[1]
    assert lines[1].startswith("  -> His brother lies ")
    assert "[MASK]" not in lines[1]
    # A token may be a comma itself.
    assert len(re.findall(r"\S+ \d\.\d+", lines[2])) == 2
    binaries.run(
        predict, f"--saved_model={saved_model}", "--signature=sentence_order", "a", "b"
    )
    assert "in this order with probability 0." in capsys.readouterr().out
    binaries.run(
        predict, f"--saved_model={saved_model}", "--signature=encode", "--json", "a b"
    )
    answer = json.loads(capsys.readouterr().out)
    assert len(answer["pooled_output"]) == 12 and answer["num_tokens"] > 3


def test_a_run_with_short_packed_sequences_is_read_with_its_longest(tmp_path):
    config = small_run.small_config(
        "model.max_positions=2048",
        "data.max_seq_length=64",
        "data.pack_sequences=64",
        "train.stages=[{'num_steps': 6}, {'num_steps': 6, 'max_seq_length': 2048, "
        "'pack_sequences': 2}]",
    )
    (tmp_path / schema.CONFIG_FILE).write_text(config_io.to_json(config))
    (tmp_path / schema.VOCAB_FILE).write_bytes(small_run.VOCAB.read_bytes())
    read, _ = load.read_run(str(tmp_path))
    assert (read.data.max_seq_length, read.data.pack_sequences) == (2048, 31)


@pytest.mark.parametrize("pooling", ["pooled", "mean"])
def test_predict_writes_embeddings_of_a_file(
    saved_model, signatures, tmp_path, capsys, pooling
):
    texts = ["the river", "a", "", "his brother was built near New York, 1990"]
    (tmp_path / "texts").write_text("\n".join(texts), encoding="utf-8-sig")
    binaries.run(
        predict,
        f"--saved_model={saved_model}",
        "--signature=encode",
        f"--input={tmp_path / 'texts'}",
        f"--output={tmp_path / 'out.npz'}",
        f"--pooling={pooling}",
        "--batch_size=3",
    )
    assert capsys.readouterr().out.endswith("out.npz: 4 embeddings\n")
    found = np.load(tmp_path / "out.npz")["embedding"]
    encode = signatures["encode"]
    for text, embedding in zip(texts, found, strict=True):
        alone = encode(text=tf.constant([text]))
        expected = alone["pooled_output"][0]
        if pooling == "mean":
            expected = tf.reduce_mean(alone["sequence_output"][0], 0)
        np.testing.assert_allclose(embedding, expected, atol=1e-6)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["no mask here"], "each text must hold [MASK]"),
        (["long " * 30 + "[MASK]"], "1 [MASK] are after its end"),
        (["--signature=sentence_order", "alone"], "an example must be two texts"),
    ],
)
def test_predict_refuses_what_it_cannot_answer(saved_model, capsys, arguments, message):
    error = binaries.error_of(
        capsys, predict, f"--saved_model={saved_model}", *arguments
    )
    assert message in error


def test_folders_without_model_are_refused(model_dir, saved_model, tmp_path, capsys):
    error = binaries.error_of(capsys, predict, f"--saved_model={tmp_path}", "[MASK]")
    assert "holds none" in error
    error = binaries.error_of(
        capsys, export, f"--model_dir={tmp_path}", f"--output_dir={tmp_path / 'new'}"
    )
    rule = "must be a directory that albert_tf.pretrain or albert_tf.finetune wrote"
    assert rule in error
    error = binaries.error_of(
        capsys, export, f"--model_dir={model_dir}", f"--output_dir={saved_model}"
    )
    assert "must be new or empty" in error
    (tmp_path / "file").write_text("")
    error = binaries.error_of(
        capsys,
        export,
        f"--model_dir={model_dir}",
        f"--output_dir={tmp_path / 'file' / 'x'}",
    )
    assert "must be a directory that can be written" in error
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize(
    "name", ["saved_model.pb", "variables/variables.index", "assets.extra/vocab.model"]
)
def test_a_damaged_export_is_named(saved_model, tmp_path, capsys, name):
    folder = tmp_path / "model"
    shutil.copytree(saved_model, folder)
    content = bytearray((folder / name).read_bytes())
    content[len(content) // 2] ^= 1
    (folder / name).write_bytes(content)
    error = binaries.error_of(capsys, predict, f"--saved_model={folder}", TEXTS[1])
    assert f"{folder / name} is damaged or was replaced" in error
    with pytest.raises(ValueError, match="is damaged or was replaced"):
        albert_tf.load(folder)
    with pytest.raises(ValueError, match="is damaged or was replaced"):
        albert_tf.load_tokenizer(folder)


def test_what_is_missing_is_named_before_tensorflow_is_imported(tmp_path):
    (tmp_path / "seeds.json").write_text("{}")
    code = (
        "import sys\n"
        "from albert_tf import export\n"
        "from tests.support import binaries\n"
        "try:\n"
        "    binaries.run(export, *sys.argv[1:])\n"
        "except SystemExit:\n"
        "    print('tensorflow' in sys.modules)\n"
    )
    output_dir = f"--output_dir={tmp_path / 'new'}"
    for arguments, message in (
        ([f"--model_dir={tmp_path / 'absent'}"], "there is no config.json in"),
        (
            [f"--model_dir={tmp_path}", f"--checkpoint={tmp_path}/model.ckpt-3"],
            "model.ckpt-3.index",
        ),
        ([f"--model_dir={tmp_path}", "--form=lite", "--compute_dtype=float32"], "text"),
    ):
        command = [sys.executable, "-c", code, *arguments, output_dir]
        result = subprocess.run(command, capture_output=True, text=True, check=True)
        assert result.stdout == "False\n"
        assert message in result.stderr


def test_a_directory_with_seeds_counts_as_a_run():
    assert schema.SEEDS_FILE in export._RUN_FILES


# ---- Scores of tokens ----


def test_token_scores_are_those_of_the_filled_masks(module):
    """fill_mask gives the probability of each piece at a mask, score_tokens of one."""
    text = "The river runs [MASK] a small lake."
    filled = module.fill_mask(tf.constant([text]), 4000)
    inputs = module._pack([module.tokenizer.encode_with_masks(tf.constant([text]))])
    ids = filled["token_id"][0, ::500].numpy()
    found = module.score_tokens(
        inputs["input_ids"],
        inputs["input_mask"],
        filled["position"],
        np.zeros_like(ids),
        ids,
    )["log_probability"]
    expected = np.log(filled["probability"][0, ::500])
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_a_model_of_each_form_has_the_same_scores(model_dir, saved_model, tmp_path):
    average, hf, back = (tmp_path / name for name in ("average", "hf", "back"))
    arguments = f"--model_dir={model_dir}", "--last=1", f"--output_dir={average}"
    binaries.run(average_checkpoints, *arguments)
    binaries.run(convert, f"--from=run:{model_dir}", f"--to=hf:{hf}")
    length = "--set=data.max_seq_length=24"
    binaries.run(convert, f"--from=hf:{hf}", f"--to=run:{back}", length)
    sentences = ["The river runs through New York.", "A train", TEXTS[1]]
    expected = scoring.score(
        token_scorer.load_scorer(str(model_dir), "float32").scorer, sentences
    )
    assert not np.isnan(expected.values).any()
    for path in (model_dir / "model.ckpt-12", saved_model, average, back):
        loaded = token_scorer.load_scorer(str(path), "")
        found = scoring.score(loaded.scorer, sentences)
        np.testing.assert_allclose(found.values, expected.values, atol=1e-4)
        assert loaded.config.data.max_seq_length == loaded.scorer.max_length == 24
    other = token_scorer.load_scorer(str(model_dir / "model.ckpt-6"))
    assert other.checkpoint.endswith("model.ckpt-6")
    found = scoring.score(other.scorer, sentences)
    assert np.abs(found.values - expected.values).max() > 1e-3


def test_probe_writes_results_and_a_page(model_dir, saved_model, tmp_path, capsys):
    pairs = tmp_path / "pairs.jsonl"
    words = ("river", "lake", "church")
    pairs.write_text(
        "\n".join(
            json.dumps({"sentence_good": f"The {w}.", "sentence_bad": f"{w} the."})
            for w in words
        )
    )
    for model in (model_dir, saved_model):
        out = tmp_path / model.name
        arguments = f"--model={model}", f"--suite={pairs}", f"--output_dir={out}"
        binaries.run(probe, *arguments, "--metric=within_word")
        assert capsys.readouterr().out.rstrip().endswith(str(out / "index.html"))
        found = json.loads((out / "results.json").read_text())
        assert found["overall"]["num_pairs"] == 3
        assert found["metric"] == "within_word"
        assert found["compute_dtype"] == "float32"
        page = (out / "index.html").read_text()
        assert "Grammar probe" in page and "river the." in page
        # It stands alone: no picture, no script, no style sheet beside it.
        assert not re.search(r"<(img|script|link)\b", page)
    saved = [
        (tmp_path / m.name / "pairs.tsv").read_text() for m in (model_dir, saved_model)
    ]
    rows = [
        np.array([line.split("\t")[2:4] for line in text.splitlines()[1:]], float)
        for text in saved
    ]
    np.testing.assert_allclose(*rows, atol=1e-4)

    # A part of the suite is named; a number that leaves out nothing is none.
    note = "Only the first 2 pairs of each paradigm were probed."
    for number, is_part in ((2, True), (3, False)):
        out = tmp_path / f"first-{number}"
        arguments = f"--model={saved_model}", f"--suite={pairs}", f"--output_dir={out}"
        binaries.run(probe, *arguments, f"--pairs_per_paradigm={number}")
        assert (note in capsys.readouterr().out) == is_part
        found = json.loads((out / "results.json").read_text())
        assert found["overall"]["num_pairs"] == number
        assert found["pairs_per_paradigm"] == (number if is_part else 0)
        assert (note in (out / "index.html").read_text()) == is_part


def test_an_older_export_is_refused(saved_model, tmp_path):
    module = tf.saved_model.load(str(saved_model))
    signatures = {"encode": module.signatures["encode"]}
    tf.saved_model.save(module, str(tmp_path / "old"), signatures=signatures)
    with pytest.raises(ValueError, match="score_tokens; .* has encode. Export"):
        token_scorer.load_scorer(str(tmp_path / "old"))
