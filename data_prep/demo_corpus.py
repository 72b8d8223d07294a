"""Writes the demonstration corpus: documentation of Python and installed packages.

The sources are CPython's documentation topics and the docstrings of the standard
library and of the packages that requirements.txt installs. They are parsed, never
imported. Each topic or docstring is a document: one sentence per line, a blank line
between documents. The same Python and the same packages give the same bytes.

With --documents=modules all docstrings of a module are one document, which then fills
longer sequences: half of the docstrings have at most 51 words.

    python -m data_prep.demo_corpus --output=corpus.txt
"""

import os
from collections.abc import Sequence

from absl import flags

from albert_tf.core import cli, files


def define_flags(flag_values: flags.FlagValues = flags.FLAGS) -> None:
    """Defines the flags in `flag_values`, so that tests can give each its own."""
    flags.DEFINE_string("output", None, "Text file to write.", flag_values)
    flags.DEFINE_enum(
        "documents",
        "docstrings",
        ["docstrings", "modules"],
        "What is a document: each docstring, or all docstrings of a module.",
        flag_values,
    )
    flags.DEFINE_integer(
        "num_workers",
        2,
        "Number of worker processes; the output does not depend on it.",
        lower_bound=1,
        flag_values=flag_values,
    )
    flags.mark_flag_as_required("output", flag_values)


def main(argv: Sequence[str], flag_values: flags.FlagValues = flags.FLAGS) -> None:
    """Builds the corpus and writes it."""
    with cli.user_errors():
        cli.refuse_arguments(argv)
        path = flag_values.output
        directory = os.path.dirname(path) or "."
        if not files.is_remote(path) and not files.is_folder(directory):
            raise ValueError(f"--output: directory {directory!r} does not exist")
        # Imported here: libraries take time, and flags and files are checked first.
        from data_prep.docstring_corpus import builder

        join_modules = flag_values.documents == "modules"
        counts = builder.write(path, flag_values.num_workers, join_modules)
    print(f"{path}: {counts}")


if __name__ == "__main__":
    cli.run(main, define_flags)
