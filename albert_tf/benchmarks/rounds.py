"""Rounds: everything that is compared is measured once in each of them.

Other load on the machine affects all measurements of a round alike, so compare the
measurements of one round with one another.
"""

import dataclasses
import functools
import time
from collections.abc import Callable, Mapping
from typing import TypeVar

# Steps before the clock starts: they use up what was prefetched in the meantime.
WARMUP_STEPS = 2

T = TypeVar("T")


class Failure(Exception):
    """The reason, in one line, why something could not be measured."""


def run_rounds(
    measurements: Mapping[str, Callable[[], T]], num_rounds: int
) -> tuple[dict[str, list[T]], dict[str, str]]:
    """Measures everything once a round; each round starts with another name.

    Args:
      measurements: functions by name. One that raises `Failure` is not called again.
      num_rounds: how often each is called.

    Returns:
      The results by name, round by round; and, by the names of those that failed, the
      reasons.
    """
    results: dict[str, list[T]] = {name: [] for name in measurements}
    failures = {}
    for number in range(num_rounds):
        names = list(results)
        first = number % max(1, len(names))
        for name in names[first:] + names[:first]:
            try:
                results[name].append(measurements[name]())
            except Failure as failure:
                failures[name] = str(failure)
                del results[name]
    return results, failures


@dataclasses.dataclass(frozen=True)
class StepTimes:
    """The mean time of a step: seconds of wall time, and of all cores together."""

    seconds: float
    core_seconds: float


def read_clocks() -> tuple[float, float]:
    """Seconds of wall time, and seconds that all threads of this process computed."""
    return time.perf_counter(), time.process_time()


def time_steps(
    step_functions: Mapping[str, Callable[[int], None]],
    num_rounds: int,
    seconds: float,
    clocks: Callable[[], tuple[float, float]] = read_clocks,
) -> dict[str, list[StepTimes]]:
    """Times functions that take steps.

    Args:
      step_functions: each takes a number of steps, and returns when these are done.
      num_rounds: how often each is timed.
      seconds: approximate duration of one measurement of the fastest function; all
        others take as many steps.
      clocks: as `read_clocks`.

    Returns:
      The times by name, round by round.
    """
    fastest = float("inf")
    for take_steps in step_functions.values():
        times = _time_steps(take_steps, WARMUP_STEPS, clocks)  # the warm-up compiles
        fastest = min(fastest, times.seconds)
    num_steps = max(1, round(seconds / max(fastest, 1e-9)))
    measurements = {
        name: functools.partial(_time_steps, take_steps, num_steps, clocks)
        for name, take_steps in step_functions.items()
    }
    return run_rounds(measurements, num_rounds)[0]


def _time_steps(
    take_steps: Callable[[int], None],
    num_steps: int,
    clocks: Callable[[], tuple[float, float]],
) -> StepTimes:
    take_steps(WARMUP_STEPS)
    before = clocks()
    take_steps(num_steps)
    after = clocks()
    return StepTimes(*((b - a) / num_steps for a, b in zip(before, after, strict=True)))
