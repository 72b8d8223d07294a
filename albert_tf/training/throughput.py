"""Throughput: steps, tokens and FLOPs a second, and utilization of the devices."""

from collections.abc import Sequence


class Meter:
    """Counts the steps and seconds of this process between two rows of metrics.

    Attributes:
      flops_per_step: in each stage of the run; 0 if unknown.
      peak_flops: FLOP/s of all devices; 0 if unknown.
    """

    def __init__(self, flops_per_step: Sequence[float], peak_flops: float):
        """Takes the FLOPs of a step and the devices' peak FLOP/s; 0 if unknown.

        Args:
          flops_per_step: in each stage of the run.
          peak_flops: of all devices.
        """
        self.flops_per_step = flops_per_step
        self.peak_flops = peak_flops
        self._num_steps = 0
        self._seconds = 0.0
        self._input_seconds = 0.0

    def add(self, num_steps: int, seconds: float, input_seconds: float) -> None:
        """Adds steps that took `seconds`, `input_seconds` of them waiting for input.

        The graph measures the latter with TensorFlow's only clock, the time of day,
        which may be set while it waits: what is impossible is cut off.
        """
        self._num_steps += num_steps
        self._seconds += seconds
        self._input_seconds += min(max(input_seconds, 0.0), seconds)

    def take(
        self, num_tokens: float, num_steps: int, stage: int = 1
    ) -> dict[str, float]:
        """Returns the rates of a row of metrics, and resets the counts.

        Args:
          num_tokens: tokens of the row, without padding.
          num_steps: steps of the row. The rates are those of this process, which may
            have restarted within the row.
          stage: the number of the row's stage.
        """
        steps_per_second = self._num_steps / self._seconds
        flops_per_step = self.flops_per_step[stage - 1]
        flops = flops_per_step * steps_per_second
        values = {
            "steps_per_second": steps_per_second,
            "tokens_per_second": num_tokens / num_steps * steps_per_second,
            "input_share": self._input_seconds / self._seconds,
        }
        if flops_per_step:
            values["model_flops_per_second"] = flops
        if flops_per_step and self.peak_flops:
            values["model_flops_utilization"] = flops / self.peak_flops
        self._num_steps, self._seconds, self._input_seconds = 0, 0.0, 0.0
        return values
