"""The table of docs/planning.md: sizes of the paper on two TPUs, filled step by step.

Each line is a recipe, a length, an accelerator and a `train.remat`. Its compiled
batches are kept in one JSON file, so that filling can be interrupted and continued.
"""

import dataclasses
import itertools
from collections.abc import Callable, Iterator

from albert_tf.core import config as config_lib
from albert_tf.core import config_io, files, strict_json
from albert_tf.devices import chip_table
from albert_tf.model import costs
from albert_tf.planning import compiled_step, roofline, run_plan, search

RECIPES = (
    *("albert_base", "albert_large", "albert_xlarge", "albert_xxlarge"),
    *("bert_base", "bert_large", "bert_xlarge"),
)
LENGTHS = (512, 128)
# Slices with which the paper's batch of 4,096 is 8 or 16 rows of a replica.
ACCELERATORS = ("v3-512", "v5e-256")
COMPUTE_DTYPE = "bfloat16"
# Without anything recomputed, and for what then does not fit with everything.
_REMATS = ("none", "block")
# The first batch by the one whose activations, as counted, fill the memory.
_FIRST_EXCESS = 1.4
# Batches of a line that are compiled before any is that fits: the compiler refuses them
# in seconds, and all lines have a prediction before the first is verified.
_NUM_EXCESS = 2
_GIB = 1 << 30


@dataclasses.dataclass(frozen=True)
class Point:
    """A batch of a replica, and what the compiler said of it."""

    num_rows: int
    step: compiled_step.CompiledStep


@dataclasses.dataclass(frozen=True)
class Line:
    """A line of the table.

    recipe: name in configs.
    length: `data.max_seq_length`.
    accelerator: the slice.
    remat: `train.remat`.
    points: the batches that were compiled, in that order.
    """

    recipe: str
    length: int
    accelerator: str
    remat: str
    points: tuple[Point, ...] = ()

    @property
    def key(self) -> tuple[str, int, str, str]:
        """What tells it from the other lines."""
        return self.recipe, self.length, self.accelerator, self.remat

    @property
    def overrides(self) -> tuple[str, ...]:
        """Settings that differ from the recipe's."""
        return (
            f"data.max_seq_length={self.length}",
            f"train.compute_dtype={COMPUTE_DTYPE}",
            f"train.remat={self.remat}",
        )

    @property
    def config(self) -> config_lib.Config:
        """The recipe with these settings."""
        return config_io.load(f"configs/{self.recipe}.py", self.overrides)

    @property
    def place(self) -> chip_table.Accelerator:
        """The slice."""
        return chip_table.find(self.accelerator)

    @property
    def share(self) -> int:
        """Rows of a replica, of the recipe's batch."""
        return self.config.train.batch_size // self.place.num_replicas

    @property
    def by_rows(self) -> dict[int, compiled_step.CompiledStep]:
        """The compiled steps by rows of a replica."""
        return {point.num_rows: point.step for point in self.points}

    @property
    def least_bytes(self) -> int:
        """Weights, slots and gradients, without any activation."""
        counted = costs.recipe_costs(self.config)
        return counted.weight_and_slot_bytes + counted.reduced_gradient_bytes

    @property
    def never_fits(self) -> bool:
        """Whether weights, slots and gradients alone exceed the memory.

        All gradients exist at one time, as they are clipped to their common norm.
        """
        return self.least_bytes > self.place.chip.hbm_bytes

    def next_batch(self) -> int | None:
        """Returns the rows to compile next, if any."""
        if self.never_fits:
            return None
        if not self.points:
            counted = costs.recipe_costs(self.config)
            free = self.place.chip.hbm_bytes - self.least_bytes
            rows = free // counted.activation_bytes_per_row
            # Meant not to fit: the compiler says so quickly.
            return max(1, round(_FIRST_EXCESS * rows))
        return search.next_batch(
            self.by_rows, self.place.chip.hbm_bytes, self.least_bytes
        )

    @property
    def is_found(self) -> bool:
        """Whether nothing is left to compile."""
        return self.never_fits or (bool(self.points) and self.next_batch() is None)


@dataclasses.dataclass(frozen=True)
class Table:
    """What a file holds."""

    format_version: int
    lines: tuple[Line, ...]


def read(path: str) -> list[Line]:
    """Returns all lines of the table, those of the file with their points."""
    known = {}
    if files.exists(path):
        table = strict_json.load_as(path, Table)
        known = {line.key: line for line in table.lines}
    blank = (
        Line(recipe, length, accelerator, remat)
        for accelerator, length, recipe, remat in itertools.product(
            ACCELERATORS, LENGTHS, RECIPES, _REMATS
        )
    )
    return [known.get(line.key, line) for line in blank]


def write(path: str, lines: list[Line]) -> None:
    """Writes the lines that have points."""
    table = Table(1, tuple(line for line in lines if line.points))
    files.write_json(path, dataclasses.asdict(table))


