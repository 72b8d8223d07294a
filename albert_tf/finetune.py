r"""Fine-tunes a pre-trained ALBERT on a task, and predicts with the best checkpoint.

python -m albert_tf.finetune --config=configs/finetune_mrpc.py \
    --init_checkpoint=RUN --data_dir=glue_data/MRPC --model_dir=mrpc [--seeds=5]

writes results.json, answers-SPLIT.jsonl and predictions/ to --model_dir; with several
seeds, each writes to a directory seed-N in it, and seeds.json compares them. The same
command resumes an interrupted run. Exit codes are those of albert_tf.pretrain.

--sweep tries values of a setting, each with one seed in MODEL_DIR/sweep, and takes the
best on the split that selects checkpoints; sweep.json has their scores.

A model of a hidden size below 768 gets hyperparameters that follow from its size and
that of the data, unless --set gives them (docs/finetuning.md).
"""

import os
from collections.abc import Sequence
from typing import Any

from absl import flags

from albert_tf.checkpoints import flags as checkpoint_flags
from albert_tf.core import cli, config_io
from albert_tf.core import config as config_lib
from albert_tf.data import schema
from albert_tf.finetuning import sweep
from albert_tf.training import flags as flags_lib


def define_flags(flag_values: flags.FlagValues = flags.FLAGS) -> None:
    """Defines the flags in `flag_values`, so that tests can give each its own."""
    flags_lib.define(flag_values)
    flags.adopt_module_key_flags(flags_lib, flag_values)
    flags.DEFINE_string(
        "init_checkpoint",
        None,
        "Run or checkpoint to start from: a pre-training's, or another task's.",
        flag_values,
    )
    checkpoint_flags.define_weights(flag_values)
    flags.adopt_module_key_flags(checkpoint_flags, flag_values)
    flags.DEFINE_string(
        "data_dir", None, "Directory of the task's files, as downloaded.", flag_values
    )
    flags.DEFINE_string(
        "cache_dir",
        None,
        "Directory that keeps features for later runs. Default: MODEL_DIR/features.",
        flag_values,
    )
    flags.DEFINE_integer(
        "seeds",
        1,
        "Number of runs, with seeds from train.seed on, and a summary of their scores.",
        lower_bound=1,
        flag_values=flag_values,
    )
    flags.DEFINE_string(
        "sweep",
        "",
        "A setting and values to choose from by a run with each, such as "
        "optimizer.learning_rate=1e-4,3e-4,1e-3.",
        flag_values,
    )
    flags.mark_flags_as_required(["init_checkpoint", "data_dir"], flag_values)


def main(argv: Sequence[str], flag_values: flags.FlagValues = flags.FLAGS) -> None:
    """Fine-tunes with the flags' values."""
    with cli.user_errors():
        cli.refuse_arguments(argv)
        config = config_io.load(flag_values.config, flag_values.set)
        if config.warmup_follows_steps:
            for folder in ("", f"seed-{config.train.seed}"):
                recorded = os.path.join(flag_values.model_dir, folder)
                recorded = os.path.join(recorded, schema.CONFIG_FILE)
                config = config_io.keep_warmup(config, recorded)
        cli.require_directories(flag_values, "data_dir")
        cli.require_checkpoint(flag_values, "init_checkpoint")
        if not config.task.name:
            raise ValueError(
                "--config must be a recipe of a task, such as "
                f"configs/finetune_mrpc.py; received {flag_values.config!r}, whose "
                "task.name is empty"
            )
        tried = flag_values.sweep and sweep.parse(flag_values.sweep, config)
        profile_steps = flags_lib.profile_steps(flag_values)
        flags_lib.refuse_second_run(flag_values)

        # Imported here: TensorFlow takes seconds, and flags and files were checked.
        from albert_tf.finetuning import finetuning, results_reader, results_writer

        flags_lib.split_cpu(flag_values)
        model_dir = flag_values.model_dir
        cache_dir = flag_values.cache_dir or finetuning.default_cache_dir(model_dir)
        options = finetuning.FineTuningOptions(
            flag_values.strategy,
            flag_values.tpu,
            flag_values.weights,
            flag_values.use_previous_checkpoint,
            profile_steps,
            tuple(text.partition("=")[0] for text in flag_values.set),
        )

        def fine_tune(
            config: config_lib.Config, folder: str, num_seeds: int = 1
        ) -> dict[str, Any]:
            return finetuning.fine_tune(
                config,
                flag_values.init_checkpoint,
                flag_values.data_dir,
                folder,
                cache_dir,
                num_seeds,
                options,
            )

        with flags_lib.exiting_early():
            if tried:
                config = sweep.choose(
                    *(tried, config, model_dir),
                    *(fine_tune, results_reader.format_metric),
                )
            results = fine_tune(config, model_dir, flag_values.seeds)
    lines = results_writer.summary_lines(results)
    command = cli.next_export(model_dir)
    closing = (
        f"results are in {model_dir}. {results_writer.best_line(results)}{command}"
    )
    print("\n".join([*lines, closing]))


if __name__ == "__main__":
    cli.run(main, define_flags)
