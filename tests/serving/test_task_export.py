"""Fine-tuned models as SavedModels: exported, loaded elsewhere, asked by predict."""

import io
import json
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from albert_tf import export, predict
from albert_tf.model import task_model
from albert_tf.serving import load
from tests.support import binaries, fine_tuned, small_serving

pytestmark = pytest.mark.slow

# Loads and asks in a fresh process; nothing of this project is imported there.
_FRESH = """
import json
import sys
import numpy as np
import tensorflow as tf
import tensorflow_text
for folder, asked in json.loads(sys.argv[1]):
    (signature,) = tf.saved_model.load(folder).signatures.values()
    inputs = {name: tf.constant(value, tf.string) for name, value in asked.items()}
    found = {key: value.numpy() for key, value in signature(**inputs).items()}
    np.savez(folder + ".npz", **{
        key: value.astype("S") if value.dtype == object else value
        for key, value in found.items()
    })
assert not any(name.startswith("albert_tf") for name in sys.modules)
"""
ASKED = {
    "classification": {"text": fine_tuned.TEXTS, "pair": fine_tuned.PAIRS},
    "regression": {"text": fine_tuned.TEXTS, "pair": fine_tuned.PAIRS},
    "token_classification": {"text": fine_tuned.TEXTS},
    "span": {"question": fine_tuned.PAIRS, "context": fine_tuned.TEXTS},
    "answerable_span": {"question": fine_tuned.PAIRS, "context": fine_tuned.TEXTS},
    "multiple_choice": {
        "context": fine_tuned.TEXTS,
        "question": fine_tuned.QUESTIONS,
        "options": fine_tuned.OPTIONS,
    },
}
SIGNATURES = {
    "classification": "classify",
    "regression": "classify",
    "token_classification": "tag",
    "span": "answer",
    "answerable_span": "answer",
    "multiple_choice": "choose",
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    return {kind: fine_tuned.write(folder / kind, kind) for kind in fine_tuned.KINDS}


@pytest.fixture(scope="module")
def saved_models(runs, tmp_path_factory):
    folder = tmp_path_factory.mktemp("saved")
    for kind, run in runs.items():
        binaries.run(export, f"--model_dir={run}", f"--output_dir={folder / kind}")
    with small_serving.loaded_once():
        yield folder


def asked(saved_models, kind, *arguments):
    """What predict is told, for a SavedModel."""
    return [f"--saved_model={saved_models / kind}", *arguments]


def answers(capsys):
    """The JSON objects that were printed."""
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_there_is_a_serving_for_every_head():
    assert set(SIGNATURES) == set(task_model.HEADS) == set(fine_tuned.KINDS)


def test_a_fresh_process_gives_the_same_answers(runs, saved_models, tmp_path):
    jobs = [(str(saved_models / kind), inputs) for kind, inputs in ASKED.items()]
    subprocess.run(
        [sys.executable, "-c", _FRESH, json.dumps(jobs)],
        check=True,
        cwd=tmp_path,
        timeout=300,
    )
    for kind, inputs in ASKED.items():
        module, _ = load.load_serving(str(runs[kind]))
        ((name, signature),) = module.signatures.items()
        assert name == SIGNATURES[kind]
        expected = signature(**{k: tf.constant(v) for k, v in inputs.items()})
        found = np.load(saved_models / f"{kind}.npz", allow_pickle=False)
        assert set(found.files) == set(expected)
        for key, value in expected.items():
            value = value.numpy()
            if value.dtype == object:
                value = value.astype("S")
            np.testing.assert_array_equal(value, found[key], err_msg=f"{kind}/{key}")


# ---- Asking ----


def test_predict_finds_the_signature_and_prints_readable_answers(saved_models, capsys):
    def lines(kind, *texts):
        binaries.run(predict, *asked(saved_models, kind, *texts))
        return capsys.readouterr().out.splitlines()

    found = lines("classification", "a lake", "The river\ta lake")
    assert found[0] == "a lake" and found[2] == "The river | a lake"
    for line in found[1::2]:
        labels = [part.split()[0] for part in line.removeprefix("  -> ").split(", ")]
        assert sorted(labels) == ["contradiction", "entailment", "neutral"]
    assert float(lines("regression", "a lake")[1].removeprefix("  -> ")) < 100
    found = lines("token_classification", "New  York is far")
    assert found[0] == "New  York is far"
    assert [line.split()[2] for line in found[1:]] == ["New", "York", "is", "far"]
    found = lines("span", "Where?", "The river runs")
    assert found[0] == "Where?" and "probability" in found[1]
    assert lines("answerable_span", "Where?", "")[1].startswith("  -> (no answer)")
    found = lines("multiple_choice", "The river runs.", "What _?", "a", "lake", "c")
    assert [line[11:] for line in found[1:]] == ["a", "lake", "c"]
    assert sum(line.startswith("  -> ") for line in found) == 1


def test_predict_streams_files_in_batches(saved_models, tmp_path, capsys):
    path = tmp_path / "lines.txt"
    texts = [f"number {n}" for n in range(7)]
    path.write_text("\n\n".join(texts) + "\r\n", encoding="utf-8")
    arguments = asked(saved_models, "classification", f"--input={path}", "--json")
    binaries.run(predict, *arguments, "--batch_size=3")
    found = answers(capsys)
    assert [answer["text"] for answer in found] == texts
    binaries.run(predict, *arguments)
    for one, other in zip(found, answers(capsys), strict=True):
        assert one["label"] == other["label"]
        assert abs(one["probability"] - other["probability"]) < 1e-5
        assert one["probability"] == one["probabilities"][one["label"]]


def test_predict_reads_standard_input_and_mixed_numbers_of_options(
    saved_models, capsys, monkeypatch
):
    lines = ["c\tq _\tx\ty", "c\tq\tx\ty\tz", "d\tq _\tz\ty"]
    content = io.TextIOWrapper(io.BytesIO("\n".join(lines).encode()), "utf-8")
    monkeypatch.setattr(sys, "stdin", content)
    binaries.run(predict, *asked(saved_models, "multiple_choice", "--json"))
    found = answers(capsys)
    assert [answer["context"] for answer in found] == ["c", "c", "d"]
    assert [answer["options"] for answer in found] == [
        ["x", "y"],
        list("xyz"),
        ["z", "y"],
    ]
    for answer in found:
        assert answer["answer"] == answer["options"][answer["choice"]]
        assert answer["choice"] == int(np.argmax(answer["probabilities"]))


def test_predict_gives_places_in_the_context(saved_models, tmp_path, capsys):
    context = "The  caf\u0065\u0301 by the lake"
    path = tmp_path / "lines.txt"
    path.write_text(f"What?\t{context}\n", encoding="utf-8")
    binaries.run(predict, *asked(saved_models, "span", f"--input={path}", "--json"))
    (answer,) = answers(capsys)
    assert context[answer["start"] : answer["end"]] == answer["answer"] != ""


@pytest.mark.parametrize(
    ("kind", "content", "arguments", "message"),
    [
        ("span", b"a\tb\n\na\n", [], ":3: an example must be a question and a context"),
        ("classification", b"a\nb\tc\td\n", [], ":2: an example must be a text, or a"),
        ("token_classification", b"ok\na\xff\n", [], ":2: lines must be UTF-8"),
        ("span", b"\n", [], "there must be a text"),
        ("span", b"a\tb\n", ["x", "y"], "either --input or texts as arguments"),
        (
            "span",
            b"a\tb",
            ["--signature=tag"],
            "the SavedModel has: answer; received tag",
        ),
    ],
)
def test_predict_names_what_it_cannot_answer(
    saved_models, tmp_path, capsys, kind, content, arguments, message
):
    path = tmp_path / "lines.txt"
    path.write_bytes(content)
    error = binaries.error_of(
        capsys, predict, *asked(saved_models, kind, f"--input={path}", *arguments)
    )
    assert message in error


def test_predict_refuses_files_that_are_not_there(saved_models, tmp_path, capsys):
    arguments = asked(saved_models, "span", f"--input={tmp_path / 'none'}")
    error = binaries.error_of(capsys, predict, *arguments)
    assert "--input must be a file that can be read" in error
