r"""Averages the predictions of several fine-tuned models of the same task.

python -m albert_tf.ensemble --runs=rte,rte-large --data_dir=glue_data/RTE \
    --split=dev --output_dir=rte-ensemble

A run is a directory that albert_tf.finetune wrote (with --seeds: all its seeds), or
albert_tf.evaluate for other checkpoints. Logits are averaged; for questions on a text,
the probabilities of answers. The models may differ in size and vocabulary.
"""

from collections.abc import Sequence

from absl import flags

from albert_tf.core import cli, config_io


def define_flags(flag_values: flags.FlagValues = flags.FLAGS) -> None:
    """Defines the flags in `flag_values`, so that tests can give each its own."""
    cli.define_list(
        "runs", None, "Directories of the runs, comma-separated.", flag_values
    )
    flags.DEFINE_string("data_dir", None, "Directory of the task's files.", flag_values)
    flags.DEFINE_string("split", "dev", "Split to predict, such as test.", flag_values)
    flags.DEFINE_string("output_dir", None, "Directory to write.", flag_values)
    cli.define_data_settings(flag_values)
    flags.mark_flags_as_required(["runs", "data_dir", "output_dir"], flag_values)


def main(argv: Sequence[str], flag_values: flags.FlagValues = flags.FLAGS) -> None:
    """Averages the predictions of the runs that the flags name."""
    with cli.user_errors():
        cli.refuse_arguments(argv)
        cli.require_directories(flag_values, "runs", "data_dir")
        cli.check_output_dir(flag_values.output_dir, flag_values.runs)
        config_io.check_data_settings(flag_values.set)

        # Imported here: TensorFlow takes seconds, and flags and files were checked.
        from albert_tf.finetuning import ensembling, results_writer

        results = ensembling.combine(
            flag_values.runs,
            flag_values.data_dir,
            flag_values.split,
            flag_values.output_dir,
            flag_values.set,
        )
    results_writer.print_results(results, flag_values.output_dir)


if __name__ == "__main__":
    cli.run(main, define_flags)
