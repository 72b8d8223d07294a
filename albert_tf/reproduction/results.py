"""Results: the measured values of a table's rows beside the paper's, with verdicts.

A difference between two rows counts if it is beyond the spread: if all seeds of one are
above all seeds of the other, and each has three. Of differences that are chance alone,
one of ten counts, too; with two seeds it would be one of three.
"""

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from albert_tf.core import config as config_lib
from albert_tf.core import plurals, text_table
from albert_tf.model import costs
from albert_tf.reproduction import tables as tables_lib

SAME, UNDECIDED, OPPOSITE = "same direction", "undecided", "opposite"
# Within so many points of chance a figure of the paper says nothing.
_NEAR_CHANCE = 5.0
# With fewer seeds of a row chance alone would decide too often.
_MIN_SEEDS = 3
# Values of an experiment by seed, as JSON has them.
Measured = Mapping[str, Mapping[str, Mapping[str, float]]]


def compare(
    ours: tuple[Sequence[float], Sequence[float]], theirs: tuple[float, float]
) -> str:
    """Returns whether two rows differ as in the paper.

    Args:
      ours: the values of the seeds of two rows.
      theirs: the paper's figures of both.

    Returns:
      SAME or OPPOSITE if the difference is beyond the spread; else, and if there are
      fewer than three seeds, UNDECIDED.
    """
    one, other = ours
    if min(len(one), len(other)) < _MIN_SEEDS:
        return UNDECIDED
    if min(one) > max(other):
        is_above = True
    elif max(one) < min(other):
        is_above = False
    else:
        return UNDECIDED
    return SAME if is_above == (theirs[0] > theirs[1]) else OPPOSITE


def collect(
    table: tables_lib.Table, measured: Measured, num_missing: int = 0
) -> dict[str, Any]:
    """Returns a table's figures as values that JSON can hold.

    Args:
      table: the table.
      measured: by the experiment's name and by seed; what was not trained yet is
        absent.
      num_missing: trainings that were not measured yet.
    """
    values = {
        row.name: {
            measure.key: found
            for measure in table.measures
            if (found := _values(measured.get(row.experiment.name, {}), measure.key))
        }
        for row in table.rows
    }
    rows = {row.name: row for row in table.rows}
    comparisons = [
        {"row": one, "than": other, "measure": measure.key}
        | _difference(
            (values[one][measure.key], values[other][measure.key]),
            (rows[one].paper[measure.paper], rows[other].paper[measure.paper]),
        )
        for one, other in table.comparisons
        for measure in table.measures
        if measure.key in values[one].keys() & values[other].keys()
        and _has_direction(measure, rows[one], rows[other])
    ]
    return {
        "name": table.name,
        "paper_table": table.numbers,
        "title": table.title,
        "paper_titles": {name: _PAPER_TITLES[name] for name in table.rows[0].paper},
        "measures": [
            {
                "key": measure.key,
                "label": measure.label,
                "is_share": measure.is_share,
                "paper": measure.paper,
            }
            for measure in table.measures
            if any(measure.key in found for found in values.values())
        ],
        "rows": [
            {
                "name": row.name,
                "label": row.label,
                "paper": row.paper,
                **_costs(row.experiment.config),
                "values": {
                    key: _summary(found) for key, found in values[row.name].items()
                },
            }
            for row in table.rows
        ],
        "comparisons": comparisons,
        "num_missing": num_missing,
    }


def _costs(config: config_lib.Config) -> dict[str, int]:
    """Returns the encoder's parameters, and the bytes that devices add in a step."""
    counted = costs.recipe_costs(config)
    return {
        "parameters": counted.parameters.encoder_without_pooler,
        "gradient_bytes": counted.reduced_gradient_bytes,
    }


def _has_direction(
    measure: tables_lib.Measure, one: tables_lib.Row, other: tables_lib.Row
) -> bool:
    """Returns whether the paper's figures of two rows say which is better."""
    if not measure.paper:
        return False
    theirs = one.paper[measure.paper], other.paper[measure.paper]
    is_chance = max(theirs) <= measure.chance + _NEAR_CHANCE
    return not is_chance and theirs[0] != theirs[1]


def _difference(
    ours: tuple[Sequence[float], Sequence[float]], theirs: tuple[float, float]
) -> dict[str, Any]:
    """Returns the differences of two rows, and whether they have one direction."""
    return {
        "paper": theirs[0] - theirs[1],
        "ours": statistics.mean(ours[0]) - statistics.mean(ours[1]),
        "verdict": compare(ours, theirs),
    }


def _values(by_seed: Mapping[str, Mapping[str, float]], key: str) -> list[float]:
    return [by_seed[seed][key] for seed in sorted(by_seed) if key in by_seed[seed]]


