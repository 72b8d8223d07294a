"""Runs the project's binaries as processes."""

import contextlib
import os
import pathlib
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from typing import IO

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
# Exit codes after which the same command resumes: of an outage or a run that SIGTERM
# ended, of Ctrl-C, and of a process that SIGTERM killed.
RESUMABLE = (os.EX_TEMPFAIL, 130, -signal.SIGTERM)
# The environment variable of a process that is a stage of another binary.
_STAGE = "ALBERT_TF_STAGE"
_POLL_SECONDS = 0.1


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
    process = start(module, *arguments, stdout=stdout)
    wait_for_any([process])
    return process.returncode


def start(
    module: str,
    *arguments: str,
    stdout: IO[bytes] | None = None,
    stderr: IO[bytes] | None = None,
) -> subprocess.Popen[bytes]:
    """Starts `python -m module` as a stage of this process.

    Args:
      module: such as albert_tf.pretrain.
      *arguments: its flags.
      stdout: file for what it prints; None means the output of this process.
      stderr: the same for its errors and progress.
    """
    return subprocess.Popen(
        [sys.executable, "-m", module, *arguments],
        env={**environment(), _STAGE: "1"},
        stdout=stdout,
        stderr=stderr,
    )


def wait_for_any(processes: Sequence[subprocess.Popen[bytes]]) -> int:
    """Waits until one of several processes has ended.

    All get the SIGTERM and Ctrl-C that this process gets, and it waits on, until one
    has saved and ended.

    Args:
      processes: at least one; their `returncode` tells whether they ended.

    Returns:
      The index of the first one that ended.
    """
    with _passing_on_sigterm(processes):
        while True:
            try:
                for index, process in enumerate(processes):
                    if process.poll() is not None:
                        return index
                time.sleep(_POLL_SECONDS)
            except KeyboardInterrupt:
                continue  # the terminal sends it to all


@contextlib.contextmanager
def _passing_on_sigterm(processes: Sequence[subprocess.Popen[bytes]]) -> Iterator[None]:
    def pass_on(*_: object) -> None:
        for process in processes:
            process.terminate()

    before = signal.signal(signal.SIGTERM, pass_on)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
