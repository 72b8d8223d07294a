"""What the times of a contest amount to, as tables and as JSON."""

import dataclasses
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from albert_tf.model_speed import cases, contest


def fastest_peer(outcomes: Sequence[contest.Outcome]) -> contest.Outcome | None:
    """The one that is not ours and has the smallest median, or None."""
    peers = [outcome for outcome in outcomes if outcome.contestant.is_peer]
    return min(peers, key=median_seconds, default=None)


def median_seconds(outcome: contest.Outcome) -> float:
    """Seconds of a call: the median over the turns."""
    return statistics.median(turn.typical_seconds for turn in outcome.turns)


def speed_ratio(outcome: contest.Outcome, reference: contest.Outcome) -> float:
    """How many times as fast as `reference`: the median of each round's ratio."""
    return statistics.median(
        its.typical_seconds / own.typical_seconds
        for own, its in zip(outcome.turns, reference.turns, strict=True)
    )


def matmul_rate(outcomes: Sequence[contest.Outcome]) -> float:
    """Floating-point operations a second of the matrix product: the median."""
    return statistics.median(
        rate
        for outcome in outcomes
        for turn in outcome.turns
        for rate in turn.matmul_rates
    )


def matmul_share(case: cases.Case, outcome: contest.Outcome) -> float:
    """The share of the matrix product's rate around each turn: the median."""
    return statistics.median(
        case.flops / turn.typical_seconds / statistics.mean(turn.matmul_rates)
        for turn in outcome.turns
    )


def speed_table(
    case: cases.Case,
    outcomes: Sequence[contest.Outcome],
    missing: Mapping[str, str],
) -> str:
    """One case in one precision: a heading, the table, and who is missing, and why."""
    lines = []
    if outcomes:
        peer = fastest_peer(outcomes)
        rows = [_HEADINGS, *(_row(case, outcome, peer) for outcome in outcomes)]
        lines += [_heading(case, outcomes), *_align(rows)]
    lines += [f"{name} is not measured: {why}" for name, why in missing.items()]
    return "\n".join(lines)


_HEADINGS = ["", "ms", "best ms", "tokens/s", "of matmul", "x fastest peer", "peak GB"]


def _heading(case: cases.Case, outcomes: Sequence[contest.Outcome]) -> str:
    return (
        f"{case.name}, {outcomes[0].contestant.dtype}: {case.flops / 1e9:,.1f} GFLOP; "
        f"matrix product {matmul_rate(outcomes) / 1e9:,.0f} GFLOP/s"
    )


def _row(
    case: cases.Case, outcome: contest.Outcome, peer: contest.Outcome | None
) -> list[str]:
    seconds = median_seconds(outcome)
    best = min(turn.typical_seconds for turn in outcome.turns)
    return [
        outcome.contestant.name,
        _milliseconds(outcome),
        f"{best * 1e3:,.1f}",
        f"{case.num_tokens / seconds:,.0f}",
        f"{matmul_share(case, outcome):.1%}",
        f"{speed_ratio(outcome, peer):.2f}" if peer else "",
        _gigabytes(outcome.peak_bytes),
    ]


def memory_table(
    rows: Mapping[cases.Case, Mapping[str, contest.Outcome]], remats: Sequence[str]
) -> str:
    """Peak memory and time of a step by depth.

    Args:
      rows: for each case, by `train.remat`, what was measured; empty where it failed.
      remats: the columns.
    """
    table = [["L", "B", "S", *_columns(remats, "GB"), *_columns(remats, "ms")]]
    for case, outcomes in rows.items():
        size = case.model.num_layers, case.batch_size, case.length
        table.append(
            [
                *map(str, size),
                *_cells(outcomes, remats, lambda one: _gigabytes(one.peak_bytes)),
                *_cells(outcomes, remats, _milliseconds),
            ]
        )
    return "\n".join(_align(table))


def _columns(remats: Sequence[str], unit: str) -> list[str]:
    return [f"{remat} {unit}" for remat in remats]


def _cells(
    outcomes: Mapping[str, contest.Outcome],
    remats: Sequence[str],
    text_of: Callable[[contest.Outcome], str],
) -> list[str]:
    return [text_of(outcomes[key]) if key in outcomes else "-" for key in remats]


def _milliseconds(outcome: contest.Outcome) -> str:
    return f"{median_seconds(outcome) * 1e3:,.1f}"


def _gigabytes(num_bytes: int) -> str:
    return f"{num_bytes / 1e9:.2f}" if num_bytes else "?"


def _align(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])])
        for row in rows
    ]


def to_dict(
    case: cases.Case,
    outcomes: Sequence[contest.Outcome],
    missing: Mapping[str, str],
) -> dict[str, Any]:
    """All that was measured, each call by itself, as JSON can hold it."""
    return {
        "case": dataclasses.asdict(case) | {"flops": case.flops},
        "outcomes": [dataclasses.asdict(outcome) for outcome in outcomes],
        "missing": dict(missing),
    }
