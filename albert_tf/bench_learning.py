r"""Held-out loss over wall time, beside transformers on PyTorch, on this machine.

  python -m albert_tf.bench_learning --config=configs/small.py --data_dir=RECORDS \
      --minutes=10,20,40,60 --blimp_dir=blimp

Both train a model of the same sizes on the same batches, in turns, for the last of the
minutes each; before that PyTorch's fastest form and its best learning rate are found.
To use the machine in between, make a file OUTPUT_DIR/hold: no turn begins until it is
removed.
The records have one sequence per row: make them with --set data.pack_sequences=0.
PyTorch is installed into an environment below build/ by the first run.
"""

import os
from collections.abc import Sequence

from absl import flags

from albert_tf.core import binaries, cli, config_io, files, recipes, text_table
from albert_tf.data import schema


def define_flags(values: flags.FlagValues = flags.FLAGS) -> None:
    """Defines the flags in `values`, so that tests can give each its own."""
    recipe = recipes.path_of("small")
    output_dir = str(binaries.ROOT / "build" / "bench-learning")
    minutes = "Minutes of each run after which to report."
    rates = "Learning rates of PyTorch's AdamW; the best is taken."
    rate_minutes = "Minutes of the run with each learning rate."
    turn = "Seconds of each turn."
    blimp = "Directory of BLiMP, to probe the models saved at --minutes; empty: none."
    pairs = "Pairs of each of its paradigms."
    flags.DEFINE_string("config", recipe, "A recipe or a config.json.", values)
    flags.DEFINE_multi_string(
        "set", [], "Changes one setting: key.sub=value. Repeatable.", values
    )
    flags.DEFINE_string("data_dir", None, "Records, one sequence per row.", values)
    flags.DEFINE_string("output_dir", output_dir, "New: runs and results.", values)
    cli.define_list("minutes", ["10", "20", "40", "60"], minutes, values)
    cli.define_list("rates", ["2.5e-4", "5e-4", "1e-3"], rates, values)
    flags.DEFINE_float("rate_minutes", 5.0, rate_minutes, 0.0, flag_values=values)
    flags.DEFINE_float("turn_seconds", 30.0, turn, 1.0, 60.0, flag_values=values)
    flags.DEFINE_string("blimp_dir", "", blimp, values)
    flags.DEFINE_integer("probe_pairs", 100, pairs, 1, None, flag_values=values)
    flags.mark_flag_as_required("data_dir", values)


def _numbers(values: flags.FlagValues, name: str) -> tuple[float, ...]:
    try:
        numbers = tuple(float(text) for text in getattr(values, name))
    except ValueError as error:
        raise ValueError(f"--{name} must be numbers: {error}") from error
    if not numbers or min(numbers) <= 0:
        raise ValueError(f"--{name} must be numbers above 0; received {numbers}")
    return numbers


def main(argv: Sequence[str], flag_values: flags.FlagValues = flags.FLAGS) -> None:
    """Measures, prints a table, and writes results.json."""
    with cli.user_errors():
        cli.refuse_arguments(argv)
        # Both learn from the same batches, of one shape and one sequence a row.
        config = config_io.load(
            flag_values.config,
            ["train.stages=[]", "data.pack_sequences=0", *flag_values.set],
        )
        minutes = sorted(_numbers(flag_values, "minutes"))
        rates = _numbers(flag_values, "rates")
        manifest = os.path.join(flag_values.data_dir, schema.MANIFEST_FILE)
        if not files.exists(manifest):
            raise ValueError(
                "--data_dir must be a directory that data_prep.create_pretraining_data "
                f"wrote; there is no {manifest}"
            )
        output_dir = os.path.abspath(flag_values.output_dir)
        if not files.is_new_or_empty(output_dir):
            raise ValueError(
                f"--output_dir must be new or empty; {output_dir} has files"
            )
        if config.data.pack_sequences:
            raise ValueError(
                "data.pack_sequences must be 0, since transformers takes one sequence "
                f"a row; received {config.data.pack_sequences}. Make the records with "
                "--set data.pack_sequences=0"
            )
        blimp_dir = flag_values.blimp_dir and os.path.abspath(flag_values.blimp_dir)
        if blimp_dir and not files.is_folder(blimp_dir):
            raise ValueError(f"--blimp_dir: there is no directory {blimp_dir}")
        # Imported here: TensorFlow takes seconds, and flags and files were checked.
        from albert_tf.benchmarks import learning_curves, learning_runs, rounds

        print(f"{os.cpu_count()} cores, load before {os.getloadavg()[0]:.1f}")
        options = learning_runs.Options(
            data_dir=os.path.abspath(flag_values.data_dir),
            output_dir=output_dir,
            minutes=tuple(minutes),
            rates=rates,
            rate_minutes=flag_values.rate_minutes,
            turn_seconds=flag_values.turn_seconds,
            blimp_dir=blimp_dir,
            probe_pairs=flag_values.probe_pairs,
        )
        try:
            results = learning_curves.measure(config, options)
        except rounds.Failure as failure:
            raise ValueError(f"nothing can be compared: {failure}") from failure
        print("\n".join(text_table.align(learning_curves.table(results))))
        load = os.getloadavg()[0]
        print(f"load after {load:.1f}; all figures: {options.results_path}")


if __name__ == "__main__":
    cli.run(main, define_flags)
