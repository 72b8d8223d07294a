r"""Trains the ablations of the ALBERT paper again, and sets them beside its figures.

python -m albert_tf.reproduce --table=pair_loss --output_dir=OUT [--budget=smoke]
python -m albert_tf.reproduce --table=all --budget=hour --output_dir=OUT \
    --input='wikipedia_*.txt' --blimp_dir=blimp --glue_dir=glue_data

Each experiment is trained with several seeds, one after another, in a process of its
own. The same command resumes, and trains nothing twice. It writes measures.json,
results.json, tables.md and index.html. A difference between two rows counts if all
seeds of one are above all seeds of the other. docs/reproduction.md has the figures.
"""

import os
from collections.abc import Sequence

from absl import flags

from albert_tf.core import cli, files, plurals
from albert_tf.reproduction import budgets, results, runner, tables

_ALL = "all"


def define_flags(flag_values: flags.FlagValues = flags.FLAGS) -> None:
    """Defines the flags in `flag_values`, so that tests can give each its own."""
    cli.define_list(
        "table",
        None,
        f"Tables: {_ALL}, or some of {', '.join(tables.TABLES)}.",
        flag_values,
    )
    flags.DEFINE_enum(
        "budget",
        budgets.SMOKE,
        list(budgets.BUDGETS),
        "smoke: tiny models and a few steps. hour: about ten minutes on one core for "
        "most trainings. full: the sizes and steps of the paper.",
        flag_values,
    )
    flags.DEFINE_string("output_dir", None, "Directory of all outputs.", flag_values)
    cli.define_list(
        "input",
        [],
        "Patterns of text files; default: the documentation on this machine.",
        flag_values,
    )
    cli.define_list(
        "other_input",
        [],
        "The text that added_data adds; default: the documentation on this machine.",
        flag_values,
    )
    flags.DEFINE_string(
        "blimp_dir", "", "Directory of BLiMP; empty: no probes.", flag_values
    )
    flags.DEFINE_string(
        "glue_dir", "", "Directory of GLUE; empty: no fine-tuning.", flag_values
    )
    flags.DEFINE_string(
        "measures",
        "",
        "File of what was measured. Default: OUTPUT_DIR/measures.json.",
        flag_values,
    )
    flags.DEFINE_bool(
        "train",
        True,
        "With --notrain only the tables of what was measured before are written.",
        flag_values,
    )
    flags.DEFINE_integer(
        "num_parallel",
        1,
        "Trainings at the same time, each on its share of the CPU's cores. With 1 each "
        "has all cores, and its output is shown.",
        1,
        flag_values=flag_values,
    )
    flags.DEFINE_multi_string(
        "set",
        [],
        "Changes a setting in all trainings: key.sub=value. Repeatable.",
        flag_values,
    )
    flags.mark_flags_as_required(["table", "output_dir"], flag_values)


def _names(flag_values: flags.FlagValues) -> list[str]:
    """Returns the names of the tables.

    Raises:
      ValueError: one is unknown, or a flag of one is missing.
    """
    names = list(tables.TABLES) if flag_values.table == [_ALL] else flag_values.table
    unknown = [name for name in names if name not in tables.TABLES]
    if unknown or not names:
        raise ValueError(
            f"--table must be {_ALL} or some of {', '.join(tables.TABLES)}; received "
            f"{','.join(flag_values.table)!r}"
        )
    has_text = flag_values.input or flag_values.other_input
    if "added_data" in names and flag_values.train and not has_text:
        raise ValueError(
            "--table=added_data needs another text: give --input, --other_input or both"
        )
    return names


def _absolute(path: str) -> str:
    """Returns the path as processes with another directory find it."""
    return os.path.abspath(path) if path and not files.is_remote(path) else path


def _num_parallel(flag_values: flags.FlagValues) -> int:
    """Returns how many trainings run at the same time.

    Raises:
      ValueError: they are more than cores.
    """
    num_cores = len(os.sched_getaffinity(0))
    if flag_values.num_parallel > num_cores:
        raise ValueError(
            "--num_parallel must be at most the number of cores that this process may "
            f"use, {num_cores}; received {flag_values.num_parallel}"
        )
    return flag_values.num_parallel


def main(argv: Sequence[str], flag_values: flags.FlagValues = flags.FLAGS) -> None:
    """Trains what is missing, and writes the tables."""
    with cli.user_errors():
        cli.refuse_arguments(argv)
        names = _names(flag_values)
        cli.require_directories(flag_values, "blimp_dir", "glue_dir")
        output_dir = os.path.abspath(flag_values.output_dir)
        default = os.path.join(output_dir, runner.MEASURES_FILE)
        budget = budgets.BUDGETS[flag_values.budget]
        maker = tables.Maker(budget, flag_values.set)
        options = runner.Options(
            output_dir,
            os.path.abspath(flag_values.measures or default),
            tuple(map(_absolute, flag_values.input)),
            tuple(map(_absolute, flag_values.other_input)),
            _absolute(flag_values.blimp_dir),
            _absolute(flag_values.glue_dir),
            _num_parallel(flag_values),
        )
        run = runner.Runner([maker.make(name) for name in names], budget, options)
        failed = []
        if flag_values.train:
            failed = run.run()
        else:
            run.check_shown()
        found = run.results()
        os.makedirs(output_dir, exist_ok=True)
        path = os.path.join(output_dir, "results.json")
        files.write_json(path, {"budget": flag_values.budget, "tables": found})
        parts = [results.overview(found), *map(results.markdown, found)]
        text = "\n\n".join("\n".join(part) for part in parts)
        files.write_bytes(os.path.join(output_dir, "tables.md"), text.encode() + b"\n")
        # Imported here: matplotlib takes time, and flags and files were checked.
        from albert_tf.reports import reproduction_report

        page = reproduction_report.write(output_dir, flag_values.budget, found)
        for table in found:
            print("\n".join(results.lines(table)))
        if missing := run.num_pending():
            of = ", ".join(one["name"] for one in found if one["num_missing"])
            print(f"missing: {plurals.count(missing, 'training')}, of {of}")
        if flag_values.budget == budgets.SMOKE:
            print("budget smoke: its figures say nothing")
        print(page)
        if failed:
            raise ValueError(
                f"{', '.join(failed)}: failed, with the reasons above. The same "
                "command tries them again"
            )


if __name__ == "__main__":
    cli.run(main, define_flags)