def _summary(values: Sequence[float]) -> dict[str, Any]:
    return {
        "mean": statistics.mean(values),
        "min": min(values),
        "max": max(values),
        "num_seeds": len(values),
    }


def lines(table: Mapping[str, Any]) -> list[str]:
    """Returns a table of `collect` as lines for a terminal."""
    rows = [cells(table), *(row_cells(table, row) for row in table["rows"])]
    return [f"{table['title']} (paper, table {table['paper_table']})"] + [
        f"  {line}" for line in text_table.align(rows)
    ]


def markdown(table: Mapping[str, Any]) -> list[str]:
    """Returns a table of `collect`, and its verdicts, as Markdown."""
    header = cells(table)
    found = [
        f"### {table['title']} (table {table['paper_table']})",
        "",
        "| " + " | ".join(header) + " |",
        "|---" * len(header) + "|",
        *("| " + " | ".join(row_cells(table, row)) + " |" for row in table["rows"]),
    ]
    if missing := table["num_missing"]:
        found += ["", f"Missing: {plurals.count(missing, 'training')}."]
    if table["comparisons"]:
        labels = {row["name"]: row["label"] for row in table["rows"]}
        titles = {one["key"]: one["label"] for one in table["measures"]}
        found += [
            "",
            "| row | compared with | measure | paper | here | verdict |",
            "|---|---|---|---|---|---|",
        ]
        for one in table["comparisons"]:
            shown = (
                labels[one["row"]],
                labels[one["than"]],
                titles[one["measure"]],
                f"{one['paper']:+z.1f}",
                f"{100 * one['ours']:+z.2f}",
                one["verdict"],
            )
            found.append("| " + " | ".join(shown) + " |")
    return found


def overview(tables: Sequence[Mapping[str, Any]]) -> list[str]:
    """Returns how many verdicts of each kind there are, as Markdown.

    Args:
      tables: of `collect`.

    Returns:
      The lines of a table, with a row for each of the tables, then for each measure.
    """
    verdicts: dict[str, list[str]] = {}
    for table in tables:
        label = f"{table['title']} (table {table['paper_table']})"
        verdicts[label] = [one["verdict"] for one in table["comparisons"]]
    for table in tables:
        titles = {one["key"]: one["label"] for one in table["measures"]}
        for one in table["comparisons"]:
            label = f"all tables, {titles[one['measure']]}"
            verdicts.setdefault(label, []).append(one["verdict"])
    found = [
        f"| differences | {SAME} | {UNDECIDED} | {OPPOSITE} |",
        "|---" * 4 + "|",
    ]
    for label, of in verdicts.items():
        counts = [str(of.count(one)) for one in (SAME, UNDECIDED, OPPOSITE)]
        found.append(f"| {label} | {' | '.join(counts)} |")
    return found


def cells(table: Mapping[str, Any]) -> list[str]:
    """Returns the titles of the columns."""
    measured = [one["label"] for one in table["measures"]]
    return ["", "parameters", "gradients, kB", *paper_names(table), *measured]


def row_cells(table: Mapping[str, Any], row: Mapping[str, Any]) -> list[str]:
    """Returns the cells of a row: the mean of the seeds, and their range."""
    printed = [f"{row['paper'][name]:.1f}" for name in _paper_keys(table)]
    shown = [
        _shown(row["values"].get(one["key"]), one["is_share"])
        for one in table["measures"]
    ]
    counted = f"{row['parameters']:,}", f"{row['gradient_bytes'] / 1000:,.0f}"
    return [row["label"], *counted, *printed, *shown]


def paper_names(table: Mapping[str, Any]) -> list[str]:
    """Returns the titles of the columns with the paper's figures."""
    return [f"paper, {title}" for title in table["paper_titles"].values()]


_PAPER_TITLES = {
    "average": "average of tasks",
    "mlm": "MLM",
    "nsp": "NSP",
    "sop": "SOP",
}


def _paper_keys(table: Mapping[str, Any]) -> list[str]:
    return list(table["rows"][0]["paper"])


def _shown(summary: Mapping[str, Any] | None, is_share: bool) -> str:
    if summary is None:
        return ""
    mean, low, high = (
        (100 if is_share else 1) * summary[name] for name in ("mean", "min", "max")
    )
    # Only numbers of steps are integers.
    if not is_share and isinstance(summary["min"], int):
        return f"{mean:,.0f}"
    digits = 1 if is_share else 3
    if summary["num_seeds"] == 1:
        return f"{mean:.{digits}f}"
    return f"{mean:.{digits}f} ({low:.{digits}f} to {high:.{digits}f})"
