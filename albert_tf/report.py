"""Writes the HTML report of a pre-training or fine-tuning run, or of several runs.

python -m albert_tf.report MODEL_DIR [--output_dir=MODEL_DIR/report] [--probe=PROBE_DIR]
python -m albert_tf.report MODEL_DIR MODEL_DIR MODEL_DIR --output_dir=COMPARISON

The report is one file, index.html, with its pictures in light and in dark colours. Of
several runs it shows the curves in one picture, the best scores, and the settings that
differ. Results of albert_tf.probe in MODEL_DIR/probe-*, or in the directories that
--probe names, are part of the report of a pre-training.
"""

import os
from collections.abc import Sequence

from absl import flags

from albert_tf.core import cli, config_io, files
from albert_tf.data import schema


def define_flags(flag_values: flags.FlagValues = flags.FLAGS) -> None:
    """Defines the flags in `flag_values`, so that tests can give each its own."""
    flags.DEFINE_string(
        "output_dir",
        None,
        "Directory to write, local or gs://. Default for one run: MODEL_DIR/report.",
        flag_values=flag_values,
    )
    cli.define_list(
        "probe",
        [],
        "Output directories of albert_tf.probe, for the report of a pre-training. "
        "MODEL_DIR/probe-* need not be named.",
        flag_values=flag_values,
    )


def _is_finetuning(model_dir: str) -> bool:
    if files.exists(os.path.join(model_dir, schema.SEEDS_FILE)):
        return True
    config_path = os.path.join(model_dir, schema.CONFIG_FILE)
    if not files.exists(config_path):
        raise ValueError(
            "MODEL_DIR must be the directory of a run; there is no "
            f"{schema.CONFIG_FILE} in {model_dir}"
        )
    return bool(config_io.read(config_path).task.name)


def _check(model_dirs: Sequence[str], flag_values: flags.FlagValues) -> bool:
    """Returns whether the runs are of fine-tuning.

    Raises:
      ValueError: there is no run, they are of both kinds, or a flag does not suit them.
    """
    if not model_dirs:
        raise ValueError("one argument is needed, MODEL_DIR; received 0")
    kinds = [_is_finetuning(path) for path in model_dirs]
    if len(set(kinds)) > 1:
        raise ValueError(
            "runs side by side must be all of pre-training or all of fine-tuning; "
            f"{model_dirs[0]} and {model_dirs[kinds.index(not kinds[0])]} are not"
        )
    if len(model_dirs) > 1 and not flag_values.output_dir:
        raise ValueError("--output_dir must be given for the report of several runs")
    if flag_values.probe and (kinds[0] or len(model_dirs) > 1):
        raise ValueError("--probe must be given with one run, of pre-training")
    cli.require_directories(flag_values, "probe")
    return kinds[0]


def main(argv: Sequence[str], flag_values: flags.FlagValues = flags.FLAGS) -> None:
    """Reads run directories and writes their report."""
    with cli.user_errors():
        model_dirs = argv[1:]
        is_finetuning = _check(model_dirs, flag_values)
        output_dir = flag_values.output_dir or os.path.join(model_dirs[0], "report")

        # Imported here: TensorFlow takes seconds, and flags and files were checked
        # first.
        from albert_tf.reports import (
            comparison_report,
            finetuning_report,
            pretraining_report,
        )

        if len(model_dirs) > 1:
            page = comparison_report.write(output_dir, model_dirs, is_finetuning)
        elif is_finetuning:
            page = finetuning_report.write(output_dir, model_dirs[0])
        else:
            page = pretraining_report.write(
                output_dir, model_dirs[0], flag_values.probe
            )
        print(page)


if __name__ == "__main__":
    cli.run(main, define_flags)
