"""Watchdog of a running loop: reports a step that takes too long."""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator

import tensorflow as tf


class Watchdog:
    """Within its `with`, reports a loop that takes longer than `seconds` for a step.

    The loop sets `heartbeat` as described in `loops.Signals`. A report is repeated each
    time the waiting time has doubled.
    """

    def __init__(
        self, heartbeat: tf.Variable, seconds: float, report: Callable[[str], None]
    ):
        """Takes the int64 scalar to watch, and the function that reports a line."""
        self._heartbeat = heartbeat
        self._seconds = seconds
        self._report = report
        self._first_step = 0
        self._running = False
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> "Watchdog":
        self._thread.start()
        return self

    def __exit__(self, *_) -> None:
        self._ended.set()
        self._thread.join()

    @contextlib.contextmanager
    def watching(self, step: int) -> Iterator[None]:
        """Watches the loop that runs within and starts at `step`."""
        self._heartbeat.assign(-1)
        self._first_step, self._running = step, True
        yield
        self._running = False

    def _watch(self) -> None:
        seen, since, limit = -1, time.monotonic(), self._seconds
        while not self._ended.wait(min(1.0, self._seconds / 4)):
            now = time.monotonic()
            heartbeat = int(self._heartbeat.numpy())
            if not self._running or heartbeat != seen or heartbeat < 0:
                seen, since, limit = heartbeat, now, self._seconds
            elif now - since >= limit:
                self._report(_silence(self._first_step, heartbeat, now - since))
                limit *= 2


def _silence(first_step: int, heartbeat: int, seconds: float) -> str:
    step, is_computing = first_step + heartbeat // 2 + 1, heartbeat % 2
    if is_computing:
        return (
            f"step {step} has been running for {seconds:.0f} s: the devices are slow, "
            "another worker is lost, or the step is being compiled"
        )
    return (
        f"step {step} has waited for its batch for {seconds:.0f} s: the records are "
        "read too slowly, or not at all"
    )
