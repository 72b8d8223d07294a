"""oneDNN is on before TensorFlow is imported."""

import os

import pytest

from albert_tf.core import onednn
from tests.support import first_import

_VARIABLE = "TF_ENABLE_ONEDNN_OPTS"
_SHOW = f"print(os.environ.get('{_VARIABLE}'))\nraise SystemExit(0)\n"


def _shown(tmp_path, program, **variables):
    """What a module in TensorFlow's place finds when the program imports it."""
    fake = first_import.fake_tensorflow(tmp_path, _SHOW)
    done = first_import.run(program, fake, **variables)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize(
    "program",
    [
        "import albert_tf; import tensorflow",
        "import albert_tf; albert_tf.load",
        "from albert_tf.training import trainer",
        "from albert_tf.benchmarks import albert_tf_training",
    ],
)
def test_any_import_of_the_package_turns_it_on(tmp_path, program):
    assert _shown(tmp_path, program) == "1"


def test_the_user_turns_it_off(tmp_path):
    program = "import albert_tf; import tensorflow"
    assert _shown(tmp_path, program, **{_VARIABLE: "0"}) == "0"


def test_other_processors_have_the_kernels_that_tensorflow_chooses(monkeypatch):
    monkeypatch.delenv(_VARIABLE, raising=False)
    monkeypatch.setattr(onednn.platform, "machine", lambda: "aarch64")
    onednn.turn_on()
    assert _VARIABLE not in os.environ
