"""Mistakes in the flags of `python -m albert_tf.plan`."""

import importlib.util

import pytest

from albert_tf import plan
from tests.support import binaries


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "give one of --export_step and --run_exported"),
        (("--export_step=a", "--run_exported=b"), "give one of"),
        (
            ("--export_step=a", "--config=configs/finetune_rte.py"),
            "task.name must be empty in a recipe for pre-training",
        ),
        (("--run_exported=absent",), "--run_exported: there is no directory absent"),
    ],
)
def test_mistakes_are_one_line(arguments, message, capsys):
    assert message in binaries.error_of(capsys, plan, *arguments)


@pytest.mark.skipif(
    importlib.util.find_spec("jax") is not None, reason="JAX is installed here"
)
def test_a_missing_jax_is_named_with_its_remedy(tmp_path, capsys):
    error = binaries.error_of(capsys, plan, f"--run_exported={tmp_path}")
    assert "pip install -r requirements-jax.txt" in error
