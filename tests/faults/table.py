"""Writes the tables of docs/reliability.md from the results of the fault suite.

python -m tests.faults.table
"""

import json
import pathlib
import sys
from typing import Any

from tests.faults import experiment, run

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PAGE = ROOT / "docs" / "reliability.md"
RESULTS = ROOT / "docs" / "reliability" / "faults.json"
BEGIN, END = "<!-- tables: begin -->\n", "<!-- tables: end -->\n"


def tables(found: dict[str, Any]) -> str:
    """The tables as Markdown: of the experiments, and of the parsers.

    Args:
      found: the content of the file of results.
    """
    lines = [
        "| what is disturbed | the fault | what has to follow | faults | outcomes |",
        "|---|---|---|---:|---|",
    ]
    parsers, limits = [], []
    for one in run.EXPERIMENTS:
        if (values := found.get(one.name)) is None:
            continue
        cells = (
            one.subject,
            one.fault,
            one.expected,
            f"{values['num_faults']:,}",
            _outcomes(values["outcomes"]),
        )
        lines.append(f"| {' | '.join(cells)} |")
        if one.name.startswith("fuzz-"):
            parsers += values["notes"]
        else:
            limits += [note for note in values["notes"] if "unseen" in note]
    num_faults = sum(values["num_faults"] for values in found.values())
    num_runs = sum(values["num_runs"] for values in found.values())
    failed = sum(values["outcomes"].get("failed", 0) for values in found.values())
    lines += [
        "",
        f"Together {num_faults:,} faults in {num_runs:,} runs and readings; "
        f"{failed} failed.",
    ]
    if limits:
        lines += ["", "Damage that was read as something else:", ""]
        lines += [f"- {note}" for note in sorted(limits)]
    if parsers:
        lines += ["", "| parser | inputs |", "|---|---|"]
        for note in sorted(parsers):
            name, _, counts = note.rpartition(": ")
            lines.append(f"| {name} | {counts.replace('unharmed', 'read')} |")
    return "\n".join(lines) + "\n"


def _outcomes(counts: dict[str, int]) -> str:
    return ", ".join(
        f"{counts[name]:,} {name}" for name in experiment.OUTCOMES if name in counts
    )


def render(page: str, found: dict[str, Any]) -> str:
    """The page with the tables of results in their place."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{tables(found)}\n{END}{after}"


def main() -> int:
    """Writes the page."""
    found = json.loads(RESULTS.read_text())
    PAGE.write_text(render(PAGE.read_text(), found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
