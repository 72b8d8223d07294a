"""Figures with their targets."""

import dataclasses
import statistics
from collections.abc import Sequence
from typing import Any

from albert_tf.core import text_table


@dataclasses.dataclass(frozen=True)
class Figure:
    """One row of the table.

    Attributes:
      group: the heading that the row belongs to.
      name: what was measured.
      value: the median, in `unit`; a fraction where the unit is "%".
      unit: shown after the value.
      at_most: the target; there is none where neither bound is given.
      at_least: likewise.
      samples: the values that the median is of, if there are several.
    """

    group: str
    name: str
    value: float
    unit: str
    at_most: float | None = None
    at_least: float | None = None
    samples: tuple[float, ...] = ()

    @property
    def is_met(self) -> bool | None:
        """Returns whether the target is met, or None where there is none."""
        if self.at_most is not None:
            return self.value < self.at_most
        return None if self.at_least is None else self.value >= self.at_least


def median_figure(
    group: str, name: str, samples: Sequence[float], unit: str, **targets: float
) -> Figure:
    """The median of `samples` as a figure; `targets` are `at_most` or `at_least`."""
    value = statistics.median(samples)
    return Figure(group, name, value, unit, **targets, samples=tuple(samples))


def differences(seconds: Sequence[float], reference: Sequence[float]) -> list[float]:
    """By how much each round took longer than the reference."""
    return [one - other for one, other in zip(seconds, reference, strict=True)]


def excess(seconds: Sequence[float], reference: Sequence[float]) -> list[float]:
    """By which fraction of the reference each round took longer."""
    return [one / other - 1.0 for one, other in zip(seconds, reference, strict=True)]


def table(figures: Sequence[Figure]) -> str:
    """The figures by group, with quartiles of the samples and targets."""
    rows = [["", "measured", "quartiles", "target", ""]]
    group = ""
    for figure in figures:
        if figure.group != group:
            group = figure.group
            rows.append([group, "", "", "", ""])
        met = {True: "met", False: "MISSED", None: ""}[figure.is_met]
        measured = _shown(figure.value, figure.unit)
        quartiles = _quartiles(figure)
        rows.append([f"  {figure.name}", measured, quartiles, _target(figure), met])
    return "\n".join(text_table.align(rows))


def _quartiles(figure: Figure) -> str:
    if len(figure.samples) < 3:
        return ""
    low, _, high = statistics.quantiles(figure.samples, n=4, method="inclusive")
    return f"{_number(low, figure.unit)} to {_number(high, figure.unit)}"


def _target(figure: Figure) -> str:
    if figure.at_most is not None:
        return f"under {_shown(figure.at_most, figure.unit)}"
    if figure.at_least is not None:
        return f"at least {_shown(figure.at_least, figure.unit)}"
    return ""


def _shown(value: float, unit: str) -> str:
    return f"{_number(value, unit)} {unit}".rstrip()


def _number(value: float, unit: str) -> str:
    if unit == "%":
        return f"{value * 100:.2f}"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def to_dicts(figures: Sequence[Figure]) -> list[dict[str, Any]]:
    """All figures with their samples, as values that JSON can hold."""
    return [dataclasses.asdict(one) | {"is_met": one.is_met} for one in figures]
