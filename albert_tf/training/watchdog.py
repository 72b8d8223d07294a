"""Watchdog of a run: reports what takes too long, and ends what hangs."""

import contextlib
import dataclasses
import threading
import time
from collections.abc import Callable, Iterator

import tensorflow as tf


@dataclasses.dataclass(frozen=True)
class Place:
    """A part of a run that takes too long.

    Attributes:
      name: "step 13", "the evaluation at step 12" or "the save of step 12".
      state: what it has been doing, such as "has been running".
      reason: what the reason may be.
      step: the number of the step; of an evaluation, the steps before it; of what
        follows the last step, that step plus 1; None for what only depends on the
        storage.
      is_step: whether it is a step.
    """

    name: str
    state: str
    reason: str
    step: int | None = None
    is_step: bool = False

    def line(self, seconds: float) -> str:
        """Returns a line about it.

        Args:
          seconds: how long nothing has happened.
        """
        return f"{self.name} {self.state} for {seconds:.0f} s: {self.reason}"


class Watchdog:
    """Within its `with`, a thread watches what the run is doing.

    A loop sets `heartbeat` as described in `loops.Signals`. Without a change of it for
    `stall_seconds`, a line is reported, and again each time the waiting time has
    doubled; after `hang_seconds`, `end` is called, once.
    """

    def __init__(
        self,
        heartbeat: tf.Variable,
        stall_seconds: float,
        hang_seconds: float,
        report: Callable[[str], None],
        end: Callable[[Place, float], None],
    ):
        """Takes the int64 scalar to watch, two times, and what to call.

        Args:
          heartbeat: set by loops.
          stall_seconds: see above.
          hang_seconds: see above.
          report: takes a line.
          end: takes the place and the seconds that nothing happened; it should not
            return.
        """
        self._heartbeat = heartbeat
        self._stall_seconds = stall_seconds
        self._hang_seconds = hang_seconds
        self._report = report
        self._end = end
        # What is being done: a place as a function of the heartbeat, made for each.
        self._doing: Callable[[int], Place] | None = None
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> "Watchdog":
        self._thread.start()
        return self

    def __exit__(self, *_) -> None:
        self._ended.set()
        self._thread.join()

    def steps(self, first_step: int) -> contextlib.AbstractContextManager[None]:
        """Watches the loop within, which starts at `first_step`."""
        return self._loop(lambda heartbeat: _step(first_step, heartbeat))

    def evaluation(self, step: int) -> contextlib.AbstractContextManager[None]:
        """Watches the evaluation within, after `step` steps."""
        return self._loop(
            lambda heartbeat: Place(
                f"the evaluation at step {step}",
                f"has been in its batch {heartbeat + 1}",
                "the devices or the storage are slow, or it is being compiled",
                step,
            )
        )

    def prediction(
        self, name: str, step: int
    ) -> contextlib.AbstractContextManager[None]:
        """Watches the prediction within, which follows the last step, `step`."""
        reason = "the devices or the storage are slow, or it is being compiled"
        return self._task(Place(name, "has been running", reason, step + 1))

    def task(self, name: str) -> contextlib.AbstractContextManager[None]:
        """Watches what is within, which has no heartbeat and waits for the storage."""
        return self._task(
            Place(name, "has been running", "the storage is slow, or hangs")
        )

    @contextlib.contextmanager
    def _task(self, place: Place) -> Iterator[None]:
        with self._is_doing(lambda _: place):
            self._heartbeat.assign(0)
            yield

    @contextlib.contextmanager
    def _loop(self, place: Callable[[int], Place]) -> Iterator[None]:
        self._heartbeat.assign(-1)
        with self._is_doing(place):
            yield

    @contextlib.contextmanager
    def _is_doing(self, place: Callable[[int], Place]) -> Iterator[None]:
        self._doing = place
        try:
            yield
        finally:
            self._doing = None

    def _watch(self) -> None:
        seen: tuple[object, int] = (None, -1)
        since, limit = time.monotonic(), self._stall_seconds
        interval = min(1.0, self._stall_seconds / 4, self._hang_seconds / 4)
        while not self._ended.wait(interval):
            now, doing = time.monotonic(), self._doing
            heartbeat = int(self._heartbeat.numpy())
            if (doing, heartbeat) != seen or doing is None or heartbeat < 0:
                seen, since, limit = (doing, heartbeat), now, self._stall_seconds
            elif now - since >= self._hang_seconds:
                self._end(doing(heartbeat), now - since)
                return
            elif now - since >= limit:
                self._report(doing(heartbeat).line(now - since))
                limit *= 2


def _step(first_step: int, heartbeat: int) -> Place:
    step, is_computing = first_step + heartbeat // 2 + 1, heartbeat % 2
    if is_computing:
        state = "has been running"
        reason = (
            "the devices are slow, another worker is lost, or the step is being "
            "compiled"
        )
    else:
        state = "has waited for its batch"
        reason = "the records are read too slowly, or not at all"
    return Place(f"step {step}", state, reason, step, is_step=True)
