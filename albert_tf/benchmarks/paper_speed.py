"""Speed of the paper's models relative to BERT large: a step, and the sum of gradients.

Source of the comparison: Lan et al. (2019), table 2, whose speeds are those of training
with the same data on the same TPUs.
"""

import statistics
from collections.abc import Callable, Sequence
from typing import NamedTuple

from albert_tf.benchmarks import model_cases, rounds, runner
from albert_tf.core import config as config_lib
from albert_tf.model import costs

REFERENCE = "bert_large"
# The paper's speeds. BERT xlarge needs more memory than a small machine has.
PAPER = {
    "bert_base": 4.7,
    "bert_large": 1.0,
    "albert_base": 5.6,
    "albert_large": 1.7,
    "albert_xlarge": 0.6,
    "albert_xxlarge": 0.3,
}
_LENGTH = 512
# Of a sequence: 15% of the tokens.
_NUM_PREDICTIONS = 76

Start = Callable[[model_cases.Implementation, model_cases.Case], runner.Process]


class ModelSpeed(NamedTuple):
    """A model beside BERT large.

    Attributes:
      name: of the recipe.
      num_parameters: of the model with its heads; a gradient has as many values.
      gradient_bytes: that each device sends to others in a step, as float32.
      step_seconds: of a step.
      speed: BERT large's seconds divided by these, the median of the rounds.
      paper_speed: the paper's.
      sum_seconds: of the sum of two workers' gradients, by megabits a second.
      speed_with_sum: of step and sum together, by megabits a second.
    """

    name: str
    num_parameters: int
    gradient_bytes: int
    step_seconds: float
    speed: float
    paper_speed: float
    sum_seconds: dict[int, float]
    speed_with_sum: dict[int, float]


def case(
    name: str, config: config_lib.Config, num_sequences: int = 1
) -> model_cases.Case:
    """Returns a training step of a recipe's model, with sequences of 512 tokens."""
    return model_cases.Case(
        f"training-{name}-{num_sequences}x{_LENGTH}",
        model_cases.TRAINING,
        config.model,
        num_sequences,
        _LENGTH,
        _NUM_PREDICTIONS,
    )


def measure_steps(
    cases: dict[str, model_cases.Case],
    dtype: str,
    num_rounds: int,
    start: Start = runner.start_process,
) -> dict[str, tuple[float, float]]:
    """Times a step of each model, each beside BERT large in the same rounds.

    Only two models are in memory at a time.

    Args:
      cases: by name, that of `REFERENCE` among them.
      dtype: of the matrix products.
      num_rounds: how often each is timed.
      start: starts the process of a case.

    Returns:
      By name, the median seconds of a step, and the median over the rounds of BERT
      large's seconds divided by the model's.

    Raises:
      rounds.Failure: a model cannot be measured.
    """
    found: dict[str, tuple[float, float]] = {}
    implementation = model_cases.albert_tf(dtype)
    reference = start(implementation, cases[REFERENCE])
    try:
        for name, one in cases.items():
            if name == REFERENCE:
                continue
            process = start(implementation, one)
            try:
                times, failures = rounds.run_rounds(
                    {REFERENCE: reference.time_calls, name: process.time_calls},
                    num_rounds,
                )
            finally:
                process.close()
            if failures:
                raise rounds.Failure(f"{name}: {'; '.join(failures.values())}")
            ours, theirs = (
                [statistics.mean(calls) for calls in times[key]]
                for key in (name, REFERENCE)
            )
            ratios = [b / a for a, b in zip(ours, theirs, strict=True)]
            found[name] = statistics.median(ours), statistics.median(ratios)
            found.setdefault(REFERENCE, (statistics.median(theirs), 1.0))
    finally:
        reference.close()
    return found


def combine(
    configs: dict[str, config_lib.Config],
    steps: dict[str, tuple[float, float]],
    sums: dict[int, dict[str, float]],
) -> list[ModelSpeed]:
    """Returns the models with all their figures.

    Args:
      configs: the recipes by name.
      steps: from `measure_steps`.
      sums: seconds of the sum of the gradients by name, by megabits a second.
    """
    found = []
    for name, config in configs.items():
        seconds, speed = steps[name]
        # Of the rounds in which the model was timed.
        reference = speed * seconds
        count = costs.count_parameters(config.model).total
        with_sum = {
            rate: (reference + of[REFERENCE]) / (seconds + of[name])
            for rate, of in sums.items()
        }
        found.append(
            ModelSpeed(
                name,
                count,
                4 * count,
                seconds,
                speed,
                PAPER[name],
                {rate: of[name] for rate, of in sums.items()},
                with_sum,
            )
        )
    return found


def table(found: Sequence[ModelSpeed]) -> list[list[str]]:
    """Returns the rows of a table."""
    rates = list(found[0].sum_seconds)
    header = ["model", "parameters", "gradients, MB", "step, s", "speed"]
    for rate in rates:
        header += [f"sum at {rate:,} Mbit/s, s", "speed with it"]
    rows = [[*header, "paper"]]
    for one in found:
        cells = [
            one.name,
            f"{one.num_parameters:,}",
            f"{one.gradient_bytes / 1e6:,.0f}",
            f"{one.step_seconds:.2f}",
            f"{one.speed:.2f}",
        ]
        for rate in rates:
            cells += [f"{one.sum_seconds[rate]:.2f}", f"{one.speed_with_sum[rate]:.2f}"]
        rows.append([*cells, f"{one.paper_speed:.1f}"])
    return rows
