"""Python code in a process of its own, which may crash or hang."""

import dataclasses
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

from albert_tf.core import strict_json

# Time between SIGKILL and giving a process up that a driver holds in the kernel.
_REAP_SECONDS = 5.0


@dataclasses.dataclass(frozen=True)
class Outcome:
    """How a process ended.

    Attributes:
      code: its exit code, minus the signal's number if one ended it, or None if it was
        killed at the time limit.
      output, errors: what it wrote to standard output and standard error.
      seconds: how long it ran.
    """

    code: int | None
    output: str = ""
    errors: str = ""
    seconds: float = 0.0

    def describe(self) -> str:
        """Returns in one line how it ended, unless its exit code is 0."""
        if self.code is None:
            return f"no end within {self.seconds:.0f} s"
        last = self.last_line()
        if self.code < 0:
            said = f" (last line: {last})" if last else ""
            return f"crashed with {self.signal_name()}{said}"
        return last or f"exit code {self.code}"

    def signal_name(self) -> str:
        """Returns the name of the signal that ended it, such as SIGILL, or ""."""
        if self.code is None or self.code >= 0:
            return ""
        try:
            return signal.Signals(-self.code).name
        except ValueError:
            return f"signal {-self.code}"

    def last_line(self) -> str:
        """Returns the last line of its errors, shortened."""
        written = [line.strip() for line in self.errors.splitlines() if line.strip()]
        last = written[-1] if written else ""
        return last if len(last) <= 200 else f"{last[:200]}..."

    def values(self) -> list[dict[str, Any]]:
        """Returns the lines of its output that are JSON objects."""
        found = []
        for line in self.output.splitlines():
            if line.startswith("{"):
                try:
                    found.append(strict_json.loads(line, "the output", lenient=True))
                except ValueError:  # cut off by the time limit
                    continue
        return found


def run(
    code: str,
    arguments: Sequence[str],
    timeout_seconds: float,
    environment: Mapping[str, str] | None = None,
) -> Outcome:
    """Runs Python code, and returns at the time limit even if it cannot be killed."""
    return run_command(
        [sys.executable, "-c", code, *arguments], timeout_seconds, environment
    )


def run_command(
    command: Sequence[str],
    timeout_seconds: float,
    environment: Mapping[str, str] | None = None,
) -> Outcome:
    """Runs a command as `run` does; FileNotFoundError if there is no such program."""
    started = time.monotonic()
    # In memory: a pipe would have to be read until the process is gone, and a disk may
    # be full.
    with _memory_file() as output, _memory_file() as errors:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=errors,
            env={**os.environ, **(environment or {})},
        )
        try:
            process.wait(timeout_seconds)
            code: int | None = process.returncode
        except subprocess.TimeoutExpired:
            code = None
        finally:
            _kill(process)
        return Outcome(
            code, _text_of(output), _text_of(errors), time.monotonic() - started
        )


def _memory_file():
    return os.fdopen(os.memfd_create("doctor"), "w+b")


def _text_of(file) -> str:
    # The offset is shared with a process that may still write.
    size = os.fstat(file.fileno()).st_size
    return os.pread(file.fileno(), size, 0).decode(errors="replace")


def _kill(process: subprocess.Popen) -> None:
    if process.poll() is None:
        process.kill()
        try:
            process.wait(_REAP_SECONDS)
        except subprocess.TimeoutExpired:
            return  # in the kernel, where no signal reaches it
