"""What the console shows of the import of TensorFlow."""

import os
import subprocess
import sys

import pytest

from albert_tf.core import tensorflow_import
from tests.repository import project_files

_LINE = "loading TensorFlow, a few seconds\n"
_IMPORT = """
from albert_tf.core import tensorflow_import
tensorflow_import.install()
import tensorflow
"""
# Makes a function seven times, as a command does with models of several seeds.
_RETRACE = """
for number in range(7):
    tensorflow.function(lambda x: 2 * x)(tensorflow.constant(1.0))
"""
# Lists the devices, and compiles: each logs without a fault.
_COMPUTE = """
tensorflow.function(lambda x: 2 * x, jit_compile=True)(tensorflow.constant(1.0))
"""


def _stderr(program, *folders, **variables):
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    paths = os.pathsep.join([*map(str, folders), str(project_files.ROOT)])
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**kept, "PYTHONPATH": paths, **variables},
        capture_output=True,
        text=True,
        timeout=120,
    )
    return done.returncode, done.stderr


def _fake(tmp_path, source):
    folder = tmp_path / "tensorflow"
    folder.mkdir()
    (folder / "__init__.py").write_text(f"import os\n{source}")
    return tmp_path


def test_nothing_but_a_line_is_shown_without_a_fault():
    assert _stderr(_IMPORT + _COMPUTE, CUDA_VISIBLE_DEVICES="") == (0, _LINE)


def test_functions_that_are_made_again_are_no_news_to_users():
    code, shown = _stderr(_IMPORT + _RETRACE, CUDA_VISIBLE_DEVICES="")
    assert (code, shown) == (0, _LINE)
    code, shown = _stderr(_IMPORT + _RETRACE, TF_CPP_MIN_LOG_LEVEL="0")
    assert code == 0 and "triggered tf.function retracing" in shown


def test_what_an_import_that_fails_logs_is_shown(tmp_path):
    source = "os.write(2, b'E no such library\\n')\nraise ImportError('lib')\n"
    code, shown = _stderr(_IMPORT, _fake(tmp_path, source))
    assert code == 1
    assert shown.startswith(f"{_LINE}E no such library\n") and "ImportError" in shown


def test_the_package_is_as_quiet_and_prints_no_line(tmp_path):
    source = """
import sys
print(os.environ['TF_CPP_MIN_LOG_LEVEL'], file=sys.stderr)
sys.exit(0)
"""
    fake = _fake(tmp_path, source)
    use = "import albert_tf; albert_tf.load"
    assert _stderr(use, fake, CUDA_VISIBLE_DEVICES="") == (0, "3\n")
    assert _stderr(use, fake, TF_CPP_MIN_LOG_LEVEL="1") == (0, "1\n")


def test_the_user_sets_the_level(tmp_path):
    source = "print(os.environ['TF_CPP_MIN_LOG_LEVEL'], file=__import__('sys').stderr)"
    fake = _fake(tmp_path, source)
    assert _stderr(_IMPORT, fake, TF_CPP_MIN_LOG_LEVEL="0") == (0, f"{_LINE}0\n")


@pytest.mark.parametrize(
    ("file", "variables", "level"),
    [
        ("/absent", {}, "3"),
        ("/", {}, "2"),
        ("/", {"CUDA_VISIBLE_DEVICES": "-1"}, "3"),
        ("/", {"CUDA_VISIBLE_DEVICES": "0"}, "2"),
        ("/absent", {"TF_CONFIG": "{}"}, "2"),
    ],
)
def test_errors_of_accelerators_and_workers_are_shown(
    monkeypatch, file, variables, level
):
    monkeypatch.setattr(tensorflow_import, "_ACCELERATORS", (file,))
    for name in ("CUDA_VISIBLE_DEVICES", "TF_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert tensorflow_import.log_level() == level
