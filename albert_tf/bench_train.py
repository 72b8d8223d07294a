r"""Speed of the parts of training around the model: input, loop, checkpoints, startup.

  python -m albert_tf.bench_train
  python -m albert_tf.bench_train --parts=steps,input --rounds=5 --json=figures.json

Prints one table, with a target for most figures. What is compared is timed in rounds in
one process. Without --data_dir, records are made from the demonstration's text and kept
in --work_dir; with it, the recipe must fit them.
"""

import json
import os
from collections.abc import Sequence

from absl import flags

from albert_tf.benchmarks import figures
from albert_tf.core import binaries, cli, config_io, files, recipes
from albert_tf.data import schema

PARTS = ("steps", "average", "checkpoint", "start", "position", "input")


def define_flags(values: flags.FlagValues = flags.FLAGS) -> None:
    """Defines the flags in `values`, so that tests can give each its own."""
    recipe = recipes.path_of("small")
    work_dir = str(binaries.ROOT / "build" / "bench-train")
    data_dir = "Records to read; the default is to make some."
    parts = f"What to measure, of {', '.join(PARTS)}."
    rounds = "How often step functions are timed."
    seconds = "Approximate seconds of one measurement."
    repeats = "How often everything else is measured."
    flags.DEFINE_string("config", recipe, "A recipe or a config.json.", values)
    flags.DEFINE_multi_string(
        "set", [], "Changes one setting: key.sub=value. Repeatable.", values
    )
    flags.DEFINE_string("data_dir", "", data_dir, values)
    flags.DEFINE_string("work_dir", work_dir, "Keeps the records made.", values)
    cli.define_list("parts", list(PARTS), parts, values)
    flags.DEFINE_integer("rounds", 9, rounds, 1, None, flag_values=values)
    flags.DEFINE_float("turn_seconds", 4.0, seconds, 0.0, None, flag_values=values)
    flags.DEFINE_integer("repeats", 3, repeats, 1, None, flag_values=values)
    flags.DEFINE_string("json", "", "File for all figures and samples.", values)


def bench(values: flags.FlagValues) -> list[figures.Figure]:
    """Measures what the flags ask for.

    Raises:
      ValueError: a flag's value is wrong, or a process failed.
    """
    unknown = [part for part in values.parts if part not in PARTS]
    if unknown or not values.parts:
        raise ValueError(
            f"--parts must be some of {', '.join(PARTS)}; received "
            f"{','.join(values.parts)!r}"
        )
    # Figures are of one shape of batches.
    config = config_io.load(values.config, ["train.stages=[]", *values.set])
    data_dir = os.path.abspath(values.data_dir) if values.data_dir else ""
    manifest = os.path.join(data_dir, schema.MANIFEST_FILE)
    if data_dir and not files.exists(manifest):
        raise ValueError(
            "--data_dir must be a directory that data_prep.create_pretraining_data "
            f"wrote; there is no {manifest}"
        )
    # Imported here: TensorFlow takes seconds, and flags and files were checked first.
    from albert_tf.benchmarks import training_benchmark

    return training_benchmark.measure(
        config,
        data_dir,
        os.path.abspath(values.work_dir),
        values.parts,
        values.rounds,
        values.turn_seconds,
        values.repeats,
    )


def main(argv: Sequence[str], flag_values: flags.FlagValues = flags.FLAGS) -> None:
    """Measures and prints."""
    with cli.user_errors():
        cli.refuse_arguments(argv)
        print(f"{os.cpu_count()} cores, load before {os.getloadavg()[0]:.1f}")
        found = bench(flag_values)
        print(figures.table(found))
        print(f"load after {os.getloadavg()[0]:.1f}")
        if flag_values.json:
            text = json.dumps(figures.to_dicts(found), indent=1)
            files.write_bytes(flag_values.json, text.encode())


if __name__ == "__main__":
    cli.run(main, define_flags)
