r"""Packs the predictions of all GLUE tasks into the archive that GLUE's site accepts.

python -m albert_tf.glue_submission --output=glue.zip \
    --runs=cola,sst2,mrpc,stsb,qqp,mnli,qnli,rte,wnli

A run is a directory that albert_tf.finetune wrote (with --seeds: its best seed),
albert_tf.evaluate or albert_tf.ensemble.
"""

from collections.abc import Sequence

from absl import flags

from albert_tf.core import cli


def define_flags(flag_values: flags.FlagValues = flags.FLAGS) -> None:
    """Defines the flags in `flag_values`, so that tests can give each its own."""
    cli.define_list(
        "runs", None, "Directories of the runs, comma-separated.", flag_values
    )
    flags.DEFINE_string("output", None, "The .zip file to write.", flag_values)
    flags.mark_flags_as_required(["runs", "output"], flag_values)


def main(argv: Sequence[str], flag_values: flags.FlagValues = flags.FLAGS) -> None:
    """Packs the predictions of the runs that the flags name."""
    with cli.user_errors():
        cli.refuse_arguments(argv)
        cli.require_directories(flag_values, "runs")

        # Imported here: TensorFlow takes seconds, and flags and files were checked.
        from albert_tf.finetuning import results_reader
        from albert_tf.tasks import glue_archive

        folders = [
            folder
            for run in flag_values.runs
            for folder in results_reader.prediction_folders(run)
        ]
        packed = glue_archive.pack(folders, flag_values.output)
    print(f"{flag_values.output}: {len(packed)} files")


if __name__ == "__main__":
    cli.run(main, define_flags)
