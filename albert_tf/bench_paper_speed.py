r"""Speed of the paper's models beside BERT large's: a step, and the sum of gradients.

  python -m albert_tf.bench_paper_speed
  python -m albert_tf.bench_paper_speed --models=albert_large --megabits=1000,10000

A step has --batch_size sequences of 512 tokens. Two workers sum their gradients over a
link of limited bandwidth, in a network namespace of this machine (needs unshare and tc,
and the permission to use them); --megabits= leaves that out.
"""

import json
import os
import statistics
from collections.abc import Sequence

from absl import flags

from albert_tf.benchmarks import limited_link, paper_speed, rounds
from albert_tf.core import cli, config_io, files, recipes, text_table
from albert_tf.core import config as config_lib
from albert_tf.model import costs


def define_flags(values: flags.FlagValues = flags.FLAGS) -> None:
    """Defines the flags in `values`, so that tests can give each its own."""
    models = f"Models, of {', '.join(paper_speed.PAPER)}."
    megabits = "Megabits a second of the links, in each direction."
    rounds_help = "How often each step is timed."
    cli.define_list("models", list(paper_speed.PAPER), models, values)
    cli.define_list("megabits", ["1000", "10000"], megabits, values)
    flags.DEFINE_integer("rounds", 3, rounds_help, 1, None, flag_values=values)
    flags.DEFINE_integer(
        "batch_size", 1, "Sequences of a step.", 1, None, flag_values=values
    )
    flags.DEFINE_enum(
        "dtype",
        config_lib.COMPUTE_DTYPES[0],
        config_lib.COMPUTE_DTYPES,
        "Of the matrix products.",
        flag_values=values,
    )
    flags.DEFINE_multi_string(
        "set", [], "Changes a setting of all models: key.sub=value.", values
    )
    flags.DEFINE_string("json", "", "File for all figures.", values)


def _check(values: flags.FlagValues) -> tuple[list[str], list[int]]:
    """Returns the models with BERT large among them, and the bandwidths."""
    unknown = [name for name in values.models if name not in paper_speed.PAPER]
    if unknown or not set(values.models) - {paper_speed.REFERENCE}:
        raise ValueError(
            f"--models must be some of {', '.join(paper_speed.PAPER)}, not bert_large "
            f"alone; received {','.join(values.models)!r}"
        )
    for text in values.megabits:
        if not text.isdecimal() or int(text) < 1:
            raise ValueError(f"--megabits must be numbers from 1 on; received {text!r}")
    names = [
        name
        for name in paper_speed.PAPER
        if name in values.models or name == paper_speed.REFERENCE
    ]
    return names, [int(text) for text in values.megabits]


def main(argv: Sequence[str], flag_values: flags.FlagValues = flags.FLAGS) -> None:
    """Measures and prints."""
    with cli.user_errors():
        cli.refuse_arguments(argv)
        names, megabits = _check(flag_values)
        configs = {
            name: config_io.load(recipes.path_of(name), flag_values.set)
            for name in names
        }
        print(f"{os.cpu_count()} cores, load before {os.getloadavg()[0]:.1f}")
        cases = {
            name: paper_speed.case(name, one, flag_values.batch_size)
            for name, one in configs.items()
        }
        counts = [costs.count_parameters(one.model).total for one in configs.values()]
        sums: dict[int, dict[str, float]] = {}
        try:
            for rate in megabits:
                times = limited_link.measure(counts, rate)
                of_model = zip(names, map(statistics.mean, times), strict=True)
                sums[rate] = dict(of_model)
            steps = paper_speed.measure_steps(
                cases, flag_values.dtype, flag_values.rounds
            )
        except rounds.Failure as failure:
            raise ValueError(f"nothing can be compared: {failure}") from failure
        found = paper_speed.combine(configs, steps, sums)
        print("\n".join(text_table.align(paper_speed.table(found))))
        print(f"load after {os.getloadavg()[0]:.1f}")
        if flag_values.json:
            text = json.dumps([one._asdict() for one in found], indent=1)
            files.write_bytes(flag_values.json, text.encode())


if __name__ == "__main__":
    cli.run(main, define_flags)
