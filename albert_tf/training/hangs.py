"""The record of a hang in the run's directory, so that a run does not hang forever.

A process that hangs ends with exit code 75, and what supervises it starts it again. The
second time that a run hangs at the same step, in the evaluation there or in the
prediction after the last step, the cause is not an accident.
"""

import contextlib
import dataclasses
import os
import threading

import tensorflow as tf

from albert_tf.core import files, strict_json
from albert_tf.training import preemption, watchdog

FILE = "hang.json"
# What hangs may be the storage.
_WRITE_SECONDS = 30.0


@dataclasses.dataclass(frozen=True)
class Hang:
    """The last place at which the run hung.

    Attributes:
      name: of the place, such as "step 13".
      step: its step, see `watchdog.Place`.
      is_step: whether it is a step, and not an evaluation.
      times: how often the run hung there without getting past it.
    """

    name: str
    step: int
    is_step: bool
    times: int


class HangRecord:
    """The file that holds the last hang, until a run resumes after it or ends."""

    def __init__(self, model_dir: str, is_chief: bool):
        """Reads the file, if there is one; the chief writes it.

        Raises:
          ValueError: it is damaged.
        """
        self._path = os.path.join(model_dir, FILE)
        self._is_chief = is_chief
        self._last: Hang | None = None
        try:
            if files.exists(self._path):
                self._last = strict_json.load_as(self._path, Hang)
        except (FileNotFoundError, tf.errors.NotFoundError):
            pass  # the chief has removed it meanwhile
        except ValueError as error:
            raise ValueError(f"{error}. Remove it, and try again") from error

    @property
    def step_to_skip(self) -> int | None:
        """The step at which the run hung twice, if any."""
        last = self._last
        return last.step if last and last.is_step and last.times > 1 else None

    def add(self, place: watchdog.Place, may_skip: bool) -> tuple[int, str]:
        """Records that the run hangs.

        Args:
          place: where. Without a step the storage hangs, and nothing is recorded.
          may_skip: whether one more step may be skipped.

        Returns:
          The exit code of the process, and what happens next, for the log.
        """
        times = 1
        if place.step is not None:
            if self._last is not None and self._last.name == place.name:
                times = self._last.times + 1
            self._last = Hang(place.name, place.step, place.is_step, times)
            self._write()
        if times == 1:
            return preemption.PREEMPTED, "the same command resumes"
        if place.is_step and may_skip:
            return preemption.PREEMPTED, "the same command skips this step"
        return 1, (
            f"that was time {times} at this place, so the run ends for good. "
            "train.hang_seconds sets how long a step may take, and "
            "train.max_skipped_steps how many steps may be skipped"
        )

    def passed(self, step: int) -> None:
        """Removes the record if its place is before `step`, where the run is saved."""
        if self._last is None or step <= self._last.step:
            return
        self._last = None
        if self._is_chief:
            # If it stays, it is removed or replaced later.
            with contextlib.suppress(OSError, tf.errors.OpError):
                files.remove(self._path)

    def _write(self) -> None:
        last = self._last
        if self._is_chief and last is not None:
            writer = threading.Thread(target=_write, args=(self._path, last))
            writer.daemon = True
            writer.start()
            writer.join(_WRITE_SECONDS)


def _write(path: str, hang: Hang) -> None:
    # Without the record the run starts again, as often as its supervisor starts it.
    with contextlib.suppress(OSError, tf.errors.OpError):
        files.write_json(path, dataclasses.asdict(hang))
