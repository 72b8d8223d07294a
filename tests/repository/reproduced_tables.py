"""The tables of docs/reproduction.md, made from the measures beside it.

    python -m tests.repository.reproduced_tables

writes them and their overview between their markers.
"""

import dataclasses
import json
from typing import Any

from albert_tf.reproduction import budgets, experiments, results, tables
from tests.repository import project_files

DOCS = project_files.ROOT / "docs"
PAGE = DOCS / "reproduction.md"
# Texts of the measures: names and bytes of the files.
_DEMONSTRATION = {experiments.MAIN: [["demonstration.txt", 7_913_718]]}
_WIKIPEDIA = {
    experiments.MAIN: [["wikipedia_en_random.txt", 106_159_026]],
    experiments.OTHER: [["wikipedia_en_good_featured.txt", 138_831_727]],
}
_HOUR = budgets.BUDGETS["hour"]


@dataclasses.dataclass(frozen=True)
class Reproduced:
    """A table of the hour, and what its figures depend on.

    Attributes:
      table: the table.
      path: of its measures, below docs/.
      texts: files by text.
      others: probes and tasks, as the digest of an experiment has them.
    """

    table: tables.Table
    path: str
    texts: dict[str, list[list[Any]]]
    others: dict[str, Any]

    def measures(self) -> dict[str, Any]:
        """Returns what was measured, by experiment."""
        return json.loads((DOCS / self.path).read_text())

    def digest(self, experiment: experiments.Experiment) -> str:
        """Returns what the measures of an experiment must have."""
        texts: dict[str, Any] = dict(self.texts)
        if all(one.text == experiments.MAIN for one in experiment.all_datasets()):
            texts.pop(experiments.OTHER, None)
        texts["vocab_size"] = experiment.config.model.vocab_size
        return experiments.digest(experiment, {**self.others, "texts": texts})

    def collected(self) -> dict[str, Any]:
        """Returns the figures of the table, and its verdicts."""
        measured = {name: one["seeds"] for name, one in self.measures().items()}
        return results.collect(self.table, measured)


def reproduced(name: str) -> Reproduced:
    """Returns a table by its name."""
    if name == "pair_loss":
        settings, path = ["data.heldout_rate=0.05"], "reproduction/pair_loss.json"
        texts, others = _DEMONSTRATION, {"blimp_pairs": 0, "tasks": {}}
    else:
        settings, path, texts = [], "reproduction/measures.json", _WIKIPEDIA
        tasks = {"sst2": list(_HOUR.task_settings)}
        others = {"blimp_pairs": _HOUR.blimp_pairs, "tasks": tasks}
    table = tables.Maker(_HOUR, settings).make(name)
    return Reproduced(table, path, texts, others)


OVERVIEW = "overview"
NAMES = (OVERVIEW, *tables.TABLES)


def markdown(name: str) -> str:
    """Returns a table with its verdicts, or the overview of all."""
    if name == OVERVIEW:
        found = [reproduced(one).collected() for one in tables.TABLES]
        return "\n".join(results.overview(found))
    return "\n".join(results.markdown(reproduced(name).collected()))


def markers(name: str) -> tuple[str, str]:
    """Returns the lines around a table of the page."""
    return f"<!-- begin of {name} -->\n", f"<!-- end of {name} -->\n"


def main() -> None:
    """Writes the tables of the page; the markers of a new one must be there."""
    text = PAGE.read_text()
    for name in NAMES:
        begin, end = markers(name)
        before, _, rest = text.partition(begin)
        _, found, after = rest.partition(end)
        if not found:
            raise SystemExit(f"{PAGE}: no lines {begin}{end} for {name}")
        text = f"{before}{begin}\n{markdown(name)}\n\n{end}{after}"
        print(f"wrote {name}")
    PAGE.write_text(text)


if __name__ == "__main__":
    main()
