"""Writes the tables of docs/reliability.md from the results that are beside it.

python -m tests.faults.table
"""

import json
import pathlib
import sys
from typing import Any

from tests.faults import experiment, run, soak_table

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PAGE = ROOT / "docs" / "reliability.md"
RESULTS = ROOT / "docs" / "reliability" / "faults.json"
BEGIN, END = "<!-- {}: begin -->\n", "<!-- {}: end -->\n"
# What ran for long, by the name of its place in the page: its results and its table.
SOAKS = {
    "soak of training": ("training_soak.json", soak_table.of_process),
    "soak of a stage": ("stage_soak.json", soak_table.of_process),
    "soak of the server": ("server_soak.json", soak_table.of_server),
}


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


def _replaced(page: str, name: str, text: str) -> str:
    begin, end = BEGIN.format(name), END.format(name)
    before, found, rest = page.partition(begin)
    _, also_found, after = rest.partition(end)
    if not (found and also_found):
        raise ValueError(f"{PAGE} must have the lines {begin.strip()} {end.strip()}")
    return f"{before}{begin}\n{text}\n{end}{after}"


def render(page: str, found: dict[str, Any]) -> str:
    """The page with the tables of results in their place.

    Args:
      page: its text.
      found: the content of the file of results of the fault suite.
    """
    page = _replaced(page, "tables", tables(found))
    for name, (file_name, make) in SOAKS.items():
        path = RESULTS.parent / file_name
        if not path.exists():
            continue
        values = json.loads(path.read_text())
        lines = [f"{values['about']}:", "", *make(values)]
        page = _replaced(page, name, "\n".join(lines) + "\n")
    return page


def main() -> int:
    """Writes the page."""
    found = json.loads(RESULTS.read_text())
    PAGE.write_text(render(PAGE.read_text(), found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
