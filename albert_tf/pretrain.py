r"""Pre-trains ALBERT on records made by data_prep.create_pretraining_data.

python -m albert_tf.pretrain --config=configs/albert_base.py \
    --data_dir=RECORDS --model_dir=RUN [--set train.batch_size=512 ...]

The same command resumes an interrupted run. SIGTERM saves and exits with code 75,
Ctrl-C saves and exits with 130. The code is also 75 if another worker is lost, if the
storage cannot be reached, and if the run hangs: the same command resumes. It is 78 if
the run did not learn and train.on_no_progress is "end".
--branch_from=OTHER/model.ckpt-5000 begins RUN as a continuation of another run.
"""

import os
import sys
from collections.abc import Sequence

from absl import flags

from albert_tf.checkpoints import checkpoint_files
from albert_tf.checkpoints import flags as checkpoint_flags
from albert_tf.core import cli, config_io, stages
from albert_tf.data import schema, sources
from albert_tf.optim import batch_scaling
from albert_tf.probing import suites
from albert_tf.training import flags as flags_lib


def define_flags(flag_values: flags.FlagValues = flags.FLAGS) -> None:
    """Defines the flags in `flag_values`, so that tests can give each its own."""
    flags_lib.define(flag_values)
    flags.adopt_module_key_flags(flags_lib, flag_values)
    flags.DEFINE_string(
        "data_dir",
        None,
        "Directory of records and their manifest.json, or of the directories that "
        "train.records and train.stages name.",
        flag_values,
    )
    flags.DEFINE_integer(
        "scale_to_batch_size",
        None,
        "Adapts the recipe to another batch size: learning rate by the square root, "
        "number of steps inversely.",
        flag_values=flag_values,
    )
    flags.DEFINE_string(
        "init_checkpoint",
        "",
        "Run or checkpoint whose weights a new run starts with.",
        flag_values,
    )
    checkpoint_flags.define_weights(flag_values)
    flags.adopt_module_key_flags(checkpoint_flags, flag_values)
    flags.DEFINE_string(
        "branch_from",
        "",
        "Run or checkpoint that a new run continues in --model_dir, with everything: "
        "weights, optimizer, step, state of the loop. The other run is only read.",
        flag_values,
    )
    flags.DEFINE_float(
        "peak_teraflops",
        0.0,
        "Peak of one device in bfloat16, for the utilization; known for many devices.",
        lower_bound=0.0,
        flag_values=flag_values,
    )
    flags.mark_flags_as_required(["data_dir"], flag_values)


def main(argv: Sequence[str], flag_values: flags.FlagValues = flags.FLAGS) -> None:
    """Pre-trains with the flags' values."""
    with cli.user_errors():
        cli.refuse_arguments(argv)
        config = config_io.load(flag_values.config, flag_values.set)
        config.check_pretraining()
        stages.check_given(config, (text.partition("=")[0] for text in flag_values.set))
        follows_steps = config.warmup_follows_steps
        if flag_values.scale_to_batch_size is not None:
            config, line = batch_scaling.scale(config, flag_values.scale_to_batch_size)
            print(line, file=sys.stderr)
        if follows_steps:
            recorded = os.path.join(flag_values.model_dir, schema.CONFIG_FILE)
            config = config_io.keep_warmup(config, recorded)
        if flag_values.init_checkpoint and flag_values.branch_from:
            raise ValueError(
                "--branch_from continues a run with its weights, and --init_checkpoint "
                "starts a new one with a run's weights; give one of them"
            )
        if config.train.probe_suite:
            suites.find(config.train.probe_suite)
        profile_steps = flags_lib.profile_steps(flag_values)
        flags_lib.refuse_second_run(flag_values)
        data_dir = flag_values.data_dir
        sources.read(data_dir, config)
        if flag_values.scale_to_batch_size is None:
            config_io.require_choice(flag_values.config, flag_values.set)
        # A run that resumes does not read it again.
        if not checkpoint_files.begun_steps(flag_values.model_dir):
            cli.require_checkpoint(flag_values, "init_checkpoint")
            cli.require_checkpoint(flag_values, "branch_from")

        # Imported here: TensorFlow takes seconds, and flags and files were checked.
        from albert_tf.checkpoints import checkpointer
        from albert_tf.training import guard, pretraining

        options = pretraining.PretrainingOptions(
            flag_values.strategy,
            flag_values.tpu,
            flag_values.init_checkpoint,
            flag_values.weights,
            flag_values.branch_from,
            flag_values.use_previous_checkpoint,
            profile_steps,
            flag_values.peak_teraflops,
        )
        flags_lib.split_cpu(flag_values)
        with flags_lib.exiting_early():
            held_out = pretraining.train(
                config, data_dir, flag_values.model_dir, options
            )
    for name, value in held_out.items():
        print(f"held-out {name} {value:.4f}")
    if note := guard.pair_note(held_out):
        print(note)
    if not held_out:
        print(
            "nothing was held out, so that it is not known how well the model predicts "
            "text that it has not seen; data.heldout_rate of the records decides"
        )
    model_dir = flag_values.model_dir
    best, name = checkpointer.read_best(model_dir), config.train.best_metric
    score = ""
    if best:
        score = f"Best {name} {best['metric']:.4f}, at step {best['step']:,}. "
    command = cli.next_export(model_dir)
    print(f"{model_dir} is complete. {score}{command}".rstrip())


if __name__ == "__main__":
    cli.run(main, define_flags)
