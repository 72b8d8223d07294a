r"""The order of steps by `albert_tf.plan`, beside their times on this machine.

  python -m albert_tf.bench_plan --rounds=5
  python -m albert_tf.bench_plan --steps='albert_base*' --json=build/order.json

Each step is the train step of a recipe with some length and batch, in a process of its
own. The plan counts operations and bytes; their rates are measured here: that of matrix
products in between, that of the memory before.
Nothing else should run, and about 14 GB of memory should be free.
"""

import dataclasses
import fnmatch
import json
import os
from collections.abc import Sequence
from typing import Any

from absl import flags

from albert_tf.benchmarks import model_cases
from albert_tf.core import cli, config_io, files, recipes
from albert_tf.devices import chip_table
from albert_tf.planning import run_plan

# Recipe, length, rows, `train.compute_dtype`.
STEPS = (
    ("small", 128, 8, model_cases.FLOAT32),
    ("small", 128, 32, model_cases.BFLOAT16),
    ("albert_base", 32, 8, model_cases.FLOAT32),
    ("albert_base", 128, 8, model_cases.FLOAT32),
    ("albert_base", 128, 8, model_cases.BFLOAT16),
    ("albert_base", 512, 1, model_cases.FLOAT32),
    ("albert_large", 128, 2, model_cases.FLOAT32),
    ("bert_base", 128, 2, model_cases.FLOAT32),
)


def define_flags(values: flags.FlagValues = flags.FLAGS) -> None:
    """Defines the flags in `values`, so that tests can give each its own."""
    steps = "Globs of steps, separated by commas; the default is all."
    cli.define_list("steps", [], steps, values)
    rounds = "How often each step is timed."
    flags.DEFINE_integer("rounds", 5, rounds, 1, None, flag_values=values)
    flags.DEFINE_string("json", "", "File to write all figures to.", values)


def _needs(patterns: Sequence[str]) -> list[dict[str, Any]]:
    """Returns the fields of a `plan_order.Need` for each step that is chosen.

    Raises:
      ValueError: a glob matches none.
    """
    found, names = [], []
    for recipe, length, rows, dtype in STEPS:
        names.append(name := f"{recipe} {rows} x {length}")
        if patterns and not any(fnmatch.fnmatch(name, one) for one in patterns):
            continue
        # The benchmark's batches are full, of rows that are not packed, and it has no
        # dropout.
        config = config_io.load(
            recipes.path_of(recipe),
            [
                "train.stages=[]",
                f"data.max_seq_length={length}",
                "data.pack_sequences=0",
                f"train.batch_size={rows}",
                f"train.compute_dtype={dtype}",
                "model.hidden_dropout_rate=0",
                "model.attention_dropout_rate=0",
                "optimizer.name=lamb",
            ],
        )
        request = run_plan.Request(config, chip_table.find("cpu"), rows)
        plan = run_plan.make_plan(request, None, lambda line: None)
        found.append(
            {
                "case": model_cases.Case(
                    name,
                    model_cases.TRAINING,
                    config.model,
                    rows,
                    length,
                    config.data.row.num_predictions,
                    num_calls=2,
                ),
                "implementation": model_cases.albert_tf(dtype),
                "flops": plan["step"]["flops_of_replica"],
                "memory_bytes": plan["step"]["memory_bytes_of_replica"],
            }
        )
    for pattern in patterns:
        if not fnmatch.filter(names, pattern):
            raise ValueError(
                f"--steps must match one of {'; '.join(names)}; received {pattern!r}"
            )
    return found


def bench(values: flags.FlagValues) -> None:
    """Measures, prints the table, and writes the JSON file.

    Raises:
      ValueError: a flag's value is wrong, or a step could not be measured.
    """
    needs = _needs(values.steps)
    # Imported here: TensorFlow takes seconds, and flags and files were checked first.
    from albert_tf.benchmarks import matmul_probe, plan_order, rounds, runner

    cores = os.cpu_count() or 1
    print(f"{cores} cores, load before {os.getloadavg()[0]:.1f}", flush=True)
    try:
        measured = plan_order.measure(
            [plan_order.Need(**need) for need in needs],
            values.rounds,
            cores,
            matmul_probe.MatrixProbe().rate,
            plan_order.memory_rate(),
            runner.start_process,
        )
    except rounds.Failure as failure:
        raise ValueError(str(failure)) from failure
    print(f"load after {os.getloadavg()[0]:.1f}\n\n{plan_order.show(measured)}")
    if values.json:
        content = json.dumps(dataclasses.asdict(measured), indent=1)
        files.write_bytes(values.json, f"{content}\n".encode())


def main(argv: Sequence[str], flag_values: flags.FlagValues = flags.FLAGS) -> None:
    """Measures and prints."""
    with cli.user_errors():
        cli.refuse_arguments(argv)
        bench(flag_values)


if __name__ == "__main__":
    cli.run(main, define_flags)
