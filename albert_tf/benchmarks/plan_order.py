"""The order of steps by their plan, beside the order of the same steps as measured.

A plan says how many operations a step takes and how many bytes it moves. With this
machine's rates of both, each is a time, and the longer one is the plan's. Only the
order is compared: a real step takes longer by what the plan leaves out.
"""

import contextlib
import dataclasses
import functools
import itertools
import statistics
import time
from collections.abc import Callable, Iterator, Sequence

import tensorflow as tf

from albert_tf.benchmarks import model_cases, rounds, runner
from albert_tf.core import strict_json

_COPIED_FLOATS = 1 << 26
_NUM_REPEATS = 4
_COLUMNS = (
    *("place", "place by the plan", "step", "precision", "measured", "the plan's"),
    *("its share", "limit"),
)
_ALIGNMENTS = ("---:", "---:", "---", "---", "---:", "---:", "---:", "---")


@dataclasses.dataclass(frozen=True)
class Need:
    """What a plan says of a step.

    Attributes:
      case: the step.
      implementation: this project's, in some precision.
      flops: operations of the step.
      memory_bytes: bytes that it moves to and from memory.
    """

    case: model_cases.Case
    implementation: model_cases.Implementation
    flops: float
    memory_bytes: float


@dataclasses.dataclass(frozen=True)
class Step:
    """A step as planned and as measured.

    Attributes:
      name: of its case.
      dtype: of its matrix products.
      planned_seconds: by the plan, at this machine's rates.
      measured_seconds: the median over the rounds.
      limit: which of the plan's sides is longer, "compute" or "memory".
    """

    name: str
    dtype: str
    planned_seconds: float
    measured_seconds: float
    limit: str


@dataclasses.dataclass(frozen=True)
class Measured:
    """What one run of the benchmark found.

    Attributes:
      num_cores: of the machine.
      matmul_rates: operations a second of the matrix product, by dtype; medians.
      memory_rate: bytes a second that an elementwise operation reads and writes.
      steps: in the order of their measured times.
    """

    num_cores: int
    matmul_rates: dict[str, float]
    memory_rate: float
    steps: tuple[Step, ...]


def memory_rate() -> float:
    """Bytes a second that a large sum with a constant reads and writes: the fastest."""
    values = tf.zeros([_COPIED_FLOATS])
    seconds = []
    for _ in range(_NUM_REPEATS):
        started = time.perf_counter()
        float((values + 1.0)[0])
        seconds.append(time.perf_counter() - started)
    return 2 * 4 * _COPIED_FLOATS / min(seconds)


def measure(
    needs: Sequence[Need],
    num_rounds: int,
    num_cores: int,
    matmul_rate: Callable[[str], float],
    moved_rate: float,
    start: Callable[[model_cases.Implementation, model_cases.Case], runner.Process],
) -> Measured:
    """Times all steps in rounds, each in a process of its own.

    Args:
      needs: the steps, of different names or precisions.
      num_rounds: how often each is timed.
      num_cores: of the machine.
      matmul_rate: measures the current rate of the matrix product in a dtype.
      moved_rate: bytes a second.
      start: creates a process that is ready.

    Raises:
      rounds.Failure: a step could not be measured.
    """
    by_name = {f"{one.case.name}, {one.implementation.dtype}": one for one in needs}
    with contextlib.ExitStack() as stack:
        turns = {}
        for name, need in by_name.items():
            process = start(need.implementation, need.case)
            stack.callback(process.close)
            turns[name] = functools.partial(runner.time_calls, process, matmul_rate)
        times, failures = rounds.run_rounds(turns, num_rounds)
    for name, reason in failures.items():
        raise rounds.Failure(f"{name} is not measured: {reason}")
    rates = {
        dtype: statistics.median(
            rate
            for name, need in by_name.items()
            if need.implementation.dtype == dtype
            for one in times[name]
            for rate in one.matmul_rates
        )
        for dtype in {need.implementation.dtype for need in needs}
    }
    steps = []
    for name, need in by_name.items():
        dtype = need.implementation.dtype
        compute, memory = need.flops / rates[dtype], need.memory_bytes / moved_rate
        seconds = statistics.median(one.median_seconds for one in times[name])
        limit = "compute" if compute >= memory else "memory"
        steps.append(Step(need.case.name, dtype, max(compute, memory), seconds, limit))
    steps.sort(key=lambda step: step.measured_seconds)
    return Measured(num_cores, rates, moved_rate, tuple(steps))


def read(path: str) -> Measured:
    """Returns what `python -m albert_tf.bench_plan --json=FILE` wrote."""
    return strict_json.load_as(path, Measured)


def reversed_pairs(steps: Sequence[Step]) -> Iterator[tuple[Step, Step]]:
    """Yields the pairs of steps whose order by the plan is not the measured one."""
    for one, other in itertools.combinations(steps, 2):
        planned = one.planned_seconds - other.planned_seconds
        if planned * (one.measured_seconds - other.measured_seconds) < 0:
            yield one, other


def show(measured: Measured) -> str:
    """Returns a table in Markdown, and how many pairs are in the plan's order."""
    steps = measured.steps
    places = sorted(steps, key=lambda step: step.planned_seconds)
    rows: list[tuple[str, ...]] = [_COLUMNS, _ALIGNMENTS]
    for place, step in enumerate(steps, 1):
        share = step.planned_seconds / step.measured_seconds
        rows.append(
            (
                *(f"{place}", f"{places.index(step) + 1}", step.name, step.dtype),
                f"{1e3 * step.measured_seconds:,.0f} ms",
                f"{1e3 * step.planned_seconds:,.0f} ms",
                f"{share:.0%}",
                step.limit,
            )
        )
    table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    num_pairs = len(steps) * (len(steps) - 1) // 2
    wrong = [*reversed_pairs(steps)]
    summary = f"{num_pairs - len(wrong)} of {num_pairs} pairs are in the plan's order."
    lines = [
        f"- not {one.name} ({one.dtype}) and {other.name} ({other.dtype}): measured "
        f"{other.measured_seconds / one.measured_seconds:.2f} to 1, planned "
        f"{other.planned_seconds / one.planned_seconds:.2f} to 1"
        for one, other in wrong
    ]
    parts = [table, summary, "\n".join(lines)]
    return "\n\n".join(part for part in parts if part)
