"""The plan of a run on an accelerator: memory, times and price, before it is paid for.

For a TPU the memory and the traffic are those of the step that libtpu compiled; for
other accelerators they are counted by arithmetic.
"""

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

from albert_tf.core import config as config_lib
from albert_tf.core import config_io
from albert_tf.core import stages as stages_lib
from albert_tf.devices import chip_table
from albert_tf.model import costs as costs_lib
from albert_tf.planning import compiled_step, roofline, search

# Of the least time, in the time of a real step: docs/planning.md compares published
# runs.
DEFAULT_UTILIZATION = 0.5
# Counted traffic: each kept activation is written and read forward, and so is its
# gradient; weights and slots are read and written, gradients written and read.
_ACTIVATION_PASSES = 4
_STATE_PASSES = 2
# Memory of activations on a GPU by what is counted: the programs that XLA compiled for
# an H200 (bfloat16, no remat) needed 2.04 to 2.24 times as much (docs/gpu.md).
_GPU_ACTIVATIONS = 2.25
_MOST_ACCUMULATION = 64

Say = Callable[[str], None]


@dataclasses.dataclass(frozen=True)
class Request:
    """What is planned.

    config: the recipe; of stages, the one with the longest rows.
    accelerator: where it runs.
    global_batch: rows of a step over all replicas.
    utilization: the least time of a step by its real time, above 0 and at most 1.
    price_per_hour: of a chip; 0 if it is not known.
    """

    config: config_lib.Config
    accelerator: chip_table.Accelerator
    global_batch: int
    utilization: float = DEFAULT_UTILIZATION
    price_per_hour: float = 0.0

    @property
    def rows(self) -> int:
        """Rows of a replica.

        Raises:
          ValueError: the batch cannot be divided.
        """
        replicas = self.accelerator.num_replicas
        rows, rest = divmod(self.global_batch, replicas)
        parts = self.config.train.accumulation_steps
        if rest or not rows or rows % parts:
            raise ValueError(
                f"--global_batch must be a multiple of the {replicas} replicas of "
                f"{self.accelerator.name} times train.accumulation_steps ({parts}); "
                f"received {self.global_batch}"
            )
        return rows

    @property
    def compiled_replicas(self) -> int:
        """Replicas of the program that is compiled for a TPU."""
        several = self.accelerator.num_replicas > 1
        return self.accelerator.chip.compiled_replicas if several else 1

    def changed(self, *overrides: str) -> "Request":
        """Returns the same with other settings."""
        batch = f"train.batch_size={self.global_batch}"
        config = config_io.override(self.config, [batch, *overrides])
        return dataclasses.replace(self, config=config)


def longest_stage(config: config_lib.Config) -> config_lib.Config:
    """Returns the recipe with the batches of the stage whose rows are longest."""
    stages = [stage.config for stage in stages_lib.split(config)]
    # Packed rows may have one length in all stages, and sequences of different lengths.
    return max(stages, key=lambda one: (one.data.row.length, one.data.max_seq_length))


def make_plan(
    request: Request, compiler: compiled_step.StepCompiler | None, say: Say
) -> dict[str, Any]:
    """Returns a plan as nested values that JSON can hold.

    Args:
      request: what is planned.
      compiler: for a TPU; None for other accelerators.
      say: takes a line about each compilation.

    Raises:
      ValueError: the batch cannot be divided, or the compiler fails.
    """
    accelerator, config = request.accelerator, request.config
    plan: dict[str, Any] = {
        "accelerator": accelerator.name,
        "num_chips": accelerator.num_chips,
        "num_replicas": accelerator.num_replicas,
        "settings": _settings(config),
        "global_batch": request.global_batch,
        "rows_of_replica": request.rows,
        "utilization": request.utilization,
    }

    def evaluate(one: Request) -> dict[str, Any]:
        if compiler is None:
            return _counted(one)
        return _measured(one, _compile(one, compiler, say))

    plan |= evaluate(request)
    if plan["memory"]["fits"] is False:
        plan["remedies"] = [*_remedies(request, evaluate)]
    return plan


def _settings(config: config_lib.Config) -> dict[str, Any]:
    train, data = config.train, config.data
    return {
        "max_seq_length": data.max_seq_length,
        "pack_sequences": data.pack_sequences,
        "compute_dtype": train.compute_dtype,
        "remat": train.remat,
        "accumulation_steps": train.accumulation_steps,
        "num_steps": train.num_steps,
    }


def _costs(request: Request, batch: int) -> costs_lib.Costs:
    config = config_io.override(request.config, [f"train.batch_size={batch}"])
    return costs_lib.recipe_costs(config)


def _compile(
    request: Request, compiler: compiled_step.StepCompiler, say: Say
) -> compiled_step.CompiledStep:
    step = compiler.compile(
        request.config,
        request.rows,
        request.accelerator.chip,
        request.compiled_replicas,
    )
    say(
        f"compiled {request.rows} rows of {_described(request.config)}: "
        f"{step.needed_bytes / 2**30:.2f} GiB"
    )
    return step


def _described(config: config_lib.Config) -> str:
    train, data = config.train, config.data
    packed = f", packing {data.pack_sequences}" if data.pack_sequences else ""
    parts = (
        f" in {train.accumulation_steps} parts" if train.accumulation_steps > 1 else ""
    )
    return f"{data.max_seq_length}{packed}, {train.compute_dtype}, {train.remat}{parts}"


# ---- From the compiler ----


