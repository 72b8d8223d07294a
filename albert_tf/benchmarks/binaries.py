"""Runs the project's binaries as processes."""

import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def environment() -> dict[str, str]:
    """The environment variables of a process that runs one of the binaries."""
    variables = {**os.environ, "PYTHONUNBUFFERED": "1"}
    variables.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    return variables


def run_module(module: str, *arguments: str, timeout: float | None = None) -> None:
    """Runs `python -m module` to its end.

    Args:
      module: such as albert_tf.export.
      *arguments: its flags.
      timeout: seconds, after which it is killed; None waits as long as it takes.

    Raises:
      ValueError: it failed; the message ends with its last line.
      subprocess.TimeoutExpired: it did not end in time.
    """
    done = subprocess.run(
        [sys.executable, "-m", module, *arguments],
        cwd=ROOT,
        env=environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        check=False,
        timeout=timeout,
    )
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        raise ValueError(f"{module} failed: {lines[-1]}")
