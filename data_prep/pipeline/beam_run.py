"""A Beam pipeline that writes the records of `local_run`, on one or many machines."""

import os
from collections.abc import Iterable, Sequence

import apache_beam as beam
from apache_beam.options import pipeline_options

from albert_tf.core import config as config_lib
from albert_tf.core import files
from albert_tf.data import manifest as manifest_lib
from albert_tf.data import schema
from data_prep.pipeline import beam_steps, common
from data_prep.pipeline import output_dir as output_dir_lib
from data_prep.reading import blocks, input_files

# Without it, the DirectRunner would download a runner written in Go.
_DEFAULT_OPTIONS = ("--prism_location=none",)
# These pass options that Beam does not know to a server that may know them.
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
    """Writes the records of raw text into a directory.

    Args:
      patterns: see `local_run.create_pretraining_data`, as for the next three. All
        workers must see the same files and the same directory.
      vocab_model: path of the SentencePiece model.
      output_dir: the directory to write.
      config: the configuration.
      beam_options: Beam's options, as --name=value.
      overwrite: whether to replace existing records in the directory.
      evaluation_input: see `local_run.create_pretraining_data`.

    Returns:
      The manifest, as written; None if the runner does not wait.

    Raises:
      ValueError: as `local_run.create_pretraining_data`, or an option is not Beam's.
      RuntimeError: a step of the pipeline failed.
    """
    options = _parse_options(beam_options)
    settings, tokenizer = common.make_settings(vocab_model, config, evaluation_input)
    paths = input_files.expand(patterns)
    input_files.check_format(paths, config.text)
    groups = blocks.plan_groups(paths)
    output = output_dir_lib.OutputDir(output_dir, tokenizer.model_proto, overwrite)
    output.prepare()
    manifest = os.path.join(output_dir, schema.MANIFEST_FILE)
    if files.exists(manifest):
        # Shards are replaced one by one, and it would describe a mixture.
        files.remove(manifest)
    with beam.Pipeline(options=options) as pipeline:
        beam_steps.build(pipeline, groups, settings, output_dir)
    if not files.exists(manifest):  # the runner does not wait
        return None
    return manifest_lib.read_manifest(output_dir)


def _parse_options(
    beam_options: Sequence[str],
) -> pipeline_options.PipelineOptions:
    """Parses Beam's options; raises a ValueError for one that Beam does not know."""
    options = pipeline_options.PipelineOptions([*_DEFAULT_OPTIONS, *beam_options])
    runner = options.view_as(pipeline_options.StandardOptions).runner
    # It mixes the outputs of a step that has several, and counts elements twice.
    if (runner or "").rpartition(".")[2] == "DaskRunner":
        raise ValueError(
            "--runner must not be Beam's DaskRunner, which gives wrong sums; use "
            "data_prep.create_pretraining_data --dask_scheduler=HOST:8786"
        )
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
