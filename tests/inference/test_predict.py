"""The binary checks flags and files without TensorFlow, by the rules of its room."""

import math
import subprocess
import sys

import pytest
import tensorflow as tf

from albert_tf import predict as binary
from albert_tf.inference import predict, signatures
from albert_tf.serving import tflite
from tests.support import binaries

_ENDS_EARLY = """
import sys
from albert_tf import predict
from tests.support import binaries
try:
    binaries.run(predict, *sys.argv[1:])
except SystemExit:
    print("tensorflow" in sys.modules)
"""


def test_the_flag_names_the_signatures_that_can_be_called():
    assert binary.SIGNATURES == predict.SIGNATURES


@pytest.mark.parametrize("has_model", [False, True])
def test_missing_files_are_named_before_tensorflow_is_imported(tmp_path, has_model):
    if has_model:
        (tmp_path / "saved_model.pb").write_bytes(b"")
    arguments = f"--saved_model={tmp_path}", f"--input={tmp_path / 'absent'}"
    result = subprocess.run(
        [sys.executable, "-c", _ENDS_EARLY, *arguments],
        capture_output=True,
        text=True,
        check=True,
    )
    assert result.stdout == "False\n"
    rule = "there is no" if has_model else "--saved_model must be a SavedModel"
    assert rule in result.stderr


def test_the_directory_of_a_run_is_told_how_to_export_it(tmp_path, capsys):
    for name in ("config.json", "checkpoint"):
        (tmp_path / name).write_text("")
    error = binaries.error_of(capsys, binary, f"--saved_model={tmp_path}", "a text")
    assert error == (
        f"--saved_model must be a SavedModel; {tmp_path} is the directory of a run. "
        f"Export it: python -m albert_tf.export --model_dir={tmp_path} "
        "--output_dir=saved_model"
    )


RULE = "--saved_model must be a SavedModel;"


def test_a_directory_that_is_not_there_is_said_to_be_absent(tmp_path, capsys):
    path = tmp_path / "absent"
    error = binaries.error_of(capsys, binary, f"--saved_model={path}", "a text")
    assert error == f"{RULE} there is no directory {path}"


def test_a_directory_of_something_else_is_told_the_command(tmp_path, capsys):
    error = binaries.error_of(capsys, binary, f"--saved_model={tmp_path}", "a text")
    assert error == (
        f"{RULE} {tmp_path} holds none. Export one from a run: python -m "
        "albert_tf.export --model_dir=RUN --output_dir=saved_model"
    )


def test_an_export_for_tensorflow_lite_is_recognized(tmp_path, capsys):
    for name in ("config.json", tflite.MODEL_FILE):
        (tmp_path / name).write_text("{}")
    error = binaries.error_of(capsys, binary, f"--saved_model={tmp_path}", "a text")
    assert error == (
        f"{RULE} {tmp_path} is an export for TensorFlow Lite, which this command does "
        "not take. Export the run again without --form=lite"
    )


def test_the_directory_of_versions_is_told_the_newest(tmp_path, capsys):
    for name in ("3", "10", "v20"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "saved_model.pb").write_bytes(b"")
    (tmp_path / "11").mkdir()
    error = binaries.error_of(capsys, binary, f"--saved_model={tmp_path}", "a text")
    assert error == f"{RULE} {tmp_path} holds version 10. Give {tmp_path}/10"


def test_a_file_for_embeddings_is_told_about_embeddings_alone(tmp_path, capsys):
    (tmp_path / "saved_model.pb").write_bytes(b"")
    given = f"--saved_model={tmp_path}", "--signature=encode", "--output=t.csv", "text"
    error = binaries.error_of(capsys, binary, *given)
    assert error == (
        "--output must end in .parquet or .npz for embeddings; received t.csv"
    )
    given = *given[:2], f"--output={tmp_path}/absent/t.npz", "text"
    error = binaries.error_of(capsys, binary, *given)
    assert error == (
        f"--output must be in a directory that exists; there is no {tmp_path}/absent"
    )


def test_without_an_answer_the_probability_is_that_there_is_none():
    def signature(question, context):
        return {
            "answer": tf.constant(["a lake", ""]),
            "start": tf.constant([3, -1]),
            "end": tf.constant([9, -1]),
            # Of the best spans, the second of which is not returned.
            "probability": tf.constant([0.25, 0.75]),
            "null_odds": tf.constant([-1.0, math.log(3.0) + 2.0]),
        }

    fields = [("Where?", "By a lake."), ("Who?", "By a lake.")]
    found, none = signatures.answer_questions(signature, fields)
    assert found["probability"] == 0.25
    expected = 3 * math.e**2 / (1 + 3 * math.e**2)
    assert none["probability"] == pytest.approx(expected, abs=1e-6)
    shown = signatures.FORMS["answer"].show(none)
    assert "(no answer) (probability 0.957, no answer has odds of 3.099 nats)" in shown
