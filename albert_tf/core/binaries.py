"""Runs the project's binaries as processes."""

import contextlib
import os
import pathlib
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import IO

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
# Exit codes after which the same command resumes: of an outage or a run that SIGTERM
# ended, of Ctrl-C, and of a process that SIGTERM killed.
RESUMABLE = (os.EX_TEMPFAIL, 130, -signal.SIGTERM)
# The environment variable of a process that is a stage of another binary.
_STAGE = "ALBERT_TF_STAGE"


def environment() -> dict[str, str]:
    """The environment variables of a process that runs one of the binaries."""
    variables = {**os.environ, "PYTHONUNBUFFERED": "1"}
    variables.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    return variables


def is_stage() -> bool:
    """Returns whether another binary runs this process, and knows what follows."""
    return _STAGE in os.environ


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


def run_attached(module: str, *arguments: str, stdout: IO[bytes] | None = None) -> int:
    """Runs `python -m module` to its end, with the output of this process.

    It gets SIGTERM and Ctrl-C too, and this process waits until it has saved and ended.

    Args:
      module: such as albert_tf.pretrain.
      *arguments: its flags.
      stdout: file for what it prints; None means the output of this process.

    Returns:
      Its exit code.
    """
    process = subprocess.Popen(
        [sys.executable, "-m", module, *arguments],
        env={**environment(), _STAGE: "1"},
        stdout=stdout,
    )
    with _passing_on_sigterm(process):
        while True:
            try:
                return process.wait()
            except KeyboardInterrupt:
                continue  # the terminal sends it to both


@contextlib.contextmanager
def _passing_on_sigterm(process: subprocess.Popen) -> Iterator[None]:
    before = signal.signal(signal.SIGTERM, lambda *_: process.terminate())
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
