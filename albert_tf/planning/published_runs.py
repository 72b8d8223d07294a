"""Published runs on TPUs beside the plan, in docs/planning.md."""

import dataclasses

from albert_tf.devices import chip_table
from albert_tf.planning import search, size_table

_LENGTH = 512
_PAPER = "Lan et al., 2019, section 4.9"
_ISSUE = "google-research/albert issue 198"


@dataclasses.dataclass(frozen=True)
class Run:
    """A published run with the recipe's batch and length.

    recipe: the one of the same model.
    accelerator: the slice, as far as it is known.
    steps_per_second: of 4,096 sequences.
    source: where it is from.
    """

    recipe: str
    accelerator: str
    steps_per_second: float
    source: str


# The paper gives hours on "the same" TPUs. v3-1024 are 512 chips, v3-512 are 256.
RUNS = (
    Run("albert_xxlarge", "v3-1024", 125_000 / (32 * 3600), f"{_PAPER}: 32 hours"),
    Run("bert_large", "v3-1024", 400_000 / (34 * 3600), f"{_PAPER}: 34 hours"),
    Run("albert_xxlarge", "v3-1024", 4913 / 4096, f"{_ISSUE}: 4,913 sequences/s"),
    Run("albert_xxlarge", "v3-512", 2141 / 4096, f"{_ISSUE}: 2,141 sequences/s"),
)


def show(lines: list[size_table.Line]) -> str:
    """Returns published runs beside the plan as a table in Markdown.

    Args:
      lines: those of `size_table.read`.
    """
    header = ("run", "on", "a step", "the plan's roofline", "its share", "limit")
    rows: list[tuple[str, ...]] = [
        header,
        ("---", "---", "---:", "---:", "---:", "---"),
    ]
    rows += [_row(run, lines) for run in RUNS]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _row(run: Run, lines: list[size_table.Line]) -> tuple[str, ...]:
    seconds = 1 / run.steps_per_second
    names = (f"{run.recipe}: {run.source}", run.accelerator, f"{1e3 * seconds:.0f} ms")
    place = chip_table.find(run.accelerator)
    found = [
        (search.largest(line.by_rows), line)
        for line in lines
        if (line.recipe, line.length, line.place.chip)
        == (run.recipe, _LENGTH, place.chip)
    ]
    # What was not compiled has no batch: its products alone are the bound.
    largest, line = max(found, key=lambda one: one[0] > 0)
    least, _ = size_table.times(line, largest, place)
    bound = "" if largest else "at least "
    roof, share = f"{1e3 * least.total:.0f} ms", f"{100 * least.total / seconds:.0f}%"
    return (*names, f"{bound}{roof}", f"{bound}{share}", least.limit)
