r"""Speed of a grammar probe: sentences a second, and minutes for all of BLiMP.

  python -m albert_tf.bench_probe
  python -m albert_tf.bench_probe --set=model.num_layers=12 --json=figures.json

The model has random weights; by default it is configs/small.py, four layers with two
million parameters. For each length that BLiMP's sentences have, full batches of random
tokens are timed, and the time for all of BLiMP follows from how many there are.
"""

import json
import os
from collections.abc import Sequence

from absl import flags

from albert_tf.core import cli, config_io, files, recipes
from albert_tf.core import config as config_lib
from albert_tf.probing import settings


def define_flags(values: flags.FlagValues = flags.FLAGS) -> None:
    """Defines the flags in `values`, so that tests can give each its own."""
    recipe = recipes.path_of("small")
    flags.DEFINE_string("config", recipe, "A recipe or a config.json.", values)
    flags.DEFINE_multi_string(
        "set",
        [],
        "Changes one setting: key.sub=value. Repeatable.",
        values,
    )
    batches = "Tokens of a batch."
    cli.define_list("batch_tokens", [str(settings.BATCH_TOKENS)], batches, values)
    dtypes = "Dtypes of the blocks."
    cli.define_list("dtypes", list(config_lib.COMPUTE_DTYPES), dtypes, values)
    rounds = "How often each batch is timed."
    flags.DEFINE_integer("rounds", 3, rounds, 1, None, flag_values=values)
    flags.DEFINE_string("json", "", "File for all figures.", values)


def _check(values: flags.FlagValues) -> list[int]:
    """Returns the sizes of batches.

    Raises:
      ValueError: a flag's value is wrong.
    """
    for text in values.batch_tokens:
        if not text.isdecimal() or int(text) < 1:
            raise ValueError(
                f"--batch_tokens must be numbers from 1 on; received {text!r}"
            )
    unknown = sorted(set(values.dtypes) - set(config_lib.COMPUTE_DTYPES))
    if unknown or not values.dtypes:
        raise ValueError(
            f"--dtypes must be some of {', '.join(config_lib.COMPUTE_DTYPES)}; "
            f"received {','.join(values.dtypes)!r}"
        )
    return [int(text) for text in values.batch_tokens]


def main(argv: Sequence[str], flag_values: flags.FlagValues = flags.FLAGS) -> None:
    """Measures and prints."""
    with cli.user_errors():
        cli.refuse_arguments(argv)
        config = config_io.load(flag_values.config, flag_values.set)
        batch_tokens = _check(flag_values)
        # Imported here: TensorFlow takes seconds, and flags and files were checked
        # first.
        from albert_tf.benchmarks import probe_benchmark

        print(f"{os.cpu_count()} cores, load before {os.getloadavg()[0]:.1f}")
        found = probe_benchmark.measure(
            config, flag_values.dtypes, batch_tokens, flag_values.rounds
        )
        print(f"load after {os.getloadavg()[0]:.1f}")
        if flag_values.json:
            text = json.dumps([one._asdict() for one in found], indent=1)
            files.write_bytes(flag_values.json, text.encode())


if __name__ == "__main__":
    cli.run(main, define_flags)
