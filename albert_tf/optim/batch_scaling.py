"""Adapts a recipe to another batch size."""

import dataclasses
import math

from albert_tf.core import config as config_lib


def scale(config: config_lib.Config, batch_size: int) -> tuple[config_lib.Config, str]:
    """Returns the recipe for another batch size, and a line about the changes.

    The learning rate is proportional to the square root of the batch size and the
    number of warmup steps stays, as LAMB's authors do (You et al., 2019: square-root
    scaling with linear-epoch warmup); the number of steps is inversely proportional, so
    that the run sees as many sequences as before. So are `optimizer.decay_steps`.
    Batches and steps of stages change by the same factors.

    Raises:
      ValueError: the batch size is below 1, or the scaled settings contradict others.
    """
    if batch_size < 1:
        raise ValueError(
            f"--scale_to_batch_size must be at least 1; received {batch_size}"
        )
    run, optimizer = config.train, config.optimizer
    ratio = batch_size / run.batch_size
    stages = tuple(
        _scale_stage(stage, batch_size, run.batch_size) for stage in run.stages
    )
    num_steps = max(1, round(run.num_steps / ratio))
    scaled_run = dataclasses.replace(
        run,
        batch_size=batch_size,
        num_steps=sum(s.num_steps for s in stages) if stages else num_steps,
        stages=stages,
    )
    # The decay stays the same share of the run.
    decay_steps = min(math.ceil(optimizer.decay_steps / ratio), scaled_run.num_steps)
    scaled_optimizer = dataclasses.replace(
        optimizer,
        learning_rate=optimizer.learning_rate * math.sqrt(ratio),
        warmup_steps=min(optimizer.warmup_steps, scaled_run.num_steps - decay_steps),
        decay_steps=decay_steps,
    )
    scaled = dataclasses.replace(config, train=scaled_run, optimizer=scaled_optimizer)
    line = (
        f"scaled to a batch of {batch_size:,} (from {run.batch_size:,}): learning rate "
        f"{scaled_optimizer.learning_rate:.6g} (from {optimizer.learning_rate:g}, by "
        f"the square root of {ratio:g}), {scaled_run.num_steps:,} steps (from "
        f"{run.num_steps:,}), {scaled_optimizer.warmup_steps:,} of warmup (from "
        f"{optimizer.warmup_steps:,})"
    )
    if decay_steps:
        line += f", {decay_steps:,} of decay (from {optimizer.decay_steps:,})"
    return scaled, line


def _scale_stage(
    stage: config_lib.StageConfig, new: int, old: int
) -> config_lib.StageConfig:
    """Scales a stage as a recipe whose batch size changes from `old` to `new`."""
    batch_size = stage.batch_size
    if batch_size is not None:
        batch_size, rest = divmod(batch_size * new, old)
        if rest:
            raise ValueError(
                "--scale_to_batch_size must make the batch of each stage a whole "
                f"number; received {new}, and a stage has {stage.batch_size} where "
                f"train.batch_size is {old}"
            )
    num_steps = max(1, round(stage.num_steps * old / new))
    return dataclasses.replace(stage, batch_size=batch_size, num_steps=num_steps)
