"""Fine-tunes a pre-trained ALBERT on a task, and predicts with the best checkpoint.

python -m albert_tf.finetune --config=configs/finetune_mrpc.py \
    --init_checkpoint=RUN --data_dir=glue_data/MRPC --model_dir=mrpc [--seeds=5]

writes results.json, answers-SPLIT.jsonl and predictions/ into --model_dir; with
several seeds each into a folder seed-N within, and seeds.json beside them. The same
command goes on where it was interrupted. Exit codes are those of albert_tf.pretrain.
"""

import dataclasses
import os
from collections.abc import Sequence
from typing import Any

from absl import flags

from albert_tf import (
    binary,
    distribution,
    fine_tuning,
    task_folder,
    task_results,
    task_start,
    train_loop,
    training_flags,
)
from albert_tf import config as config_lib
from albert_tf.tasks import catalog, data


def define_flags(flag_values: flags.FlagValues = flags.FLAGS) -> None:
    """Defines the flags: here, so that another binary's can live in one process."""
    training_flags.define(flag_values)
    flags.adopt_module_key_flags(training_flags, flag_values)
    flags.DEFINE_string(
        "init_checkpoint",
        None,
        "Run or checkpoint to begin with: a pre-training's, or another task's.",
        flag_values,
    )
    flags.DEFINE_string(
        "data_dir", None, "Folder of the task's files, as downloaded.", flag_values
    )
    flags.DEFINE_string(
        "cache_dir",
        None,
        "Folder that keeps features for later runs. Default: MODEL_DIR/features.",
        flag_values,
    )
    flags.DEFINE_integer(
        "seeds",
        1,
        "Runs so many, from train.seed on, and gives median, spread and the best.",
        lower_bound=1,
        flag_values=flag_values,
    )
    flags.mark_flags_as_required(["init_checkpoint", "data_dir"], flag_values)


def fine_tune(
    config: config_lib.Config,
    init_checkpoint: str,
    data_dir: str,
    model_dir: str,
    cache_dir: str,
    num_seeds: int = 1,
    strategy_kind: str = "auto",
    tpu: str = "",
    use_previous_checkpoint: bool = False,
    profile_steps: tuple[int, int] | None = None,
) -> dict[str, Any]:
    """Fine-tunes with one seed or several.

    Args:
      config: the recipe; its `task.name` is set.
      init_checkpoint: see `task_start.read_origin`.
      data_dir: the task's files.
      model_dir: what is written.
      cache_dir: keeps features.
      num_seeds: how many runs, whose seeds count on from `train.seed`.
      strategy_kind: see `distribution.create_strategy`.
      tpu: see there.
      use_previous_checkpoint: whether a damaged checkpoint may be passed over.
      profile_steps: first and last step to profile, if any.

    Returns:
      The results of the run, or the summary of the seeds.

    Raises:
      ValueError: recipe, checkpoint, data or folder do not fit.
      FloatingPointError: the loss is not finite, or exploded.
      preemption.Stopped: the process was asked to end, and has saved.
      distribution.WorkerLostError: another worker of the run is gone.
    """
    strategy = distribution.create_strategy(strategy_kind, tpu)
    distribution.check_python_batches(strategy)
    with distribution.noticing_lost_workers(strategy):
        origin = task_start.read_origin(init_checkpoint)
        config = task_start.merge(config, origin)
        tokenizer = task_start.make_tokenizer(origin)
        task = catalog.create(config.task)
        task.learn_labels(data_dir)
        config = _with_best_metric(config, task.metrics)
        seeds = range(config.train.seed, config.train.seed + num_seeds)
        folders = [
            os.path.join(model_dir, f"seed-{seed}") if num_seeds > 1 else model_dir
            for seed in seeds
        ]
        configs = [_with_seed(config, seed) for seed in seeds]
        for folder, own_config in zip(folders, configs, strict=True):
            task_folder.check(own_config, origin.vocab, origin.path, folder)
        task_data = data.Loader(task, tokenizer, data_dir, cache_dir).load()
        runs, signals = [], train_loop.Signals()
        for folder, own_config in zip(folders, configs, strict=True):
            tuning = fine_tuning.FineTuning(
                strategy,
                own_config,
                origin,
                # Its own: a task keeps what it was calibrated to.
                catalog.create(config.task, task.labels),
                task_data,
                tokenizer.pad_id,
                signals,
                use_previous_checkpoint,
                profile_steps,
            )
            runs.append((os.path.basename(folder), tuning.run(folder)))
        if num_seeds == 1:
            return runs[0][1]
        return task_results.summarize_seeds(
            model_dir, runs, distribution.is_chief(strategy)
        )


def _with_seed(config: config_lib.Config, seed: int) -> config_lib.Config:
    return dataclasses.replace(
        config, train=dataclasses.replace(config.train, seed=seed)
    )


def _with_best_metric(
    config: config_lib.Config, metrics: Sequence[str]
) -> config_lib.Config:
    """The recipe with the name of the score that chooses the checkpoint."""
    name = config.train.best_metric or metrics[0]
    if name not in metrics:
        raise ValueError(
            f"train.best_metric must be one of {', '.join(metrics)} for the task "
            f"{config.task.name}, or empty for the first; received {name!r}"
        )
    return dataclasses.replace(
        config, train=dataclasses.replace(config.train, best_metric=name)
    )


def _lines(results: dict[str, Any]) -> list[str]:
    """Scores for people."""
    chosen_on = results["chosen_on"]
    if "seeds" not in results:
        return task_results.lines(results["scores"], chosen_on)
    shown = task_results.shown
    lines = [
        f"{split} {name}: median {shown(name, median)}, standard deviation "
        f"{shown(name, results['standard_deviation'][split][name])}, "
        f"{shown(name, results['min'][split][name])} to "
        f"{shown(name, results['max'][split][name])} over "
        f"{len(results['seeds'])} seeds"
        for split, scores in results["median"].items()
        for name, median in scores.items()
    ]
    lines.append(f"best seed by {results['best_metric']}: {results['best']}")
    if chosen_on in results["median"]:
        lines.append(task_results.CHOSEN.format(chosen_on))
    return lines


def main(argv: Sequence[str], flag_values: flags.FlagValues = flags.FLAGS) -> None:
    """Runs `fine_tune` with the flags' values."""
    with binary.user_errors():
        binary.refuse_arguments(argv)
        config = config_lib.load(flag_values.config, flag_values.set)
        if not config.task.name:
            raise ValueError(
                "--config must be a recipe of a task, such as "
                f"configs/finetune_mrpc.py; received {flag_values.config!r}, whose "
                "task.name is empty"
            )
        training_flags.split_cpu(flag_values)
        cache_dir = flag_values.cache_dir
        if cache_dir is None:
            cache_dir = os.path.join(flag_values.model_dir, "features")
        with training_flags.exiting_early():
            results = fine_tune(
                config,
                flag_values.init_checkpoint,
                flag_values.data_dir,
                flag_values.model_dir,
                cache_dir,
                flag_values.seeds,
                flag_values.strategy,
                flag_values.tpu,
                flag_values.use_previous_checkpoint,
                training_flags.profile_steps(flag_values),
            )
    print("\n".join([*_lines(results), f"results are in {flag_values.model_dir}"]))


if __name__ == "__main__":
    binary.run(main, define_flags)
