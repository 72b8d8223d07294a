"""What the console shows of TensorFlow."""

import pytest

from albert_tf.core import tensorflow_console
from tests.support import first_import

_LINE = "loading TensorFlow, a few seconds\n"
_IMPORT = """
from albert_tf.core import tensorflow_console
tensorflow_console.install()
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
    done = first_import.run(program, *folders, **variables)
    return done.returncode, done.stderr


def test_nothing_but_a_line_is_shown_without_a_fault():
    assert _stderr(_IMPORT + _COMPUTE, CUDA_VISIBLE_DEVICES="") == (0, _LINE)


def test_functions_that_are_made_again_are_no_news_to_users():
    code, shown = _stderr(_IMPORT + _RETRACE, CUDA_VISIBLE_DEVICES="")
    assert (code, shown) == (0, _LINE)
    code, shown = _stderr(_IMPORT + _RETRACE, TF_CPP_MIN_LOG_LEVEL="0")
    assert code == 0 and "triggered tf.function retracing" in shown


def test_what_an_import_that_fails_logs_is_shown(tmp_path):
    source = "os.write(2, b'E no such library\\n')\nraise ImportError('lib')\n"
    code, shown = _stderr(_IMPORT, first_import.fake_tensorflow(tmp_path, source))
    assert code == 1
    assert shown.startswith(f"{_LINE}E no such library\n") and "ImportError" in shown


def test_the_package_is_as_quiet_and_prints_no_line(tmp_path):
    source = """
import sys
print(os.environ['TF_CPP_MIN_LOG_LEVEL'], file=sys.stderr)
sys.exit(0)
"""
    fake = first_import.fake_tensorflow(tmp_path, source)
    use = "import albert_tf; albert_tf.load"
    assert _stderr(use, fake, CUDA_VISIBLE_DEVICES="") == (0, "3\n")
    assert _stderr(use, fake, TF_CPP_MIN_LOG_LEVEL="1") == (0, "1\n")


def test_the_user_sets_the_level(tmp_path):
    source = "print(os.environ['TF_CPP_MIN_LOG_LEVEL'], file=__import__('sys').stderr)"
    fake = first_import.fake_tensorflow(tmp_path, source)
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
    monkeypatch.setattr(tensorflow_console, "_ACCELERATORS", (file,))
    for name in ("CUDA_VISIBLE_DEVICES", "TF_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert tensorflow_console.log_level() == level
