r"""Cost of a record after the blocks, for simulated corpora of several sizes.

  python -m data_prep.bench_shards --input='text/*.txt' --vocab_model=vocab.model
  python -m data_prep.bench_shards ... --blocks=500,2000 --blocks_per_run=0

Merging and shards are timed in one process, in seconds of its core, which other load
and waits for the disk do not change. With --blocks_per_run=0 nothing is merged.
20,000 blocks of the default size need 5 GB of disk.
"""

import os
import tempfile
from collections.abc import Sequence

from absl import flags

from albert_tf.core import cli, config_io, files, text_table
from data_prep.reading import input_files

_RECIPE = os.path.join(os.path.dirname(os.path.dirname(__file__)), "configs/small.py")


def define_flags(flag_values: flags.FlagValues = flags.FLAGS) -> None:
    """Defines the flags in `flag_values`, so that tests can give each its own."""
    values = flag_values
    sizes = "Numbers of blocks; the first is what others are compared with."
    kilobytes = "Kilobytes of the records of a block; of a real one they are 6,000."
    per_run = "Blocks of a run; 0 merges none. Default: as data preparation does."
    flags.DEFINE_string("input", None, "Text files; the first is read.", values)
    flags.DEFINE_string("vocab_model", None, "The vocabulary.", values)
    cli.define_list("blocks", ["500", "20000"], sizes, values)
    flags.DEFINE_integer("kilobytes", 256, kilobytes, 1, None, flag_values=values)
    flags.DEFINE_integer("blocks_per_run", None, per_run, 0, None, flag_values=values)
    flags.DEFINE_string("work_dir", None, "Where the corpora are made.", values)
    flags.DEFINE_string("config", _RECIPE, "A recipe or a config.json.", values)
    flags.DEFINE_multi_string("set", [], "One setting of it.", values)
    flags.DEFINE_string("json", "", "File for all figures.", values)
    flags.mark_flags_as_required(["input", "vocab_model"], values)


def main(argv: Sequence[str], flag_values: flags.FlagValues = flags.FLAGS) -> None:
    """Measures and prints."""
    with cli.user_errors():
        cli.refuse_arguments(argv)
        sizes = flag_values.blocks
        if not sizes or not all(one.isdecimal() and int(one) for one in sizes):
            raise ValueError(f"--blocks must be numbers above 0; received {sizes}")
        config = config_io.load(flag_values.config, flag_values.set)
        path = input_files.expand(flag_values.input)[0]
        # Imported here: libraries take a second, and flags and files are checked first.
        from data_prep.benchmarks import simulated_blocks
        from data_prep.pipeline import common, work_dir

        settings, _ = common.make_settings(flag_values.vocab_model, config, ())
        num_bytes = flag_values.kilobytes << 10
        batch = simulated_blocks.make_records(path, settings, num_bytes)
        per_run = flag_values.blocks_per_run
        if per_run is None:
            per_run = work_dir.BLOCKS_PER_RUN
        costs = []
        for size in map(int, sizes):
            with tempfile.TemporaryDirectory(dir=flag_values.work_dir) as folder:
                costs.append(
                    simulated_blocks.measure(
                        batch, settings, size, per_run or size, f"{folder}/work"
                    )
                )
            print(
                "\n".join(text_table.align(simulated_blocks.table(costs))), flush=True
            )
        if flag_values.json:
            files.write_json(flag_values.json, [one._asdict() for one in costs])


if __name__ == "__main__":
    cli.run(main, define_flags)
