r"""The records of `create_pretraining_data`, made on many machines by Apache Beam.

  pip install -r requirements-beam.txt   # in a separate environment
  python -m data_prep.beam_pipeline \
    --input='corpus/*.txt.gz' --vocab_model=vocab/vocab.model --output_dir=records \
    --config=configs/albert_base.py --runner=DirectRunner

Flags that are not defined here are Beam's, as --name=value. The bytes of the shards,
of the vocabulary and of the manifest are those that `create_pretraining_data` writes.
See docs/beam.md for Flink, Spark and Dataflow.
"""

import importlib.util
from collections.abc import Sequence

from absl import app, flags, logging

from albert_tf.core import cli, command_line, config_io
from data_prep.pipeline import flags as flags_lib


def _check_beam(beam_options: Sequence[str]) -> None:
    """Raises a ValueError if Beam is not installed, or an argument is not a flag."""
    if importlib.util.find_spec("apache_beam") is None:
        raise ValueError(
            "data_prep.beam_pipeline needs Apache Beam, which is not installed: pip "
            "install 'albert-tf[beam]', or, in a clone and a separate environment, pip "
            "install -r requirements-beam.txt"
        )
    for option in beam_options:
        if not option.startswith("--"):
            raise ValueError(
                f"arguments must be flags, and Beam's must be --name=value; received "
                f"{option!r}. Quote globs, so that the shell does not expand them"
            )


def define_flags(flag_values: flags.FlagValues = flags.FLAGS) -> None:
    """Defines the flags; all others are Beam's."""
    flags_lib.define_shared_flags(flag_values)
    flags.adopt_module_key_flags(flags_lib, flag_values)


def parse_flags(
    argv: Sequence[str], flag_values: flags.FlagValues = flags.FLAGS
) -> list[str]:
    """Parses the flags that are defined here.

    Returns:
      The program's name and the remaining arguments.
    """
    # Otherwise parsing would end at the first argument that is not a flag.
    flag_values.set_gnu_getopt(True)
    return flag_values(argv, known_only=True)


def _parse(argv: Sequence[str]) -> list[str]:
    return command_line.parse(argv, parse_flags=parse_flags)


def main(argv: Sequence[str], flag_values: flags.FlagValues = flags.FLAGS) -> None:
    """Checks the flags, makes the records and prints a summary."""
    with cli.user_errors():
        config = config_io.load(flag_values.config, flag_values.set)
        _check_beam(argv[1:])
        flags_lib.check_input_files(flag_values)
        # Imported here: Beam takes seconds, and flags and files were checked first.
        from data_prep.pipeline import beam_run, common

        manifest = beam_run.run_pipeline(
            flag_values.input,
            flag_values.vocab_model,
            flag_values.output_dir,
            config,
            argv[1:],
            flag_values.overwrite,
            flag_values.evaluation_input,
        )
    if manifest is None:
        print(
            f"the pipeline is running; at its end, {flag_values.output_dir} has a "
            "manifest"
        )
    else:
        print(common.describe(manifest, flag_values.output_dir))


if __name__ == "__main__":
    define_flags()
    logging.set_verbosity(logging.WARNING)
    app.run(main, flags_parser=_parse)
