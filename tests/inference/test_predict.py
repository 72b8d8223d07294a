"""The binary checks flags and files without TensorFlow, by the rules of its room."""

import subprocess
import sys

import pytest

from albert_tf import predict as binary
from albert_tf.inference import predict

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
