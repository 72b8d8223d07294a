"""Runs processes in turns: while one computes, the others are stopped."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence

from albert_tf.benchmarks import rounds
from albert_tf.core import binaries

_POLL_SECONDS = 0.2


class PausableProcess:
    """A process with its children, which can be stopped and continued.

    Attributes:
      seconds: how long it was not stopped; of wall time.
    """

    def __init__(self, command: Sequence[str], log_path: str):
        """Starts the process, and stops it at once.

        Args:
          command: the program and its arguments; it runs in the repository's root.
          log_path: file for what it prints.
        """
        self.seconds = 0.0
        self._log_path = log_path
        with open(log_path, "wb") as log:
            self._process = subprocess.Popen(
                command,
                cwd=binaries.ROOT,
                env=binaries.environment(),
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._signal(signal.SIGSTOP)

    @property
    def is_done(self) -> bool:
        """Whether it has ended.

        Raises:
          rounds.Failure: with an exit code other than 0.
        """
        code = self._process.poll()
        if code:
            with open(self._log_path, encoding="utf-8", errors="replace") as log:
                lines = log.read().strip().splitlines() or ["it printed nothing"]
            raise rounds.Failure(f"it ended with code {code}: {lines[-1]}")
        return code == 0

    def run(self, seconds: float, look: Callable[[], None] = lambda: None) -> None:
        """Lets it run for some seconds, or to its end if that is earlier.

        Args:
          seconds: of wall time.
          look: called a few times a second.
        """
        began, before = time.monotonic(), self.seconds
        self._signal(signal.SIGCONT)
        while not self.is_done and self.seconds - before < seconds:
            time.sleep(_POLL_SECONDS)
            self.seconds = before + time.monotonic() - began
            look()
        self._signal(signal.SIGSTOP)

    def close(self) -> None:
        """Kills it if it has not ended."""
        if self._process.poll() is None:
            self._signal(signal.SIGKILL)
            self._process.wait()

    def _signal(self, number: int) -> None:
        if self._process.poll() is None:
            os.killpg(self._process.pid, number)


def run_in_turns(
    processes: Mapping[str, PausableProcess],
    turn_seconds: float,
    looks: Mapping[str, Callable[[], None]],
    limit_seconds: float = float("inf"),
    after_turn: Callable[[], None] = lambda: None,
) -> None:
    """Runs processes to their ends, each for `turn_seconds` at a time.

    Args:
      processes: by name.
      turn_seconds: of one turn.
      looks: called a few times a second during the turns of a name.
      limit_seconds: of a process in all its turns; then it has no more.
      after_turn: called after each turn.

    Raises:
      rounds.Failure: one of them failed.
    """
    while True:
        running = [
            name
            for name, one in processes.items()
            if not one.is_done and one.seconds < limit_seconds
        ]
        if not running:
            return
        for name in running:
            rest = limit_seconds - processes[name].seconds
            processes[name].run(min(turn_seconds, rest), looks[name])
            after_turn()
