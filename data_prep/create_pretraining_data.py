r"""Raw text to pre-training records: TFRecord shards, the vocabulary and a manifest.

  python -m data_prep.create_pretraining_data \
    --input='corpus/*.txt.gz' --vocab_model=vocab/vocab.model --output_dir=records \
    --config=configs/albert_base.py --set data.dupe_factor=2

The bytes of the records and of the manifest follow from the text, the configuration
and the vocabulary alone, not from the number of worker processes. A run that was
interrupted or killed resumes when the same command is given again.
"""

import importlib.util
import itertools
import math
import os
from collections.abc import Sequence

from absl import flags

from albert_tf.core import cli, config_io, files, machine
from albert_tf.core import config as config_lib
from data_prep.pipeline import flags as flags_lib

# Sequences of a step, and steps, on a laptop.
_SMALL_BATCH, _SMALL_STEPS = 32, 2000


def define_flags(flag_values: flags.FlagValues = flags.FLAGS) -> None:
    """Defines the flags in `flag_values`, so that tests can give each its own."""
    flags_lib.define_shared_flags(flag_values)
    flags.adopt_module_key_flags(flags_lib, flag_values)
    flags.DEFINE_integer(
        "num_workers",
        machine.num_cores(),
        "Worker processes; 1 runs all in the main process.",
        lower_bound=1,
        flag_values=flag_values,
    )
    flags.DEFINE_string(
        "work_dir",
        "",
        "A local directory for unfinished work, which takes twice the size of the "
        "records or more; by default within --output_dir.",
        flag_values,
    )
    flags.DEFINE_string(
        "dask_scheduler",
        "",
        "HOST:PORT of a Dask cluster that does the work instead of --num_workers "
        "processes. Its workers must see --work_dir under the same path.",
        flag_values,
    )


def _check_dask(flag_values: flags.FlagValues) -> None:
    if not flag_values.dask_scheduler:
        return
    if flag_values["num_workers"].present:
        raise ValueError(
            "--num_workers must not be given with --dask_scheduler: the cluster's "
            "workers do the work"
        )
    if importlib.util.find_spec("distributed") is None:
        raise ValueError(
            "--dask_scheduler needs Dask, which is not installed: pip install -r "
            "requirements-dask.txt"
        )


def main(argv: Sequence[str], flag_values: flags.FlagValues = flags.FLAGS) -> None:
    """Checks the flags, makes the records and prints a summary."""
    with cli.user_errors():
        cli.refuse_arguments(argv)
        config = config_io.load(flag_values.config, flag_values.set)
        flags_lib.check_input_files(flag_values)
        _check_dask(flag_values)
        # Imported here: Numba takes seconds, and flags and files were checked first.
        from data_prep.pipeline import common, local_run

        manifest = local_run.create_pretraining_data(
            flag_values.input,
            flag_values.vocab_model,
            flag_values.output_dir,
            config,
            flag_values.num_workers,
            flag_values.overwrite,
            flag_values.work_dir,
            flag_values.evaluation_input,
            flag_values.dask_scheduler,
        )
    print(common.describe(manifest, flag_values.output_dir))
    if config.train.stages:
        return  # these records are those of one of them
    _print_next(flag_values, config)


def _print_next(flag_values: flags.FlagValues, config: config_lib.Config) -> None:
    """Prints the line of pre-training, from its weights if the recipe is a run's."""
    run, name = os.path.split(flag_values.config)
    continues = name == "config.json" and files.exists(os.path.join(run, "checkpoint"))
    weights = [f"--init_checkpoint={run or '.'}"] if continues else []
    # A published model's recipe has the batch and the steps of a pod.
    is_large = continues and config.train.batch_size > _SMALL_BATCH
    settings = _small_run(config) if is_large else []
    cli.print_next(
        "albert_tf.pretrain",
        f"--config={flag_values.config or 'RECIPE'}",
        *(f"--set={setting}" for setting in [*flag_values.set, *settings]),
        f"--data_dir={flag_values.output_dir}",
        *weights,
        f"--model_dir={_new_name('continued' if continues else 'run')}",
    )


def _small_run(config: config_lib.Config) -> list[str]:
    """Returns settings of a run of hours, at the recipe's rate for its batch."""
    run, optimizer = config.train, config.optimizer
    rate = optimizer.learning_rate * math.sqrt(_SMALL_BATCH / run.batch_size)
    settings = [
        f"train.batch_size={_SMALL_BATCH}",
        f"train.num_steps={_SMALL_STEPS}",
        "train.eval_every_steps=200",
        "train.save_every_steps=200",
        f"optimizer.learning_rate={rate:.2g}",
        "optimizer.warmup_steps=100",
    ]
    if run.accumulation_steps > 1:
        settings.append("train.accumulation_steps=1")
    if optimizer.decay_steps:
        settings.append(f"optimizer.decay_steps={_SMALL_STEPS // 10}")
    return settings


def _new_name(name: str) -> str:
    """Returns a name that the working directory has not yet: NAME, NAME-2, …."""
    names = itertools.chain([name], (f"{name}-{n}" for n in itertools.count(2)))
    return next(one for one in names if not files.exists(one))


if __name__ == "__main__":
    cli.run(main, define_flags)
