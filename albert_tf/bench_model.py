r"""How fast the model trains and encodes, beside its peers on this machine.

  python -m albert_tf.bench_model --rounds=5
  python -m albert_tf.bench_model --cases='training-*' --contestants='*-bfloat16'
  python -m albert_tf.bench_model --memory

For each case and precision, all contestants are built, each in a process of its own,
and then take turns, with TensorFlow's matrix product probed in between. The peers come
from PyPI into environments below build/, which the first run makes. With --memory
nothing is compared: it shows what `train.remat` does to the memory of a step, by depth.
"""

import fnmatch
import functools
import json
import os
from collections.abc import Sequence
from typing import Any

from absl import flags

from albert_tf import binary, files
from albert_tf import config as config_lib
from albert_tf.model_speed import cases, contest, matrix_probe, results


def define_flags(values: flags.FlagValues = flags.FLAGS) -> None:
    """Defines the flags: here, so that another binary's can live in one process."""
    names = "Globs of names, with commas between them; all, where none is given."
    flags.DEFINE_list("cases", [], f"What to measure. {names}", values)
    flags.DEFINE_list("contestants", [], f"Who takes part. {names}", values)
    flags.DEFINE_bool("no_peers", False, "Measures this project alone.", values)
    rounds = "Turns of each contestant."
    flags.DEFINE_integer("rounds", 5, rounds, 1, None, flag_values=values)
    flags.DEFINE_string("json", "", "A file for all times as they were.", values)
    memory = "Peak memory by depth and train.remat instead of speed."
    flags.DEFINE_bool("memory", False, memory, values)


def choose(kind: str, patterns: Sequence[str], known: Sequence, hidden: Sequence = ()):
    """Those of `known` whose name one of the globs matches, or all without globs.

    Args:
      kind: what they are, as the flag calls them.
      patterns: globs.
      known: objects with a `name`.
      hidden: more of them, which only their full name brings in.

    Raises:
      ValueError: a glob matches none.
    """
    for pattern in patterns:
        names = [one.name for one in known]
        if not fnmatch.filter(names, pattern) and pattern not in _names(hidden):
            raise ValueError(
                f"--{kind} must match one of {', '.join(names)}; received {pattern!r}"
            )
    return [
        one
        for one in known
        if not patterns or any(fnmatch.fnmatch(one.name, glob) for glob in patterns)
    ] + [one for one in hidden if one.name in patterns]


def _names(named: Sequence) -> list[str]:
    return [one.name for one in named]


def start(contestant: cases.Contestant, case: cases.Case) -> contest.Process:
    """A process that is ready for its turns.

    Raises:
      contest.Failure: its environment cannot be made, or it ended.
    """
    python = _find_python(contestant.environment)
    if isinstance(python, contest.Failure):
        raise python
    return contest.Process(python, contestant, case)


@functools.cache
def _find_python(environment: str) -> str | contest.Failure:
    """The interpreter, or why there is none: nobody waits for that twice."""
    try:
        return contest.find_python(environment)
    except contest.Failure as failure:
        return failure


def bench_speed(
    chosen: Sequence[cases.Case],
    contestants: Sequence[cases.Contestant],
    num_rounds: int,
) -> list[dict[str, Any]]:
    """Prints one table a case and precision; returns all that was measured."""
    probe = matrix_probe.MatrixProbe()
    measured = []
    for case in chosen:
        for dtype in cases.DTYPES:
            group = [
                contestant
                for contestant in contestants
                if contestant.dtype == dtype and case.task in contestant.tasks
            ]
            if not group:
                continue
            found = contest.measure(case, group, num_rounds, probe.rate, start)
            print(f"\n{results.speed_table(case, *found)}", flush=True)
            measured.append(results.to_dict(case, *found))
    return measured


def bench_memory(
    chosen: Sequence[cases.Case], dtypes: Sequence[str], num_rounds: int
) -> list[dict[str, Any]]:
    """Prints one table a precision; returns all that was measured.

    Each combination runs alone in a fresh process, since a process's peak never falls.
    """
    probe = matrix_probe.MatrixProbe()
    measured = []
    for dtype in dtypes:
        rows: dict[cases.Case, dict[str, contest.Outcome]] = {}
        for case in chosen:
            rows[case] = {}
            for remat in config_lib.REMATS:
                contestant = cases.own_contestant(dtype, remat)
                outcomes, missing = contest.measure(
                    case, [contestant], num_rounds, probe.rate, start
                )
                measured.append(results.to_dict(case, outcomes, missing))
                for outcome in outcomes:
                    rows[case][remat] = outcome
                for why in missing.values():
                    print(f"{case.name}, {dtype}, remat {remat} is not measured: {why}")
        table = results.memory_table(rows, config_lib.REMATS)
        print(f"\nA training step in {dtype}, by train.remat\n{table}", flush=True)
    return measured


def bench(values: flags.FlagValues) -> None:
    """Measures what the flags ask for, prints it, and writes the JSON file.

    Raises:
      ValueError: a flag's value is wrong, or one of this project's own failed.
    """
    contestants = choose("contestants", values.contestants, cases.CONTESTANTS)
    if values.no_peers:
        contestants = [one for one in contestants if not one.is_peer]
    print(f"{os.cpu_count()} cores, load before {os.getloadavg()[0]:.1f}", flush=True)
    if values.memory:
        chosen = choose("cases", values.cases, cases.MEMORY_CASES)
        dtypes = [one.dtype for one in contestants if not one.is_peer]
        measured = bench_memory(chosen, dtypes, values.rounds)
    else:
        if values.no_peers:
            print("The peers are left out, as --no_peers asks.")
        chosen = choose("cases", values.cases, cases.CASES, [cases.TINY])
        measured = bench_speed(chosen, contestants, values.rounds)
    print(f"\nload after {os.getloadavg()[0]:.1f}")
    if values.json:
        files.write_bytes(values.json, json.dumps(measured, indent=1).encode())
    own = {one.name for one in cases.CONTESTANTS if not one.is_peer}
    failed = sorted(own & {name for entry in measured for name in entry["missing"]})
    if failed:
        raise ValueError(f"{', '.join(failed)} could not be measured; see above")


def main(argv: Sequence[str], flag_values: flags.FlagValues = flags.FLAGS) -> None:
    """Measures and prints."""
    with binary.user_errors():
        binary.refuse_arguments(argv)
        bench(flag_values)


if __name__ == "__main__":
    binary.run(main, define_flags)
