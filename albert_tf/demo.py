"""The demonstration: from this machine's own documentation to filled masks.

python -m albert_tf.demo --output_dir=build/demo

Runs the binaries as a user would, one after another, each in its own process. If it is
interrupted, the same command resumes: a stage that is done does not run again, unless
its command, the recipe or an earlier stage changed.
"""

import os
import shlex
import shutil
import sys
from collections.abc import Sequence

from absl import flags

from albert_tf.core import cli, config_io

_EXAMPLE = "Returns the [MASK] of the file."


def define_flags(flag_values: flags.FlagValues = flags.FLAGS) -> None:
    """Defines the flags in `flag_values`, so that tests can give each its own."""
    flags.DEFINE_string(
        "output_dir", "build/demo", "Directory of all outputs.", flag_values
    )
    flags.DEFINE_string(
        "config", "configs/demo.py", "The recipe to follow.", flag_values
    )
    flags.DEFINE_multi_string(
        "set", [], "Changes one setting: key.sub=value. Repeatable.", flag_values
    )


def main(argv: Sequence[str], flag_values: flags.FlagValues = flags.FLAGS) -> None:
    """Runs all stages, then writes summary.json and the report."""
    with cli.user_errors():
        cli.refuse_arguments(argv)
        config = config_io.load(flag_values.config, flag_values.set)
        # Imported here: TensorFlow takes seconds, and flags and files were checked
        # first.
        from albert_tf.demonstration import pipeline

        print(pipeline.run(flag_values.output_dir, config))
        if activation := _activation():
            print(f"First, in this shell: {activation}")
        saved_model = pipeline.saved_model_dir(flag_values.output_dir)
        cli.print_next("albert_tf.predict", f"--saved_model={saved_model}", _EXAMPLE)


def _activation() -> str:
    """Returns the command that makes `python` this one, or an empty string if it is.

    `make demo` runs the Python of an environment that is not active in its shell.
    """
    own = os.path.join(sys.prefix, "bin")
    if sys.prefix == sys.base_prefix or shutil.which("python") == f"{own}/python":
        return ""
    return shlex.join([".", os.path.relpath(os.path.join(own, "activate"))])


if __name__ == "__main__":
    cli.run(main, define_flags)
