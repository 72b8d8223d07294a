"""What a user waits for: compilation, and the rest of the run."""

import contextlib
import datetime
import threading
import time
from collections.abc import Iterator, Sequence

import tensorflow as tf

from albert_tf.core import stages as stages_lib
from albert_tf.training import metrics_log, throughput

# A loop is in its second step, or its second batch, from this heartbeat on: the first
# one was compiled.
_COMPILED = 2
_INTERVAL = 0.2
_MINUTE = 60
_COMPILING = (
    "tracing and compiling {}: seconds for a small model, minutes for a large one"
)


class Forecast:
    """Says what is compiled and, after the first steps, how long the run takes."""

    def __init__(
        self,
        stages: Sequence[stages_lib.Stage],
        meter: throughput.Meter,
        heartbeat: tf.Variable,
        log: metrics_log.MetricsLog,
    ):
        """Takes what it reads, and the log that it writes to.

        Args:
          stages: of the run.
          meter: knows the FLOPs of a step.
          heartbeat: int64 scalar, as in `loops.Signals`.
          log: of the run.
        """
        self._stages, self._meter = stages, meter
        self._heartbeat, self._log = heartbeat, log
        # Stages whose loop was compiled, and those that were forecast.
        self._compiled: set[int] = set()
        self._forecast: set[int] = set()
        self._is_evaluation_compiled = False

    def say_least(self, step: int) -> None:
        """Says how long the run takes at least, if the devices are known.

        Args:
          step: steps of the run so far.
        """
        flops = sum(
            self._num_steps(stage, step) * self._meter.flops_per_step[stage.number - 1]
            for stage in self._stages
        )
        if flops and self._meter.peak_flops:
            seconds = flops / self._meter.peak_flops
            self._log.say(
                f"at the peak of the devices, {self._meter.peak_flops / 1e12:,.4g} "
                f"TFLOP/s, the run takes at least {duration(seconds)}"
            )

    @contextlib.contextmanager
    def evaluation(self) -> Iterator[None]:
        """Says that the evaluation within is compiled, if it is the first."""
        if self._is_evaluation_compiled:
            yield
            return
        with self._watching("the evaluation"):
            yield
        self._is_evaluation_compiled = True

    @contextlib.contextmanager
    def steps(self, stage: stages_lib.Stage, step: int) -> Iterator[None]:
        """Watches a loop over steps, and says how long the rest takes.

        Only if it is the first of its stage, or the first that has several steps.

        Args:
          stage: of the steps.
          step: steps of the run before the loop.
        """
        number = stage.number
        if number in self._forecast:
            yield
            return
        began = compiled_at = time.monotonic()
        if number in self._compiled:
            yield
            num_timed = self._num_begun()
        else:
            with self._watching("the train step", step) as second_began:
                yield
            self._compiled.add(number)
            # Where the other steps took no time worth a look, a later loop tells.
            num_timed = self._num_begun() - 1 if second_began else 0
            compiled_at = second_began[0] if second_began else began
        if num_timed < 1 or step + self._num_begun() >= self._stages[-1].last_step:
            return
        seconds = (time.monotonic() - compiled_at) / num_timed
        self._forecast.add(number)
        self._say_rest(stage, step + self._num_begun(), seconds, compiled_at - began)

    def _num_begun(self) -> int:
        """Returns the steps that the last loop began, all of them when it ended."""
        return (int(self._heartbeat.numpy()) + 1) // 2

    def _say_rest(
        self, stage: stages_lib.Stage, step: int, step_seconds: float, compiling: float
    ) -> None:
        costs = self._meter.flops_per_step
        cost = costs[stage.number - 1]
        seconds = sum(
            self._num_steps(one, step)
            * step_seconds
            * (costs[one.number - 1] / cost if cost else 1.0)
            for one in self._stages
        )
        end = datetime.datetime.now() + datetime.timedelta(seconds=seconds)
        rest = f"about {duration(seconds)}, until {end:%a %H:%M},"
        compiled = f"compiled in {duration(compiling)}; " if compiling else ""
        self._log.say(
            f"{compiled}{step_seconds:.3g} s a step: "
            f"{rest if seconds >= _MINUTE else 'less than a minute'} to step "
            f"{self._stages[-1].last_step:,}, without evaluations and saves"
        )

    def _num_steps(self, stage: stages_lib.Stage, step: int) -> int:
        """Returns the steps of a stage after `step` steps of the run."""
        return max(0, stage.last_step - max(step, stage.first_step))

    @contextlib.contextmanager
    def _watching(
        self, what: str, first_step: int | None = None
    ) -> Iterator[list[float]]:
        """Shows seconds until the second step begins; yields a list for that time.

        Then it shows the steps, whose first row of metrics comes after the loop.
        """
        self._log.say(_COMPILING.format(what))
        began, ended = time.monotonic(), threading.Event()
        second_began: list[float] = []

        def watch() -> None:
            while not ended.wait(_INTERVAL):
                now, beat = time.monotonic(), int(self._heartbeat.numpy())
                if beat < _COMPILED:
                    self._log.show(f"compiling {what}, {now - began:.0f} s")
                    continue
                if not second_began:
                    second_began.append(now)
                    self._log.show("")
                if first_step is not None:
                    self._log.show_step(first_step + beat // 2)
            self._log.show("")

        thread = threading.Thread(target=watch, daemon=True)
        thread.start()
        try:
            yield second_began
        finally:
            ended.set()
            thread.join()


def duration(seconds: float) -> str:
    """Formats a time with two units at most, such as "3 h 12 min"."""
    rest = round(seconds)
    if rest < 120:
        return f"{rest} s"
    minutes = round(rest / 60)
    if minutes < 120:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    days, hours = divmod(hours, 24)
    return f"{days} d {hours} h" if hours else f"{days} d"
