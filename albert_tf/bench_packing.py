r"""Tokens a second with packed rows and without, in training.

  python -m albert_tf.bench_packing
  python -m albert_tf.bench_packing --config=configs/albert_base.py \
      --input='corpus/*.txt' --vocab_model=vocab.model --lengths=128,512 --packings=1,2

Records of each kind are made, by default of the demonstration's text, and kept in
--work_dir. Padding does not count as tokens.
"""

import json
import os
from collections.abc import Sequence

from absl import flags

from albert_tf.core import binaries, cli, config_io, files, recipes, text_table


def define_flags(values: flags.FlagValues = flags.FLAGS) -> None:
    """Defines the flags in `values`, so that tests can give each its own."""
    recipe = recipes.path_of("small")
    work_dir = str(binaries.ROOT / "build" / "bench-packing")
    text = "Text files; the default is the demonstration's text."
    vocab = "Vocabulary; the default is to train one."
    lengths = "Lengths of sequences."
    packings = "Values of data.pack_sequences; 0 is always measured too."
    positions = "Positions of a batch, padding included: whole rows of each kind."
    seconds = "Approximate seconds of one measurement."
    flags.DEFINE_string("config", recipe, "A recipe or a config.json.", values)
    flags.DEFINE_multi_string(
        "set", [], "Changes one setting: key.sub=value. Repeatable.", values
    )
    flags.DEFINE_string("input", "", text, values)
    flags.DEFINE_string("vocab_model", "", vocab, values)
    flags.DEFINE_string("work_dir", work_dir, "Keeps the records made.", values)
    cli.define_list("lengths", ["128", "512"], lengths, values)
    cli.define_list("packings", ["1", "2", "4"], packings, values)
    flags.DEFINE_integer("positions", 4096, positions, 1, None, flag_values=values)
    flags.DEFINE_integer("rounds", 5, "Rounds.", 1, None, flag_values=values)
    flags.DEFINE_float("turn_seconds", 4.0, seconds, 0.0, None, flag_values=values)
    flags.DEFINE_string("json", "", "File for all figures.", values)


def _integers(values: flags.FlagValues, name: str) -> list[int]:
    found = getattr(values, name)
    if not found or not all(one.isdecimal() and int(one) > 0 for one in found):
        raise ValueError(f"--{name} must be numbers from 1 on; received {found}")
    return sorted({int(one) for one in found})


def main(argv: Sequence[str], flag_values: flags.FlagValues = flags.FLAGS) -> None:
    """Measures and prints."""
    with cli.user_errors():
        cli.refuse_arguments(argv)
        lengths, packings = (
            _integers(flag_values, name) for name in ("lengths", "packings")
        )
        rows = [length * packing for length in lengths for packing in (1, *packings)]
        if broken := [one for one in rows if flag_values.positions % one]:
            raise ValueError(
                f"--positions must be a multiple of each row, such as {max(broken)}; "
                f"received {flag_values.positions}"
            )
        # Records are made for each length; a stage has its own.
        config = config_io.load(
            flag_values.config, ["train.stages=[]", *flag_values.set]
        )
        # Imported here: TensorFlow takes seconds, and flags and files were checked.
        from albert_tf.benchmarks import packing_benchmark

        print(f"{os.cpu_count()} cores, load before {os.getloadavg()[0]:.1f}")
        found = [
            speed
            for length in lengths
            for speed in packing_benchmark.measure(
                packing_benchmark.recipes(
                    config, length, packings, flag_values.positions
                ),
                os.path.abspath(flag_values.work_dir),
                flag_values.input and os.path.abspath(flag_values.input),
                flag_values.vocab_model and os.path.abspath(flag_values.vocab_model),
                flag_values.rounds,
                flag_values.turn_seconds,
            )
        ]
        lines = [packing_benchmark.HEADER, *map(packing_benchmark.to_row, found)]
        print("\n".join(text_table.align(lines)))
        print(f"load after {os.getloadavg()[0]:.1f}")
        if flag_values.json:
            text = json.dumps([one._asdict() for one in found], indent=1)
            files.write_bytes(flag_values.json, text.encode())


if __name__ == "__main__":
    cli.run(main, define_flags)
