r"""Checks a directory of records against its manifest, and reports all problems.

  python -m data_prep.verify DIR [--deep]

Exit code 0 and one line if all is as in the manifest; otherwise 1, and a line for each
problem. DIR is local or gs://.
"""

from collections.abc import Sequence

from absl import flags

from albert_tf.core import cli
from data_prep.verification import manifest as manifest_lib


def define_flags(flag_values: flags.FlagValues = flags.FLAGS) -> None:
    """Defines the flags in `flag_values`, so that tests can give each its own."""
    flags.DEFINE_bool(
        "deep",
        False,
        "Check every record, too: checksum, ids, lengths, positions and label.",
        flag_values,
    )


def main(argv: Sequence[str], flag_values: flags.FlagValues = flags.FLAGS) -> None:
    """Checks a directory and prints its problems, or a summary if there are none."""
    with cli.user_errors():
        if len(argv) != 2:
            raise ValueError(
                "one argument is needed, the directory of the records; received "
                f"{len(argv) - 1}"
            )
        data_dir = argv[1]
        manifest = manifest_lib.read_manifest(data_dir)
        # Imported here: Numba takes seconds, and the arguments were checked first.
        from data_prep.verification import run

        problems = run.verify(data_dir, flag_values.deep)
        print(*problems, sep="\n", end="\n" if problems else "")
        if problems:
            raise ValueError(
                f"{data_dir} does not match its manifest; number of problems, listed "
                f"above: {len(problems)}"
            )
        splits = manifest.splits.values()
        print(
            f"{data_dir}: {sum(len(split.shards) for split in splits):,} shards, "
            f"{sum(split.num_records for split in splits):,} records, all as in the "
            "manifest"
        )


if __name__ == "__main__":
    cli.run(main, define_flags)