def shown(lines: list[Line]) -> Iterator[Line]:
    """Yields the lines of the table: remat "block" where "none" is not enough."""
    by_key = {line.key: line for line in lines}
    for line in lines:
        plain = by_key[*line.key[:-1], _REMATS[0]]
        largest = search.largest(plain.by_rows)
        not_enough = plain.points and plain.is_found and largest < plain.share
        if line is plain or not_enough:
            yield line


def fill(
    path: str, compiler: compiled_step.StepCompiler, say: Callable[[str], None]
) -> None:
    """Compiles what is missing: first for each line what is meant not to fit.

    The file is written after each compilation.
    """
    while True:
        lines = read(path)
        todo = [
            (line, rows)
            for line in shown(lines)
            if (rows := line.next_batch()) is not None
        ]
        if not todo:
            return
        line, num_rows = min(todo, key=lambda one: len(one[0].points) >= _NUM_EXCESS)
        chip = line.place.chip
        step = compiler.compile(line.config, num_rows, chip, chip.compiled_replicas)
        say(
            f"{' '.join(map(str, line.key))}: {num_rows} rows, "
            f"{step.needed_bytes / 2**30:.2f} GiB, {step.seconds:.0f} s"
        )
        done = dataclasses.replace(line, points=(*line.points, Point(num_rows, step)))
        write(path, [done if one is line else one for one in lines])


# ---- Markdown ----

_COLUMNS: tuple[str, ...] = (
    *("recipe", "tokens", "slice", "remat", "largest batch of a replica"),
    *("its HBM", "`--global_batch`", "operations", "limit", "hours", "chip-hours"),
)


def show(lines: list[Line]) -> str:
    """Returns the table in Markdown; lines that are not complete say so."""
    rows: list[tuple[str, ...]] = [
        _COLUMNS,
        ("---",) * 4 + ("---:",) * 4 + ("---",) + ("---:",) * 2,
    ]
    rows += [_row(line) for line in shown(lines)]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _row(line: Line) -> tuple[str, ...]:
    names = (line.recipe, f"{line.length}", line.accelerator, line.remat)
    usable = line.place.chip.hbm_bytes
    counted = times(line, 0)[1]
    empty = ("", "", "", "")
    bounds = (f"at least {counted.hours:.1f}", f"{counted.chip_hours:,.0f}")
    if line.never_fits:
        least = f"none: {line.least_bytes / _GIB:.1f} GiB without activations"
        return (*names, least, *empty, "", "")
    if not line.points:
        return (*names, "not compiled yet", *empty, *bounds)
    largest = search.largest(line.by_rows)
    by_line = search.predicted(line.by_rows, usable, line.least_bytes)
    if not largest:
        found = "none" if line.is_found else f"about {by_line}, not verified"
        return (*names, found, *empty, *bounds)
    step = line.by_rows[largest]
    roof, run = times(line, largest)
    return (
        *names,
        f"{largest}" if line.is_found else f"{largest} or more",
        f"{step.needed_bytes / _GIB:.2f} GiB",
        f"{largest * line.place.num_replicas:,}",
        f"{operations(line, largest):.2f}",
        roof.limit,
        f"{run.hours:.1f}",
        f"{run.chip_hours:,.0f}",
    )


def operations(line: Line, num_rows: int) -> float:
    """Returns the operations of a compiled batch by those of its matrix products.

    Much above 1 the compiler itself recomputes activations, so that the batch fits.
    """
    train = dataclasses.replace(line.config.train, batch_size=num_rows)
    config = dataclasses.replace(line.config, train=train)
    return line.by_rows[num_rows].flops / costs.recipe_costs(config).step_flops.total


def times(
    line: Line, num_rows: int, place: chip_table.Accelerator | None = None
) -> tuple[roofline.StepTime, roofline.RunTime]:
    """Returns the times of the recipe's batch and run, at the rate of a compiled batch.

    Args:
      line: of the table.
      place: another slice of the line's chip; None: the line's.
      num_rows: of a replica: a batch that was compiled and fits. Operations and traffic
        of the recipe's batch are taken to be in proportion to its. With 0 the
        operations are those of the matrix products, and the traffic is nothing.
    """
    place = place or line.place
    counted = costs.recipe_costs(line.config)
    flops, traffic = counted.step_flops.total / place.num_replicas, 0.0
    if num_rows:
        step = line.by_rows[num_rows]
        share = line.config.train.batch_size / place.num_replicas / num_rows
        flops, traffic = step.flops * share, step.hbm_bytes * share
    least = roofline.step_time(place, flops, traffic, counted.reduced_gradient_bytes)
    run = roofline.run_time(
        place,
        least,
        line.config.train.num_steps,
        run_plan.DEFAULT_UTILIZATION,
        counted.step_flops.forward + counted.step_flops.backward,
    )
    return least, run
