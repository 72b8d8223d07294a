r"""Prints records as text, and compares their statistics with the expected ones.

  python -m data_prep.inspect_records DIR [--num_records=5] [--html=PAGE.html]

DIR is local or gs://. The page is self-contained: its pictures are embedded.
"""

from collections.abc import Sequence

from absl import flags

from albert_tf.core import cli
from albert_tf.data import schema
from data_prep.verification import manifest as manifest_lib


def define_flags(flag_values: flags.FlagValues = flags.FLAGS) -> None:
    """Defines the flags in `flag_values`, so that tests can give each its own."""
    values = flag_values
    flags.DEFINE_integer(
        "num_records", 5, "Records to print.", lower_bound=0, flag_values=values
    )
    flags.DEFINE_enum(
        "split", schema.TRAIN, schema.SPLITS, "The split to read.", values
    )
    flags.DEFINE_string("html", "", "An HTML page to write, local or gs://.", values)
    flags.DEFINE_integer(
        "seed",
        0,
        "Decides which records are shown, and the masks of records without masks.",
        lower_bound=0,
        flag_values=values,
    )
    flags.DEFINE_integer(
        "max_records",
        100000,
        "The number of records to count in, from the first.",
        lower_bound=1,
        flag_values=values,
    )


def main(argv: Sequence[str], flag_values: flags.FlagValues = flags.FLAGS) -> None:
    """Checks the arguments, prints records and counts, and writes the page."""
    with cli.user_errors():
        if len(argv) != 2:
            raise ValueError(
                "one argument is needed, the directory of the records; received "
                f"{len(argv) - 1}"
            )
        manifest_lib.read_manifest(argv[1])
        # Imported here: TensorFlow takes seconds, and the arguments were checked first.
        from data_prep.inspection import run

        run.inspect(
            argv[1],
            flag_values.split,
            flag_values.max_records,
            flag_values.num_records,
            flag_values.seed,
            flag_values.html,
        )


if __name__ == "__main__":
    cli.run(main, define_flags)
