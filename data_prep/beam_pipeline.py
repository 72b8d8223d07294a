r"""The records of `create_pretraining_data`, made on many machines by Apache Beam.

  pip install -r requirements-beam.txt   # in an environment of its own
  python -m data_prep.beam_pipeline \
    --input='corpus/*.txt.gz' --vocab_model=vocab/vocab.model --output_dir=records \
    --config=configs/albert_base.py --runner=DirectRunner

Flags that are not defined here are Beam's, as --name=value. The bytes of the shards,
of the vocabulary and of the manifest are those that `create_pretraining_data` writes.
See docs/beam.md for Flink, Spark and Dataflow.
"""

import importlib.util
import os
from collections.abc import Iterable, Sequence
from typing import Any

from absl import app, flags, logging

from albert_tf import binary, files, schema
from albert_tf import config as config_lib
from data_prep import create_pretraining_data, output_folder, preparation, readers

# These hand options that Beam itself does not know to a server that may.
# Else the DirectRunner would fetch a runner written in Go over the network.
_DEFAULT_OPTIONS = ("--prism_location=none",)
_RUNNERS_WITH_SERVERS = ("FlinkRunner", "PortableRunner", "SparkRunner")


def run_pipeline(
    patterns: str | Iterable[str],
    vocab_model: str,
    output_dir: str,
    config: config_lib.Config,
    beam_options: Sequence[str] = (),
    overwrite: bool = False,
    evaluation_input: str | Iterable[str] = (),
) -> schema.Manifest | None:
    """Writes the records of raw text into a folder.

    Args:
      patterns: see `create_pretraining_data.create_pretraining_data`, as for the next
        three. The workers must see the same files and the same folder.
      vocab_model: see there.
      output_dir: see there.
      config: see there.
      beam_options: Beam's options, as --name=value.
      overwrite: whether to replace records that are in the folder already.
      evaluation_input: see there.

    Returns:
      The manifest, as it was written; None if the runner was not told to wait.

    Raises:
      ValueError: see there; or Beam is not installed, or an option is not Beam's.
      RuntimeError: a step of the pipeline failed.
    """
    _require_beam()
    import apache_beam as beam  # an extra: see requirements-beam.txt

    from data_prep import beam_steps

    options = _parse_options(beam_options)
    settings, tokenizer = preparation.make_settings(
        vocab_model, config, evaluation_input
    )
    groups = readers.plan_groups(readers.expand(patterns))
    output = output_folder.OutputFolder(output_dir, tokenizer.model_proto, overwrite)
    output.prepare()
    manifest = os.path.join(output_dir, schema.MANIFEST_FILE)
    if files.exists(manifest):
        # Old shards give way to new ones one by one, and it would describe a mixture.
        files.remove(manifest)
    with beam.Pipeline(options=options) as pipeline:
        beam_steps.build(pipeline, groups, settings, output_dir)
    if not files.exists(manifest):  # Beam was told not to wait
        return None
    return schema.Manifest.from_json(files.read_bytes(manifest).decode())


def _require_beam() -> None:
    if importlib.util.find_spec("apache_beam") is None:
        raise ValueError(
            "data_prep.beam_pipeline needs Apache Beam, which is not installed; in an "
            "environment of its own: pip install -r requirements-beam.txt"
        )


def _parse_options(beam_options: Sequence[str]) -> Any:
    """Beam's options from the command line, unless something is not one of them."""
    from apache_beam.options import pipeline_options

    for option in beam_options:
        if not option.startswith("--"):
            raise ValueError(
                f"arguments must be flags, and Beam's must be --name=value; received "
                f"{option!r}. Quote globs, so that the shell does not expand them"
            )
    options = pipeline_options.PipelineOptions([*_DEFAULT_OPTIONS, *beam_options])
    runner = options.view_as(pipeline_options.StandardOptions).runner
    if runner not in _RUNNERS_WITH_SERVERS:
        known = options.get_all_options()
        given = options.get_all_options(retain_unknown_options=True)
        unknown = sorted(given.keys() - known.keys())
        if unknown:
            raise ValueError(
                f"--{unknown[0]} is neither a flag of this program nor an option of "
                "Beam; see --help, and Beam's documentation of the runner"
            )
    return options


def define_flags(flag_values: flags.FlagValues = flags.FLAGS) -> None:
    """Defines the flags; all others are Beam's."""
    create_pretraining_data.define_shared_flags(flag_values)


def parse_flags(
    argv: Sequence[str], flag_values: flags.FlagValues = flags.FLAGS
) -> list[str]:
    """Takes the flags that are defined here out of a command line.

    Returns:
      The program's name and what is left.
    """
    # Else the first argument that is not a flag would end the parsing.
    flag_values.set_gnu_getopt(True)
    return flag_values(argv, known_only=True)


def main(argv: Sequence[str], flag_values: flags.FlagValues = flags.FLAGS) -> None:
    """Reads the flags, makes the records, and says what was made."""
    with binary.user_errors():
        manifest = run_pipeline(
            flag_values.input,
            flag_values.vocab_model,
            flag_values.output_dir,
            config_lib.load(flag_values.config, flag_values.set),
            argv[1:],
            flag_values.overwrite,
            flag_values.evaluation_input,
        )
    if manifest is None:
        print(f"the pipeline runs; {flag_values.output_dir} has a manifest at its end")
    else:
        print(preparation.describe(manifest, flag_values.output_dir))


if __name__ == "__main__":
    define_flags()
    logging.set_verbosity(logging.WARNING)
    app.run(main, flags_parser=parse_flags)
