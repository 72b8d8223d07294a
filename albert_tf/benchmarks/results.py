"""The outcomes of a comparison, as tables and as JSON."""

import dataclasses
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from albert_tf.benchmarks import model_cases, runner
from albert_tf.core import text_table


def fastest_baseline(outcomes: Sequence[runner.Outcome]) -> runner.Outcome | None:
    """The outcome of the baseline with the smallest median, or None."""
    baselines = [outcome for outcome in outcomes if outcome.implementation.is_baseline]
    return min(baselines, key=median_seconds, default=None)


def median_seconds(outcome: runner.Outcome) -> float:
    """Seconds of a call: the median over the rounds."""
    return statistics.median(one.median_seconds for one in outcome.rounds)


def speed_ratio(outcome: runner.Outcome, reference: runner.Outcome) -> float:
    """Speed relative to `reference`: the median over the rounds."""
    return statistics.median(
        other.median_seconds / one.median_seconds
        for one, other in zip(outcome.rounds, reference.rounds, strict=True)
    )


def matmul_rate(outcomes: Sequence[runner.Outcome]) -> float:
    """Floating-point operations a second of the matrix product: the median."""
    return statistics.median(
        rate
        for outcome in outcomes
        for one in outcome.rounds
        for rate in one.matmul_rates
    )


def matmul_share(case: model_cases.Case, outcome: runner.Outcome) -> float:
    """The rate as a fraction of the matrix product's: the median over the rounds."""
    return statistics.median(
        case.flops / one.median_seconds / statistics.mean(one.matmul_rates)
        for one in outcome.rounds
    )


def speed_table(
    case: model_cases.Case,
    outcomes: Sequence[runner.Outcome],
    missing: Mapping[str, str],
) -> str:
    """One case in one precision: heading, table, and what failed with its reason."""
    lines = []
    if outcomes:
        rows = speed_rows(case, outcomes)
        lines += [_heading(case, outcomes), *text_table.align(rows)]
    lines += [f"{name} is not measured: {reason}" for name, reason in missing.items()]
    return "\n".join(lines)


def speed_rows(
    case: model_cases.Case, outcomes: Sequence[runner.Outcome]
) -> list[list[str]]:
    """The cells of the table of one case in one precision, headings first."""
    baseline = fastest_baseline(outcomes)
    return [_HEADINGS, *(_row(case, outcome, baseline) for outcome in outcomes)]


_HEADINGS = [
    "",
    "ms",
    "best ms",
    "tokens/s",
    "of matmul",
    "x fastest baseline",
    "peak GB",
]


def _heading(case: model_cases.Case, outcomes: Sequence[runner.Outcome]) -> str:
    dtype = outcomes[0].implementation.dtype
    return (
        f"{case.name}, {dtype}: {case.flops / 1e9:,.1f} GFLOP; "
        f"matrix product {matmul_rate(outcomes) / 1e9:,.0f} GFLOP/s"
    )


def _row(
    case: model_cases.Case,
    outcome: runner.Outcome,
    baseline: runner.Outcome | None,
) -> list[str]:
    seconds = median_seconds(outcome)
    best = min(one.median_seconds for one in outcome.rounds)
    return [
        outcome.implementation.name,
        _milliseconds(outcome),
        f"{best * 1e3:,.1f}",
        f"{case.num_tokens / seconds:,.0f}",
        f"{matmul_share(case, outcome):.1%}",
        f"{speed_ratio(outcome, baseline):.2f}" if baseline else "",
        _gigabytes(outcome.peak_bytes),
    ]


def memory_table(
    rows: Mapping[model_cases.Case, Mapping[str, runner.Outcome]], forms: Sequence[str]
) -> str:
    """Peak memory and time of a step by depth.

    Args:
      rows: the outcomes by case and form, without those that failed.
      forms: the columns.
    """
    table = [["L", "B", "S", *_columns(forms, "GB"), *_columns(forms, "ms")]]
    for case, outcomes in rows.items():
        size = case.model.num_layers, case.batch_size, case.length
        table.append(
            [
                *map(str, size),
                *_cells(outcomes, forms, lambda one: _gigabytes(one.peak_bytes)),
                *_cells(outcomes, forms, _milliseconds),
            ]
        )
    return "\n".join(text_table.align(table))


def _columns(forms: Sequence[str], unit: str) -> list[str]:
    return [f"{form} {unit}" for form in forms]


def _cells(
    outcomes: Mapping[str, runner.Outcome],
    forms: Sequence[str],
    text_of: Callable[[runner.Outcome], str],
) -> list[str]:
    return [text_of(outcomes[key]) if key in outcomes else "-" for key in forms]


def _milliseconds(outcome: runner.Outcome) -> str:
    return f"{median_seconds(outcome) * 1e3:,.1f}"


def _gigabytes(num_bytes: int) -> str:
    return f"{num_bytes / 1e9:.2f}" if num_bytes else "?"


def to_dict(
    case: model_cases.Case,
    outcomes: Sequence[runner.Outcome],
    missing: Mapping[str, str],
) -> dict[str, Any]:
    """All measurements, each call separately, as values that JSON can hold."""
    return {
        "case": dataclasses.asdict(case) | {"flops": case.flops},
        "outcomes": [_outcome_to_dict(outcome) for outcome in outcomes],
        "missing": dict(missing),
    }


def _outcome_to_dict(outcome: runner.Outcome) -> dict[str, Any]:
    values = dataclasses.asdict(outcome)
    # The keys of the files that exist already.
    return {
        "contestant": values.pop("implementation"),
        "turns": values.pop("rounds"),
        **values,
    }
