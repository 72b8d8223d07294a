r"""Speed of training and encoding, compared with other libraries on this machine.

  python -m albert_tf.bench_model --rounds=5
  python -m albert_tf.bench_model --cases='training-*' --implementations='*-bfloat16'
  python -m albert_tf.bench_model --memory

For each case and precision, every implementation is built in its own process, and all
are timed in rounds, with TensorFlow's matrix product timed in between. The baselines
are installed from PyPI into environments below build/, which the first run creates.
With --memory nothing is compared: it prints how `train.remat` and
`train.queries_at_once` change the peak memory and the time of a step, by depth.
"""

import json
import os
from collections.abc import Sequence

from absl import flags

from albert_tf.benchmarks import model_cases
from albert_tf.core import cli, files


def define_flags(values: flags.FlagValues = flags.FLAGS) -> None:
    """Defines the flags in `values`, so that tests can give each its own."""
    names = "Globs of names, separated by commas; the default is all."
    cli.define_list("cases", [], f"The cases to measure. {names}", values)
    cli.define_list(
        "implementations", [], f"The implementations to measure. {names}", values
    )
    alone = "Measure this project only."
    flags.DEFINE_bool("no_baselines", False, alone, values)
    rounds = "How often each implementation is timed."
    flags.DEFINE_integer("rounds", 5, rounds, 1, None, flag_values=values)
    flags.DEFINE_string("json", "", "File to write all measurements to.", values)
    memory = (
        "Measure memory by depth, train.remat and train.queries_at_once, not speed."
    )
    flags.DEFINE_bool("memory", False, memory, values)


def bench(values: flags.FlagValues) -> None:
    """Measures what the flags ask for, prints it, and writes the JSON file.

    Raises:
      ValueError: a flag's value is wrong, or this project's model could not be
        measured.
    """
    all_implementations = model_cases.IMPLEMENTATIONS
    implementations = model_cases.choose(
        "implementations", values.implementations, all_implementations
    )
    own = [one for one in implementations if not one.is_baseline]
    if values.memory:
        cases = model_cases.choose("cases", values.cases, model_cases.MEMORY_CASES)
    else:
        hidden = [model_cases.TINY]
        cases = model_cases.choose("cases", values.cases, model_cases.CASES, hidden)
    # Imported here: TensorFlow takes seconds, and flags and files were checked first.
    from albert_tf.benchmarks import model_benchmark

    print(f"{os.cpu_count()} cores, load before {os.getloadavg()[0]:.1f}", flush=True)
    if values.memory:
        dtypes = [one.dtype for one in own]
        measured = model_benchmark.measure_memory(cases, dtypes, values.rounds)
    else:
        if values.no_baselines:
            print("The baselines are omitted, as --no_baselines asks.")
            implementations = own
        measured = model_benchmark.measure_speed(cases, implementations, values.rounds)
    print(f"\nload after {os.getloadavg()[0]:.1f}")
    if values.json:
        files.write_bytes(values.json, json.dumps(measured, indent=1).encode())
    names = {one.name for one in all_implementations if not one.is_baseline}
    failed = sorted(names & {name for entry in measured for name in entry["missing"]})
    if failed:
        raise ValueError(f"{', '.join(failed)} could not be measured; see above")


def main(argv: Sequence[str], flag_values: flags.FlagValues = flags.FLAGS) -> None:
    """Measures and prints."""
    with cli.user_errors():
        cli.refuse_arguments(argv)
        bench(flag_values)


if __name__ == "__main__":
    cli.run(main, define_flags)
