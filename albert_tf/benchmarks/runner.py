"""Runs implementations of one case in processes, and times them in rounds.

Each implementation builds its model in its own process and then waits, so that only one
computes at any time. The matrix product is timed before and after each of them.
"""

import contextlib
import dataclasses
import functools
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from typing import Any

from albert_tf.benchmarks import model_cases, rounds
from albert_tf.core import binaries, tool_environment

_SECONDS_TO_END = 30


@dataclasses.dataclass(frozen=True)
class CallTimes:
    """The times of an implementation in one round.

    Attributes:
      seconds: of each call.
      matmul_rates: floating-point operations a second of the matrix product in the
        implementation's dtype, before and after the calls.
    """

    seconds: tuple[float, ...]
    matmul_rates: tuple[float, ...]

    @property
    def median_seconds(self) -> float:
        """The median over the calls."""
        return statistics.median(self.seconds)


@dataclasses.dataclass(frozen=True)
class Outcome:
    """The measurements of one implementation.

    Attributes:
      implementation: what was measured.
      rounds: the times, round by round.
      peak_bytes: peak resident memory of the process, or 0 where the system does not
        report it (there is no /proc).
      first_value: result of the first call; in training the loss.
      first_seconds: time to build the model and make the first call, which compiles.
    """

    implementation: model_cases.Implementation
    rounds: tuple[CallTimes, ...]
    peak_bytes: int
    first_value: float
    first_seconds: float


def find_python(environment: str) -> str:
    """The interpreter of an environment, which is created if it does not exist.

    Args:
      environment: as in `model_cases.Implementation`.

    Raises:
      rounds.Failure: it cannot be created.
    """
    if not environment:
        return sys.executable
    folder = binaries.ROOT / "build" / f"bench-{environment}"
    try:
        return tool_environment.make(folder, f"requirements-bench-{environment}.txt")
    except ValueError as error:
        raise rounds.Failure(str(error)) from error


class Process:
    """The process of an implementation that is ready to be timed on a case.

    Raises:
      rounds.Failure: it ended before it was ready.
    """

    def __init__(
        self,
        python: str,
        implementation: model_cases.Implementation,
        case: model_cases.Case,
    ):
        request = json.dumps(model_cases.make_request(case, implementation))
        server = ["-m", "albert_tf.benchmarks.step_server", implementation.module]
        self.implementation = implementation
        self._log = tempfile.TemporaryFile("w+", errors="replace")
        # Any: typed, its pipes could be None, which they are not.
        self._process: Any = subprocess.Popen(
            [python, *server, request],
            cwd=binaries.ROOT,
            env=os.environ | implementation.variables,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )
        try:
            self.ready = self._answer()
        except BaseException:
            self.close()
            raise

    def time_calls(self) -> list[float]:
        """The seconds of each call of one round.

        Raises:
          rounds.Failure: the process ended.
        """
        with contextlib.suppress(BrokenPipeError):  # `_answer` gives the reason.
            print(file=self._process.stdin, flush=True)
        return self._answer()["seconds"]

    def _answer(self) -> dict:
        line = self._process.stdout.readline()
        if line:
            return json.loads(line)
        code = self._process.wait()
        self._log.seek(0)
        last_line = tool_environment.last_line(self._log.read())
        raise rounds.Failure(f"it ended with code {code}: {last_line}")

    def peak_bytes(self) -> int:
        """Peak resident memory so far, or 0 where it is not known."""
        with contextlib.suppress(OSError):
            status = pathlib.Path(f"/proc/{self._process.pid}/status").read_text()
            for line in status.splitlines():
                if line.startswith("VmHWM:"):
                    return int(line.split()[1]) << 10
        return 0

    def close(self) -> None:
        """Ends the process."""
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(_SECONDS_TO_END)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
        self._log.close()


def start_process(
    implementation: model_cases.Implementation, case: model_cases.Case
) -> Process:
    """A process that is ready to be timed.

    Raises:
      rounds.Failure: its environment cannot be created, or it ended.
    """
    python = _find_python_once(implementation.environment)
    if isinstance(python, rounds.Failure):
        raise python
    return Process(python, implementation, case)


@functools.cache
def _find_python_once(environment: str) -> str | rounds.Failure:
    """The interpreter or the failure, so that an installation is tried only once."""
    try:
        return find_python(environment)
    except rounds.Failure as failure:
        return failure


def measure(
    case: model_cases.Case,
    implementations: Iterable[model_cases.Implementation],
    num_rounds: int,
    matmul_rate: Callable[[str], float],
    start: Callable[[model_cases.Implementation, model_cases.Case], Process],
) -> tuple[list[Outcome], dict[str, str]]:
    """Times implementations of a case.

    Args:
      case: what each computes.
      implementations: what is compared.
      num_rounds: how often each is timed.
      matmul_rate: measures the current rate of the matrix product in a dtype.
      start: creates a process that is ready, or raises `rounds.Failure`.

    Returns:
      The outcomes in the order of `implementations`; and, by the names of those that
      failed, the reasons.
    """
    missing: dict[str, str] = {}
    with contextlib.ExitStack() as stack:
        processes: dict[str, Process] = {}
        for implementation in implementations:
            try:
                process = start(implementation, case)
            except rounds.Failure as failure:
                missing[implementation.name] = str(failure)
            else:
                processes[implementation.name] = process
                stack.callback(process.close)
        times, failures = rounds.run_rounds(
            {
                name: functools.partial(time_calls, process, matmul_rate)
                for name, process in processes.items()
            },
            num_rounds,
        )
        outcomes = [
            Outcome(
                processes[name].implementation,
                tuple(its_times),
                processes[name].peak_bytes(),
                **processes[name].ready,
            )
            for name, its_times in times.items()
        ]
    return outcomes, missing | failures


def time_calls(process: Process, matmul_rate: Callable[[str], float]) -> CallTimes:
    """Times the calls of one round, with the matrix product before and after."""
    dtype = process.implementation.dtype
    before = matmul_rate(dtype)
    seconds = process.time_calls()
    return CallTimes(tuple(seconds), (before, matmul_rate(dtype)))
