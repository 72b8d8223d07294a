"""Writes the one-page HTML report of a pre-training or fine-tuning run.

python -m albert_tf.report MODEL_DIR [--output_dir=MODEL_DIR/report]

The report directory holds index.html and the pictures of the curves, each in light and
in dark colours. It needs nothing outside itself and may be moved.
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
        "Directory to write, local or gs://. Default: MODEL_DIR/report.",
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


def main(argv: Sequence[str], flag_values: flags.FlagValues = flags.FLAGS) -> None:
    """Reads a run directory and writes its report."""
    with cli.user_errors():
        if len(argv) != 2:
            raise ValueError(
                f"one argument is needed, MODEL_DIR; received {len(argv) - 1}"
            )
        model_dir = argv[1]
        output_dir = flag_values.output_dir or os.path.join(model_dir, "report")
        is_finetuning = _is_finetuning(model_dir)

        # Imported here: TensorFlow takes seconds, and flags and files were checked
        # first.
        from albert_tf.reports import finetuning_report, pretraining_report

        report = finetuning_report if is_finetuning else pretraining_report
        print(report.write(output_dir, model_dir))


if __name__ == "__main__":
    cli.run(main, define_flags)
