"""Profiles a range of steps for TensorBoard."""

import tensorflow as tf


class StepProfiler:
    """Profiles the steps of a range, as far as this process takes them from its start.

    `close` writes what was profiled so far.
    """

    def __init__(self, steps: tuple[int, int] | None, directory: str):
        """Takes the first and the last step, if any, and the directory to write to."""
        # Training must return to the host before the first step and after the last.
        self.stops = [steps[0] - 1, steps[1]] if steps else []
        self._directory = directory
        self._is_running = False

    def start_at(self, step: int) -> None:
        """Starts if the next step is the first of the range."""
        if self.stops and step == self.stops[0]:
            tf.profiler.experimental.start(self._directory)
            self._is_running = True

    def stop_at(self, step: int) -> None:
        """Stops if `step` is the last of the range, or after it."""
        if self._is_running and step >= self.stops[1]:
            self.close()

    def close(self) -> None:
        """Stops if it is running."""
        if self._is_running:
            self._is_running = False
            tf.profiler.experimental.stop()
