"""Models asked from Python answer as the commands do."""

import json
import pathlib
import shutil
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

import albert_tf
from albert_tf import export, predict
from albert_tf.checkpoints import checkpointer
from albert_tf.model import pretraining_model
from albert_tf.probing import scoring
from albert_tf.serving import token_scorer
from tests.support import binaries, fine_tuned, small_run, small_task

ROOT = pathlib.Path(__file__).parent.parent.parent
TEXTS = ["The river runs [MASK] a small lake.", "His brother lies [MASK]."]
PAIRS = [("The river runs.", "The river run."), ("A train", "Train a")]

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pretrained") / "run"
    return small_task.write_pretrained(folder, "model.initializer_range=0.5")


@pytest.fixture(scope="module")
def model(run):
    return albert_tf.load(str(run))


@pytest.fixture(scope="module")
def exported(run):
    folder = run.parent / "saved_model"
    binaries.run(export, f"--model_dir={run}", f"--output_dir={folder}")
    return folder


def test_a_run_and_its_export_answer_what_predict_prints(
    model, exported, capsys, tmp_path
):
    path = tmp_path / "texts"
    path.write_text("\n".join(TEXTS) + "\n")
    capsys.readouterr()
    binaries.run(predict, f"--saved_model={exported}", f"--input={path}", "--json")
    printed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    for one in (model, albert_tf.load(str(exported))):
        answers = one.fill_mask(TEXTS)
        assert [a["text"] for a in answers] == TEXTS
        for answer, expected in zip(answers, printed, strict=True):
            for ours, theirs in zip(answer["masks"], expected["masks"], strict=True):
                assert [c["token"] for c in ours] == [c["token"] for c in theirs]
                np.testing.assert_allclose(
                    [c["probability"] for c in ours],
                    [c["probability"] for c in theirs],
                    atol=1e-6,
                )


def test_one_example_gives_one_answer(model):
    answer = model.fill_mask(TEXTS[0], top_k=2)
    assert [len(candidates) for candidates in answer["masks"]] == [2]
    best = answer["masks"][0][0]["token"].replace("▁", "") or "▁"
    assert answer["filled"] == TEXTS[0].replace("[MASK]", best)
    order = model.sentence_order(("A train", "The old city"))
    assert 0 < order["probability"] < 1
    assert model.sentence_order([("A train", "The old city")]) == [order]


def test_many_texts_are_embedded_in_their_order(model):
    texts = [f"The river {'runs near a lake ' * (n % 5)}{n}" for n in range(70)]
    found = model.embed(texts)
    assert found.shape == (70, 12) and found.dtype == np.float32
    for number in (0, 33, 69):
        alone = model.embed(texts[number])
        np.testing.assert_allclose(found[number], alone, rtol=0, atol=1e-5)
    assert np.abs(found[0] - found[33]).max() > 1e-3


def test_mean_and_pooled_embeddings_are_those_of_the_signature(model, run):
    found = model._loaded.encode(tf.constant([TEXTS[1]]))
    sequence, mask = found["sequence_output"].numpy(), found["input_mask"].numpy()
    assert mask.all()
    np.testing.assert_allclose(model.embed(TEXTS[1]), sequence[0].mean(0), atol=1e-6)
    pooled = model.embed(TEXTS[1], pooling="pooled")
    np.testing.assert_allclose(pooled, found["pooled_output"][0], atol=1e-6)


def test_minimal_pairs_are_scored(model):
    probed = model.probe(PAIRS)
    assert probed.good_scores.shape == (2,) and (probed.good_scores < 0).all()
    share = np.mean(probed.good_scores > probed.bad_scores)
    assert probed.accuracies.overall.accuracy == pytest.approx(share)
    for given in (tuple(PAIRS), [list(pair) for pair in PAIRS]):
        again = model.probe(given)
        np.testing.assert_array_equal(again.good_scores, probed.good_scores)
    alone = model.probe(PAIRS[1])
    np.testing.assert_allclose(alone.bad_scores, probed.bad_scores[1:], atol=1e-5)


def test_a_suite_is_read_from_its_path(model, tmp_path):
    path = tmp_path / "pairs.jsonl"
    rows = [{"sentence_good": good, "sentence_bad": bad} for good, bad in PAIRS]
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    expected = model.probe(PAIRS)
    for given in (path, str(path)):
        found = model.probe(given)
        np.testing.assert_array_equal(found.good_scores, expected.good_scores)


@pytest.fixture(scope="module")
def with_average(tmp_path_factory):
    """A run with two checkpoints, the second with an average, all of other weights."""
    folder = tmp_path_factory.mktemp("average") / "run"
    small_task.write_pretrained(folder, "model.initializer_range=0.5")
    settings = small_run.small_config("model.initializer_range=0.5").model
    parts = {
        name: pretraining_model.build_pretraining_model(settings, seed)
        for name, seed in (("model", 4), ("average", 5))
    }
    checkpointer.Checkpointer(str(folder), 2, parts, is_chief=True).save(8, wait=True)
    return folder


def _score(checkpoint, weights="averaged", compute_dtype="float32"):
    loaded = token_scorer.load_scorer(str(checkpoint), compute_dtype, weights)
    return scoring.score(loaded.scorer, [good for good, _ in PAIRS]).values


def test_the_weights_that_were_loaded_are_probed(with_average):
    first, second = (with_average / f"model.ckpt-{step}" for step in (7, 8))
    found = [
        albert_tf.load(with_average, **settings).probe(PAIRS).good_scores
        for settings in ({"checkpoint": first}, {}, {"weights": "trained"})
    ]
    expected = [_score(first), _score(second), _score(second, "trained")]
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-4)
    for one, other in ((0, 1), (1, 2), (2, 0)):
        assert np.abs(found[one] - found[other]).max() > 1e-2


