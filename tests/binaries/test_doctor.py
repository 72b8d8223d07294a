"""doctor finds what is wrong with a machine, and nothing where nothing is."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

from albert_tf import doctor
from tests.repository import project_files
from tests.support import binaries

# What needs no TensorFlow.
QUICK = "--checks=versions,cpu,memory,disk,storage,clock"


def _run(*arguments, path: pathlib.Path | None = None) -> subprocess.CompletedProcess:
    """Runs it with modules of `path` in place of the installed ones."""
    return subprocess.run(
        [sys.executable, "-m", "albert_tf.doctor", *map(str, arguments)],
        cwd=project_files.ROOT,
        env={**os.environ, "PYTHONPATH": str(path or "")},
        capture_output=True,
        text=True,
        timeout=600,
    )


def test_machine_without_fault(tmp_path, capsys):
    (tmp_path / "records").mkdir()
    (tmp_path / "records" / "manifest.json").write_text("{}")
    binaries.run(
        doctor,
        QUICK,
        f"--model_dir={tmp_path / 'run'}",
        f"--data_dir={tmp_path / 'records'}",
        f"--json={tmp_path / 'found.json'}",
        "--min_free_gb=0",
    )
    *lines, last = capsys.readouterr().out.splitlines()
    assert last.startswith("nothing failed; ")
    found = json.loads((tmp_path / "found.json").read_text())
    assert found["exit_code"] == 0
    checks = [one["check"] for one in found["findings"]]
    expected = ["versions", "versions", "cpu", "memory", "disk", "disk"]
    assert checks == [*expected, "storage", "storage", "clock"]
    assert [line.split()[1] for line in lines] == checks
    by_check = {one["check"]: one["values"] for one in found["findings"]}
    assert by_check["clock"]["storage_ahead_seconds"].keys() == {f"{tmp_path}/run"}
    assert by_check["disk"]["free_bytes"] > 0
    assert not (tmp_path / "run").exists()


def test_storage_alone_needs_a_directory_and_a_file_is_none(tmp_path):
    done = _run("--checks=storage")
    assert done.returncode == 1
    assert "--checks=storage needs --model_dir or --data_dir" in done.stderr
    (tmp_path / "file").write_text("")
    done = _run("--checks=storage", f"--model_dir={tmp_path}/file")
    assert done.returncode == 1
    assert f"{tmp_path}/file is a file and not a directory" in done.stdout


def test_failed_checks_are_named_in_the_last_line(tmp_path):
    done = _run("--checks=disk,storage", f"--data_dir={tmp_path}/absent")
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    assert lines[1].startswith(f"FAILED   storage   --data_dir={tmp_path}/absent")
    assert lines[1].endswith(". Check the name")
    assert done.stderr == "error: 1 of 2 findings FAILED: storage\n"


def test_storage_that_does_not_answer_ends_with_75(monkeypatch, capsys):
    monkeypatch.setattr(
        "albert_tf.diagnostics.storage._MODEL_DIR", "import time; time.sleep(1000)"
    )
    with pytest.raises(SystemExit) as stopped:
        binaries.run(
            doctor, "--checks=storage", "--model_dir=gs://b", "--timeout_seconds=1"
        )
    assert stopped.value.code == os.EX_TEMPFAIL
    assert "gs://b: no end within 1 s. Does the machine" in capsys.readouterr().out


@pytest.mark.slow
def test_broken_wheels_are_found_though_tensorflow_crashes(tmp_path):
    crash = "import os, signal; os.kill(os.getpid(), signal.SIGILL)\n"
    (tmp_path / "tensorflow.py").write_text(crash)
    (tmp_path / "numba.py").write_text("raise ImportError('libLLVM.so: not found')\n")
    (tmp_path / "numpy.py").write_text("raise ModuleNotFoundError('no numpy')\n")
    done = _run("--checks=imports,gpu,tpu,products,clock", path=tmp_path)
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    assert "Traceback" not in done.stdout + done.stderr
    failed = [line for line in lines if line.startswith("FAILED")]
    for text in (
        "import numba: ImportError: libLLVM.so: not found",
        "import numpy: ModuleNotFoundError: no numpy. Install the pinned packages",
        "import tensorflow: crashed with SIGILL. The wheel uses instructions",
        "import tensorflow_text: crashed with SIGILL",
        "products  TensorFlow does not start: ",
    ):
        assert any(text in line for line in failed), done.stdout
    assert lines[-1].split()[:2] == ["OK", "clock"]
    assert done.stderr.startswith("error: ")


@pytest.mark.slow
def test_devices_of_this_machine_multiply(tmp_path):
    done = _run("--checks=gpu,tpu,products", f"--json={tmp_path / 'found.json'}")
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads((tmp_path / "found.json").read_text())["findings"]
    [cpu, *_] = [one["values"] for one in found if one["check"] == "products"]
    assert cpu["device"] == "CPU:0"
    assert [rate["dtype"] for rate in cpu["rates"]] == ["float32", "bfloat16"]
    for rate in cpu["rates"]:
        assert rate["is_right"]
        assert rate["flops"] == pytest.approx(2 * 2048**3 / rate["seconds"])
