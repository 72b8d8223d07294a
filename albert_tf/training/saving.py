"""Saves a run whose storage may be away for a while."""

import shutil
import tempfile
import time
from collections.abc import Callable

import tensorflow as tf

from albert_tf.checkpoints import checkpointer as checkpointer_lib
from albert_tf.core import failures
from albert_tf.training import pauses, watchdog


class Saver:
    """Saves through a checkpointer, and again after a failure.

    A failure is reported when the loop next returns to the host. Training continues,
    and the state at that time is saved, then that after growing pauses. When saving has
    failed for `retry_seconds`, one more attempt is made while training waits, and after
    it the run ends. So does the last save of a run. The state is then written to a
    directory for temporary files.
    """

    def __init__(
        self,
        checkpointer: checkpointer_lib.Checkpointer,
        retry_seconds: float,
        watch: watchdog.Watchdog,
        is_asked_to_end: Callable[[], bool],
        warn: Callable[[str], None],
        check_held: Callable[[], None],
    ):
        """Prepares to save.

        Args:
          checkpointer: writes the checkpoints.
          retry_seconds: for how long saving may fail before the run ends.
          watch: watches each wait for the storage.
          is_asked_to_end: returns whether to wait for the storage no longer.
          warn: prints a line.
          check_held: called before each attempt; does not return if another run has
            taken the directory.
        """
        self._checkpointer = checkpointer
        self._retry_seconds = retry_seconds
        self._watch = watch
        self._is_asked_to_end = is_asked_to_end
        self._warn = warn
        self._check_held = check_held
        self._pauses = pauses.Pauses()

    def is_due(self) -> bool:
        """Returns whether an earlier save has failed and the next attempt is due."""
        self._learn(self._checkpointer.check)
        is_failing = self._pauses.num_failures > 0
        return is_failing and self._pauses.is_due and not self._checkpointer.is_writing

    def save(self, step: int, metric: float | None = None, wait: bool = False) -> None:
        """Saves as `Checkpointer.save` does.

        Args:
          step: the present step.
          metric: the metric of this checkpoint, if it is the best so far.
          wait: whether to return only once the checkpoint is complete.

        Raises:
          OSError: the checkpoint could not be written for `retry_seconds`; names the
            directory that holds the state.
        """
        self.close()
        if wait or self._has_failed_for_long():
            self._until_written(
                step,
                metric,
                lambda: self._checkpointer.save(step, metric, wait=True),
            )
        else:
            with self._watch.task(f"the save of step {step}"):
                self._check_held()
                self._checkpointer.save(step, metric)

    def mark_best(self, step: int, metric: float) -> None:
        """Marks the checkpoint of `step`, which is written, as the best so far.

        Raises:
          OSError: as `save`.
        """
        self._until_written(
            step, metric, lambda: self._checkpointer.mark_best(step, metric)
        )

    def close(self) -> None:
        """Waits for the checkpoint that is being written, and reports its failure."""
        with self._watch.task("the last save"):
            self._learn(self._checkpointer.wait)

    def _learn(self, check: Callable[[], bool]) -> None:
        """Learns what became of the checkpoint that was started."""
        try:
            if check():
                self._pauses.succeeded()
        except OSError as error:
            self._failed(error)

    def _until_written(
        self, step: int, metric: float | None, write: Callable[[], None]
    ) -> None:
        """Writes while training waits, until it succeeds or the time is over."""
        while True:
            try:
                with self._watch.task(f"the save of step {step}"):
                    self._check_held()
                    write()
            except OSError as error:
                self._failed(error)
                if self._has_failed_for_long() or self._is_asked_to_end():
                    place = self._save_copy(step, metric)
                    raise OSError(f"{failures.one_line(error)}. {place}") from error
            else:
                self._pauses.succeeded()
                return
            while not (
                self._pauses.is_due
                or self._has_failed_for_long()
                or self._is_asked_to_end()
            ):
                time.sleep(0.2)

    def _has_failed_for_long(self) -> bool:
        return (
            self._pauses.num_failures > 0
            and self._pauses.seconds >= self._retry_seconds
        )

    def _failed(self, error: OSError) -> None:
        self._pauses.failed()
        attempt = f"attempt {self._pauses.num_failures}"
        self._warn(
            f"{failures.one_line(error)}. That was {attempt}; the state is in memory, "
            "and will be saved as soon as it can be"
        )

    def _save_copy(self, step: int, metric: float | None) -> str:
        """Saves where it still can be; returns a sentence that says where."""
        folder = ""
        try:
            folder = tempfile.mkdtemp(prefix="albert_tf-unsaved-")
            self._checkpointer.save_copy(folder, step, metric)
        except (OSError, tf.errors.OpError) as error:
            shutil.rmtree(folder, ignore_errors=True)
            return f"The state of step {step} is lost: {failures.one_line(error)}"
        return (
            f"The state of step {step} is in {folder}: copy its files to --model_dir, "
            "and the same command resumes from it"
        )
