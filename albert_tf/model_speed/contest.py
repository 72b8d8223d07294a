"""Contestants as processes, which take turns at one case.

Each builds its model in a process of its own and then waits for its turn, so that only
one computes at any time. They are asked one after another, round after round, with the
matrix product probed between any two: what else happens on the machine hits all alike.
"""

import contextlib
import dataclasses
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from albert_tf.model_speed import cases

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
_SECONDS_TO_END = 30


class Failure(Exception):
    """Why a contestant is not measured, in a line."""


@dataclasses.dataclass(frozen=True)
class Turn:
    """One turn of a contestant.

    Attributes:
      seconds: of each call.
      matmul_rates: floating-point operations a second of the matrix product in the
        contestant's dtype, before and after the turn.
    """

    seconds: tuple[float, ...]
    matmul_rates: tuple[float, ...]

    @property
    def typical_seconds(self) -> float:
        """The median of the calls."""
        return statistics.median(self.seconds)


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What was measured of a contestant.

    Attributes:
      contestant: who it is.
      turns: one a round.
      peak_bytes: the most memory that its process ever held, or 0 where the system
        does not say (there is no /proc).
      first_value: what its first call gave; in training the loss.
      first_seconds: until that call was over, compilation and all.
    """

    contestant: cases.Contestant
    turns: tuple[Turn, ...]
    peak_bytes: int
    first_value: float
    first_seconds: float


def find_python(environment: str) -> str:
    """The interpreter of an environment, which is made where it is not there yet.

    Args:
      environment: as in `cases.Contestant`.

    Raises:
      Failure: it cannot be made.
    """
    if not environment:
        return sys.executable
    requirements = f"requirements-bench-{environment}.txt"
    folder = ROOT / "build" / f"bench-{environment}"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / requirements).write_bytes((ROOT / requirements).read_bytes())
    # It pins all by itself; those of the repository are not the peers'.
    (folder / "constraints.txt").write_bytes(b"")
    done = subprocess.run(
        [str(ROOT / ".ci" / "make_venv"), "venv", requirements],
        cwd=folder,
        env=os.environ | {"PYTHON": sys.executable},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    if done.returncode:
        why = _last_line(done.stderr, "ERROR:")
        raise Failure(f"{requirements} could not be installed: {why}")
    return str(folder / "venv" / "bin" / "python")


def _last_line(text: str, start: str = "") -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    marked = [line for line in lines if line.startswith(start)]
    return (marked or lines or ["it said nothing"])[-1]


class Process:
    """A contestant that is ready for its turns at a case.

    Raises:
      Failure: it ended before it was ready.
    """

    def __init__(self, python: str, contestant: cases.Contestant, case: cases.Case):
        request = json.dumps(cases.make_request(case, contestant))
        server = ["-m", "albert_tf.model_speed.step_server", contestant.module]
        self.contestant = contestant
        self._log = tempfile.TemporaryFile("w+", errors="replace")
        # Any: typed, its pipes could be None, which they are not.
        self._process: Any = subprocess.Popen(
            [python, *server, request],
            cwd=ROOT,
            env=os.environ | contestant.variables,
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

    def take_turn(self) -> list[float]:
        """The seconds of each call of one turn.

        Raises:
          Failure: the process ended.
        """
        with contextlib.suppress(BrokenPipeError):  # The answer says why.
            print(file=self._process.stdin, flush=True)
        return self._answer()["seconds"]

    def _answer(self) -> dict:
        line = self._process.stdout.readline()
        if line:
            return json.loads(line)
        code = self._process.wait()
        self._log.seek(0)
        raise Failure(f"it ended with code {code}: {_last_line(self._log.read())}")

    def peak_bytes(self) -> int:
        """The most memory that was resident at once so far, or 0."""
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


def measure(
    case: cases.Case,
    contestants: Iterable[cases.Contestant],
    num_rounds: int,
    matmul_rate: Callable[[str], float],
    start: Callable[[cases.Contestant, cases.Case], Process],
) -> tuple[list[Outcome], dict[str, str]]:
    """Lets contestants take turns at a case.

    Args:
      case: what each computes.
      contestants: who takes part.
      num_rounds: turns of each. Each round begins with another one.
      matmul_rate: gives the rate of the matrix product in a dtype, measured now.
      start: makes a process that is ready, or raises a `Failure`.

    Returns:
      What was measured, in the order of `contestants`; and, by the names of those that
      failed, why.
    """
    missing: dict[str, str] = {}
    with contextlib.ExitStack() as stack:
        processes: dict[str, Process] = {}
        for contestant in contestants:
            try:
                processes[contestant.name] = process = start(contestant, case)
            except Failure as failure:
                missing[contestant.name] = str(failure)
            else:
                stack.callback(process.close)
        turns = _take_turns(processes, num_rounds, matmul_rate, missing)
        outcomes = [
            Outcome(
                processes[name].contestant,
                tuple(taken),
                processes[name].peak_bytes(),
                **processes[name].ready,
            )
            for name, taken in turns.items()
        ]
    return outcomes, missing


def _take_turns(
    processes: Mapping[str, Process],
    num_rounds: int,
    matmul_rate: Callable[[str], float],
    missing: dict[str, str],
) -> dict[str, list[Turn]]:
    """The turns of those that come through; adds the others to `missing`."""
    turns: dict[str, list[Turn]] = {name: [] for name in processes}
    for number in range(num_rounds):
        names = list(turns)
        first = number % max(1, len(names))
        for name in names[first:] + names[:first]:
            process = processes[name]
            dtype = process.contestant.dtype
            before = matmul_rate(dtype)
            try:
                seconds = process.take_turn()
            except Failure as failure:
                missing[name] = str(failure)
                del turns[name]
            else:
                rates = (before, matmul_rate(dtype))
                turns[name].append(Turn(tuple(seconds), rates))
    return turns
