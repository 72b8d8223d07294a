"""JAX compiles and runs the exported train step, without TensorFlow."""

import importlib.util
import json
import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Small, of one layer: compiling takes longer than all steps.
SETTINGS = (
    "model.vocab_size=50",
    "model.embedding_size=10",
    "model.hidden_size=12",
    "model.num_layers=1",
    "model.num_heads=2",
    "model.intermediate_size=20",
    "model.max_positions=24",
    "data.max_seq_length=24",
    "optimizer.learning_rate=0.05",
    "train.compute_dtype=bfloat16",
)


def _plan(python: str, *arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [python, "-m", "albert_tf.plan", *arguments],
        cwd=ROOT,
        # JAX looks for no other devices.
        env={**os.environ, "JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> pathlib.Path:
    """A step that the product's environment exported."""
    return _export(tmp_path_factory.mktemp("exported"))


def _export(path: pathlib.Path, *settings: str) -> pathlib.Path:
    flags = (f"--set={setting}" for setting in (*SETTINGS, *settings))
    done = _plan(
        *(os.environ["ALBERT_TF_PYTHON"], f"--export_step={path}", "--global_batch=3"),
        *flags,
    )
    assert done.returncode == 0, done.stderr
    return path


def test_steps_learn_the_batch(folder, tmp_path):
    assert importlib.util.find_spec("tensorflow") is None
    done = _plan(
        *(sys.executable, f"--run_exported={folder}", "--platform=cpu"),
        *("--num_steps=20", "--peak_teraflops=0.5", f"--json={tmp_path / 'run.json'}"),
    )
    assert done.returncode == 0, done.stderr
    figures = json.loads((tmp_path / "run.json").read_text())
    assert json.loads(done.stdout) == figures
    assert figures["first_loss"] == pytest.approx(4.6, abs=0.4)  # ln 50 + ln 2
    assert figures["last_loss"] < figures["first_loss"] - 1.0
    assert figures["num_skipped"] == 0
    assert (figures["device"], figures["batch_size"]) == ("cpu", 3)
    assert (figures["peak_bytes"], figures["planned_bytes"]["total"] > 0) == (
        None,
        True,
    )
    seconds = figures["queued_step_ms"] / 1e3
    assert figures["tokens_per_second"] == pytest.approx(3 * 24 / seconds)
    rate = figures["model_flops"] / seconds
    assert figures["model_flops_per_second"] == pytest.approx(rate)
    assert figures["share_of_peak"] == pytest.approx(rate / 0.5e12)
    times = figures["step_ms"]
    assert 0 < times["min"] <= times["median"] <= times["max"]


def test_steps_learn_a_batch_of_packed_rows(tmp_path):
    folder = _export(tmp_path / "packed", "data.pack_sequences=2")
    done = _plan(
        *(sys.executable, f"--run_exported={folder}", "--platform=cpu"),
        "--num_steps=20",
    )
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout)
    assert (figures["max_seq_length"], figures["pack_sequences"]) == (24, 2)
    assert figures["last_loss"] < figures["first_loss"] - 1.0
    seconds = figures["queued_step_ms"] / 1e3
    assert figures["tokens_per_second"] == pytest.approx(3 * 48 / seconds)


def test_without_an_accelerator_it_says_so(folder):
    done = _plan(sys.executable, f"--run_exported={folder}")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines()[-1] == (
        "error: JAX finds no accelerator, only a CPU; install JAX for this machine's "
        "accelerator, or pass --platform=cpu"
    )