def test_probes_compute_in_the_dtype_of_the_model(with_average):
    precise = albert_tf.load(with_average).probe(PAIRS).good_scores
    model = albert_tf.load(with_average, compute_dtype="bfloat16")
    rounded = model.probe(PAIRS).good_scores
    assert 1e-4 < np.abs(rounded - precise).max() < 1


def test_probing_reads_no_weights_and_the_vocabulary_once(with_average, tmp_path):
    run = shutil.copytree(with_average, tmp_path / "run")
    model = albert_tf.load(run)
    for path in run.glob("*ckpt*"):
        path.unlink()
    first = model.probe(PAIRS)
    shutil.rmtree(run)
    np.testing.assert_array_equal(model.probe(PAIRS).good_scores, first.good_scores)


@pytest.mark.parametrize(
    ("kind", "ask", "example", "key"),
    [
        ("classification", "classify", ("A train", "The lake"), "label"),
        ("regression", "classify", "A train", "score"),
        ("token_classification", "tag", "A train", "words"),
        ("span", "answer", ("Where?", "Near a small lake."), "answer"),
        ("multiple_choice", "choose", ("A", "B?", "c", "d"), "choice"),
    ],
)
def test_fine_tuned_models_answer_as_their_kind_does(tmp_path, kind, ask, example, key):
    tuned = albert_tf.load(str(fine_tuned.write(tmp_path / "run", kind)))
    assert tuned.signatures == (ask,)
    answer = getattr(tuned, ask)(example)
    assert key in answer
    two = getattr(tuned, ask)([example, example])
    assert [set(one) for one in two] == [set(answer)] * 2
    with pytest.raises(ValueError, match="must have the signature fill_mask; .* has"):
        tuned.fill_mask(TEXTS[0])
    with pytest.raises(ValueError, match="must have the signature score_tokens; "):
        tuned.probe(PAIRS)
    with pytest.raises(ValueError, match=f"{ask} takes a .*; received 5$"):
        getattr(tuned, ask)(5)


def test_what_cannot_be_loaded_or_asked_is_an_error(model, exported, tmp_path):
    with pytest.raises(ValueError, match=f"{tmp_path} has neither config.json nor a"):
        albert_tf.load(str(tmp_path))
    with pytest.raises(ValueError, match="must be omitted for an exported model"):
        albert_tf.load(str(exported), compute_dtype="bfloat16")
    with pytest.raises(ValueError, match="each text must hold \\[MASK\\]"):
        model.fill_mask("no mask")
    with pytest.raises(ValueError, match="pooling must be one of mean, pooled"):
        model.embed("text", pooling="max")
    with pytest.raises(ValueError, match="must have the signature classify"):
        model.classify("text")
    (tmp_path / "albert_config.json").write_text("{}")
    for load in (albert_tf.load, albert_tf.load_tokenizer, albert_tf.load_encoder):
        with pytest.raises(ValueError, match=f"convert --from=tf1:{tmp_path} "):
            load(tmp_path)
        with pytest.raises(ValueError, match="path must be a path, .*; received None"):
            load(None)


@pytest.mark.parametrize(
    ("ask", "what", "given"),
    [
        ("fill_mask", "a text, or a list of such examples", None),
        ("fill_mask", "a text, or a list", [TEXTS[0], 5]),
        ("embed", "a text, or a list", {"text": "A"}),
        ("embed", "a text, or a list", b"A"),
        ("sentence_order", "two texts, as a tuple, or a list", ["A lake.", "A city."]),
        ("sentence_order", "two texts, as a tuple, or a list", "A lake."),
        ("probe", "a grammatical and an ungrammatical sentence, as a tuple", [("A",)]),
        ("probe", "a grammatical and an ungrammatical sentence, as a tuple", 5),
    ],
)
def test_what_is_no_example_is_an_error_that_says_what_is_one(model, ask, what, given):
    with pytest.raises(ValueError, match=f"{ask} takes {what}.*; received "):
        getattr(model, ask)(given)


def test_a_number_of_candidates_is_one_at_least(model):
    for top_k in (0, "5", None):
        with pytest.raises(ValueError, match=f"from 1 on; received {top_k!r}"):
            model.fill_mask(TEXTS[0], top_k=top_k)


def test_the_tokenizer_of_a_run_and_of_its_export_are_one(run, exported):
    of_run, of_export = (albert_tf.load_tokenizer(str(p)) for p in (run, exported))
    alone = albert_tf.load_tokenizer(str(run / "vocab.model"))
    assert of_run.sha256 == of_export.sha256 == alone.sha256
    assert of_run.encode("The river") == of_export.encode("The river")


# ---- The package ----

_IMPORT = """
import sys, time
began = time.process_time()
import albert_tf
seconds = time.process_time() - began
assert "tensorflow" not in sys.modules and "numpy" not in sys.modules
print(sorted(albert_tf.__all__) == dir(albert_tf), seconds)
"""


def test_importing_the_package_imports_nothing_else():
    words = [sys.executable, "-c", _IMPORT]
    found = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True)
    is_complete, seconds = found.stdout.split()
    assert is_complete == "True"
    assert float(seconds) < 0.2  # of the processor, which other processes do not change


def test_all_names_of_the_package_exist():
    for name in albert_tf.__all__:
        assert getattr(albert_tf, name) is not None
    with pytest.raises(AttributeError, match="has no attribute 'lod'"):
        albert_tf.lod  # noqa: B018