def _measured(request: Request, step: compiled_step.CompiledStep) -> dict[str, Any]:
    """Returns the parts of a plan that a compiled step gives."""
    available = step.available_bytes or request.accelerator.chip.hbm_bytes
    memory = {
        "source": "libtpu",
        "fits": step.fits,
        "needed_bytes": step.needed_bytes,
        "available_bytes": available,
    }
    if step.memory is None:
        return {"memory": memory}
    memory |= dataclasses.asdict(step.memory)
    products = _costs(request, request.rows).step_flops.total
    parts = request.config.train.accumulation_steps
    # The compiler counts a loop's body once; the entry has one of the equal parts.
    flops = step.flops if parts == 1 else float(products)
    traffic = step.hbm_bytes * parts
    return {
        "memory": memory,
        "program": step.program,
        "compiler_flops_by_products": step.flops / products if parts == 1 else None,
        **_times(request, flops, traffic),
        "sum_within_program": step.num_replicas > 1,
    }


def _times(request: Request, flops: float, traffic: float) -> dict[str, Any]:
    """Returns times and price of a step with known operations and traffic."""
    counted = _costs(request, request.global_batch)
    reduced = counted.reduced_gradient_bytes
    least = roofline.step_time(request.accelerator, flops, traffic, reduced)
    values = {
        "step": {
            "flops_of_replica": flops,
            "memory_bytes_of_replica": traffic,
            "reduced_bytes": reduced,
            "product_flops": counted.step_flops.total,
        }
    }
    if not least.compute:
        return values
    run = roofline.run_time(
        request.accelerator,
        least,
        request.config.train.num_steps,
        request.utilization,
        counted.step_flops.forward + counted.step_flops.backward,
        request.price_per_hour,
    )
    roof = dataclasses.asdict(least) | {"total": least.total, "limit": least.limit}
    return values | {"roofline_seconds": roof, "run": dataclasses.asdict(run)}


def _remedies(
    request: Request, evaluate: Callable[[Request], dict[str, Any]]
) -> Iterator[dict[str, Any]]:
    """Yields what settings that need less memory lead to, each tried."""
    train = request.config.train
    narrow = "train.compute_dtype=bfloat16"
    tries: list[tuple[str, ...]] = []
    if train.compute_dtype == "float32":
        tries.append((narrow,))
    rematerializing = [
        f"train.remat={remat}"
        for remat in config_lib.REMATS[config_lib.REMATS.index(train.remat) + 1 :]
    ]
    tries += [(remat,) for remat in rematerializing]
    if train.compute_dtype == "float32" and rematerializing:
        tries.append((narrow, rematerializing[-1]))
    for overrides in tries:
        yield {"settings": list(overrides), **evaluate(request.changed(*overrides))}
    parts = train.accumulation_steps
    while (parts := 2 * parts) <= min(request.rows, _MOST_ACCUMULATION):
        if request.rows % parts:
            return
        split = f"train.accumulation_steps={parts}"
        found = evaluate(request.changed(split))
        yield {"settings": [split], **found}
        if found["memory"]["fits"]:
            return


def largest_batches(
    request: Request,
    compiler: compiled_step.StepCompiler,
    packings: tuple[int, ...],
    say: Say,
) -> list[dict[str, Any]]:
    """Returns the largest batch of a replica for each remat, precision and packing.

    Args:
      request: accelerator and recipe; its batch is where each search begins.
      compiler: for the TPU.
      packings: values of `data.pack_sequences`.
      say: takes a line about each compilation.
    """
    found = []
    usable = request.accelerator.chip.hbm_bytes
    for packing in packings:
        for dtype in reversed(config_lib.COMPUTE_DTYPES):
            for remat in config_lib.REMATS:
                changed = request.changed(
                    f"data.pack_sequences={packing}",
                    f"train.compute_dtype={dtype}",
                    f"train.remat={remat}",
                    "train.accumulation_steps=1",
                )
                points = _search(changed, compiler, usable, say)
                rows = search.largest(points)
                found.append(
                    {
                        "pack_sequences": packing,
                        "compute_dtype": dtype,
                        "remat": remat,
                        "rows": rows,
                        "needed_bytes": points[rows].needed_bytes if rows else None,
                        "compiled_rows": [*points],
                    }
                )
    return found


def _search(
    request: Request, compiler: compiled_step.StepCompiler, usable: int, say: Say
) -> dict[int, compiled_step.CompiledStep]:
    counted = _costs(request, 1)
    state = counted.weight_and_slot_bytes + counted.reduced_gradient_bytes
    if state > usable:
        return {}
    points: dict[int, compiled_step.CompiledStep] = {}
    # Where the activations that are counted fill half of what the state leaves.
    each = max(1, counted.activation_bytes_per_row)
    rows: int | None = max(1, (usable - state) // (2 * each))
    while rows is not None:
        batch = rows * request.accelerator.num_replicas
        one = dataclasses.replace(request, global_batch=batch)
        points[rows] = _compile(one, compiler, say)
        rows = search.next_batch(points, usable, state)
    return points


# ---- By arithmetic ----


def _counted(request: Request) -> dict[str, Any]:
    """Returns the parts of a plan for an accelerator without a compiler here."""
    counted = _costs(request, request.rows)
    activations = counted.activation_bytes.total
    state, gradients = counted.weight_and_slot_bytes, counted.reduced_gradient_bytes
    chip = request.accelerator.chip
    kept = activations if chip.kind == "cpu" else int(_GPU_ACTIVATIONS * activations)
    needed = state + gradients + kept
    available = chip.hbm_bytes
    parts = request.config.train.accumulation_steps
    traffic = _ACTIVATION_PASSES * activations * parts + _STATE_PASSES * (
        state + gradients
    )
    return {
        "memory": {
            "source": "arithmetic",
            "fits": needed <= available if available else None,
            "needed_bytes": needed,
            "available_bytes": available or None,
            "arguments": state,
            "temporaries": gradients + kept,
        },
        **_times(request, float(counted.step_flops.total), float(traffic)),
        "sum_within_program": False,
    }
