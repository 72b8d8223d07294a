"""Report of a reproduction: each table beside the paper's, with verdicts."""

from collections.abc import Mapping, Sequence
from typing import Any

from albert_tf.core import plurals, provenance, validation
from albert_tf.reports import html

_TEMPLATE_FILE = "reproduction.html"
# Classes of the page, by verdict.
_CLASSES = {"same direction": "right", "opposite": "wrong", "undecided": ""}
# Of the range of a chart's values, what is left free on both sides.
_MARGIN = 0.1


def write(output_dir: str, budget: str, tables: Sequence[Mapping[str, Any]]) -> str:
    """Writes index.html, which needs no other file.

    Args:
      output_dir: the directory, local or gs://; made if it does not exist.
      budget: the name of the sizes and lengths.
      tables: as `reproduction.results.collect` gives them.

    Returns:
      The path of index.html.

    Raises:
      ValueError: a table has no rows.
    """
    for table in tables:
        names = ("title", "rows", "measures", "comparisons", "num_missing")
        holds = html.has(table, *names)
        validation.require(holds, "a table must have rows and measures", table)
    verdicts = [one["verdict"] for table in tables for one in table["comparisons"]]
    made = provenance.now()
    values = {
        "identity": f"Written {made.date} with {made.versions_line}.",
        "budget": budget,
        "is_smoke": budget == "smoke",
        "agreeing": plurals.count(verdicts.count("same direction"), "difference"),
        "counts": {name: verdicts.count(name) for name in _CLASSES},
        "tables": [_table(table) for table in tables],
    }
    return html.write(output_dir, _TEMPLATE_FILE, values)


def _table(table: Mapping[str, Any]) -> dict[str, Any]:
    labels = {row["name"]: row["label"] for row in table["rows"]}
    titles = {one["key"]: one["label"] for one in table["measures"]}
    missing = table["num_missing"]
    return {
        "title": table["title"],
        "number": table["paper_table"],
        "charts": _charts(table),
        "missing": plurals.count(missing, "training") if missing else "",
        "header": [
            "parameters",
            "gradients, kB",
            *(f"paper: {title}" for title in table["paper_titles"].values()),
            *titles.values(),
        ],
        "rows": [_row(table, row) for row in table["rows"]],
        "comparisons": [
            {
                "row": labels[one["row"]],
                "than": labels[one["than"]],
                "measure": titles[one["measure"]],
                "paper": f"{one['paper']:+z.1f}",
                "ours": f"{100 * one['ours']:+z.2f}",
                "verdict": one["verdict"],
                "class": _CLASSES[one["verdict"]],
            }
            for one in table["comparisons"]
        ],
    }


def _row(table: Mapping[str, Any], row: Mapping[str, Any]) -> dict[str, Any]:
    printed = [f"{row['parameters']:,}", f"{row['gradient_bytes'] / 1000:,.0f}"]
    printed += [f"{value:.1f}" for value in row["paper"].values()]
    cells = [{"mean": value, "range": ""} for value in printed]
    for measure in table["measures"]:
        found = row["values"].get(measure["key"])
        cells.append(_cell(found, measure["is_share"]))
    return {"label": row["label"], "cells": cells}


def _cell(found: Mapping[str, Any] | None, is_share: bool) -> dict[str, str]:
    """Formats the mean over the seeds, and their range."""
    if not found:
        return {"mean": "", "range": ""}
    if not is_share and isinstance(found["min"], int):
        # Of steps, of which all seeds have the same number.
        return {"mean": f"{found['mean']:,.0f}", "range": ""}
    factor, digits = (100, 1) if is_share else (1, 3)
    mean, low, high = (
        f"{factor * found[key]:,.{digits}f}" for key in ("mean", "min", "max")
    )
    return {
        "mean": mean,
        "range": f"({low} to {high})" if found["num_seeds"] > 1 else "",
    }


def _charts(table: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Returns the paper's figures and ours as points, on a scale of their own each."""
    charts: list[dict[str, Any]] = []
    shown = set()  # of the paper
    for measure in table["measures"]:
        if not measure["paper"]:
            continue
        ours = [row["values"].get(measure["key"]) for row in table["rows"]]
        if not all(ours):
            continue
        theirs = [row["paper"][measure["paper"]] for row in table["rows"]]
        labels = [row["label"] for row in table["rows"]]
        if measure["paper"] not in shown:
            shown.add(measure["paper"])
            charts.append(
                {
                    "caption": f"paper: {table['paper_titles'][measure['paper']]}",
                    "class": "paper",
                    "points": _points(labels, [(one, one, one) for one in theirs]),
                }
            )
        ranges = [
            tuple(100 * one[name] for name in ("mean", "min", "max")) for one in ours
        ]
        caption = f"here: {measure['label']}"
        charts.append(
            {"caption": caption, "class": "", "points": _points(labels, ranges)}
        )
    return charts


def _points(
    labels: Sequence[str], values: Sequence[tuple[float, ...]]
) -> list[dict[str, str]]:
    """Returns where mean and range of each row are on the scale, in percent."""
    low, high = min(one[1] for one in values), max(one[2] for one in values)
    width = (high - low) * (1 + 2 * _MARGIN) or 1.0
    start = low - (high - low) * _MARGIN

    def place(value: float) -> float:
        return 100 * (value - start) / width

    return [
        {
            "label": label,
            "left": f"{place(mean):.2f}%",
            "from": f"{place(lowest):.2f}%",
            "width": f"{place(highest) - place(lowest):.2f}%",
            "shown": f"{mean:.1f}",
        }
        for label, (mean, lowest, highest) in zip(labels, values, strict=True)
    ]
