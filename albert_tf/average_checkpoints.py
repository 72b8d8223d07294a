r"""Averages the weights of several checkpoints of a run.

python -m albert_tf.average_checkpoints --model_dir=RUN --last=4 --output_dir=AVERAGE
python -m albert_tf.average_checkpoints --model_dir=RUN --steps=8000,9000,10000 \
    --output_dir=AVERAGE

AVERAGE is accepted wherever the weights of a run are read: by albert_tf.export,
albert_tf.finetune, albert_tf.convert, albert_tf.probe, and as --init_checkpoint. It has
no optimizer, so that it is not resumed. A run keeps its last train.keep_checkpoints
checkpoints, and the best one, which is among them or earlier.
"""

import re
from collections.abc import Sequence

from absl import flags

from albert_tf.checkpoints import checkpoint_files
from albert_tf.checkpoints import flags as checkpoint_flags
from albert_tf.core import cli, files, other_formats
from albert_tf.data import schema

_STEP = re.compile(r"[0-9]{1,18}")


def define_flags(flag_values: flags.FlagValues = flags.FLAGS) -> None:
    """Defines the flags in `flag_values`, so that tests can give each its own."""
    flags.DEFINE_string(
        "model_dir",
        None,
        "Directory of a run of albert_tf.pretrain, or of one seed of "
        "albert_tf.finetune.",
        flag_values,
    )
    cli.define_list(
        "steps", [], "Steps of the checkpoints, such as 8000,9000,10000.", flag_values
    )
    flags.DEFINE_integer(
        "last",
        None,
        "Averages this many of the latest checkpoints, instead of --steps.",
        lower_bound=1,
        flag_values=flag_values,
    )
    checkpoint_flags.define_weights(flag_values)
    flags.adopt_module_key_flags(checkpoint_flags, flag_values)
    flags.DEFINE_string(
        "output_dir", None, "Directory to write, new or empty.", flag_values
    )
    flags.mark_flags_as_required(["model_dir", "output_dir"], flag_values)


def _steps(flag_values: flags.FlagValues) -> list[int]:
    """Returns the steps to average.

    Raises:
      ValueError: they are not there, or the flags contradict each other.
    """
    model_dir, last, texts = flag_values.model_dir, flag_values.last, flag_values.steps
    if bool(texts) == bool(last):
        raise ValueError(
            "either --steps or --last must say which checkpoints to average; received "
            f"{'both' if texts else 'none'}"
        )
    other_formats.refuse_exported(model_dir)
    config_path = f"{model_dir.rstrip('/')}/{schema.CONFIG_FILE}"
    if not files.exists(config_path):
        raise ValueError(
            "--model_dir must be a directory that albert_tf.pretrain or "
            f"albert_tf.finetune wrote; there is no {config_path}"
        )
    if wrong := [text for text in texts if not _STEP.fullmatch(text)]:
        raise ValueError(
            f"--steps must be numbers of steps; received {wrong[0]!r:.100}"
        )
    there = checkpoint_files.whole_steps(model_dir)
    wanted = sorted({int(text) for text in texts}) or there[-last:]
    missing = [step for step in wanted if step not in there]
    if missing or len(wanted) < (last or 1):
        found = ", ".join(map(str, there)) or "none"
        raise ValueError(
            f"{model_dir} must hold all checkpoints that are averaged; it holds those "
            f"of steps {found}. A run keeps its last train.keep_checkpoints, and the "
            "best one"
        )
    return wanted


def main(argv: Sequence[str], flag_values: flags.FlagValues = flags.FLAGS) -> None:
    """Averages what the flags say."""
    with cli.user_errors():
        cli.refuse_arguments(argv)
        steps = _steps(flag_values)
        if not files.is_new_or_empty(flag_values.output_dir):
            raise ValueError(
                "--output_dir must be new or empty; received "
                f"{flag_values.output_dir}, which is not"
            )
        # Imported here: TensorFlow takes seconds, and flags and files were checked.
        from albert_tf.checkpoints import checkpoint_average

        lines = checkpoint_average.average(
            flag_values.model_dir, steps, flag_values.output_dir, flag_values.weights
        )
    print("\n".join(lines))
    print(cli.next_export(flag_values.output_dir))


if __name__ == "__main__":
    cli.run(main, define_flags)
