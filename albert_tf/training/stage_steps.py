"""The steps of one stage of a run: its loop, its batches, and steps that fail."""

import math
import time
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from albert_tf.checkpoints import run_dir
from albert_tf.core import stages as stages_lib
from albert_tf.data import input_pipeline
from albert_tf.devices import strategies
from albert_tf.training import causes, throughput

Outcome = dict[str, Any]


class StageSteps:
    """Takes steps, all of one stage: their batches have the same shapes.

    Attributes:
      stage: the stage.
    """

    def __init__(
        self,
        stage: stages_lib.Stage,
        step: int,
        strategy: tf.distribute.Strategy,
        loop: Callable[..., Any],
        input_fn_at: Callable[[int], input_pipeline.InputFn],
        meter: throughput.Meter,
    ):
        """Makes the batches.

        Args:
          stage: the stage.
          step: steps of the run before the first batch.
          strategy: the devices.
          loop: as `loops.make_train_loop` makes it.
          input_fn_at: as `trainer.Trainer.train` takes it.
          meter: counts steps and their time.
        """
        self.stage = stage
        self._strategy, self._loop = strategy, loop
        self._input_fn_at, self._meter = input_fn_at, meter
        self._batches = self._batches_at(step)

    def take(self, num_steps: int) -> Outcome:
        """Takes steps; returns the outcome of the loop as Python numbers."""
        started = time.monotonic()
        outcome = self._loop(self._batches, tf.constant(num_steps))
        values = {name: value.numpy().item() for name, value in outcome.items()}
        seconds = time.monotonic() - started
        self._meter.add(values["num_steps"], seconds, values["input_seconds"])
        return values

    def skip_to(self, step: int) -> Outcome:
        """Reads on after `step` steps, the last of which was not taken."""
        started = time.monotonic()
        self._batches = self._batches_at(step)
        self._meter.add(1, time.monotonic() - started, 0.0)
        return {"failed": False, "stopped": False, "num_steps": 1}

    def keep_batch(self, step: int, model_dir: str) -> str:
        """Writes the batch of a step into the run's directory; returns its path."""
        batch = next(self._batches_at(step - 1))
        return run_dir.keep_batch(self._strategy, batch, model_dir, step)

    def _batches_at(self, step: int):
        """Returns an iterator whose first batch is the one after `step` steps."""
        input_fn = self._input_fn_at(step)
        return iter(strategies.distribute_dataset(self._strategy, input_fn))


def complaint(outcome: Outcome) -> str:
    """Returns what was wrong with the last bad step."""
    loss, norm = outcome["bad_loss"], outcome["bad_norm"]
    if math.isfinite(loss) and math.isfinite(norm):
        return f"the loss rose to {loss:.4g}, by more than train.max_loss_rise"
    return f"the loss is {loss:.4g} and the gradient norm {norm:.4g}"


def failure(
    stage: stages_lib.Stage,
    step: int,
    outcome: Outcome,
    num_skipped: int,
    batch_path: str,
    good: str | None,
) -> str:
    """Returns why a run ended at a step that failed.

    Args:
      stage: of the run.
      step: the step.
      outcome: of the loop.
      num_skipped: how many steps were skipped before.
      batch_path: the file of its batch.
      good: the last checkpoint.
    """
    skipped = f", after {num_skipped} skipped steps" if num_skipped else ""
    # What is usual in pre-training is not in fine-tuning.
    advice = (
        "A smaller optimizer.learning_rate or a longer warmup often helps"
        if stage.config.task.name
        else causes.describe(causes.of_explosion(stage, step))
    )
    return (
        f"step {step} failed{skipped}: {complaint(outcome)}. Its batch is kept in "
        f"{batch_path}; the last good checkpoint is {good}. {advice}; "
        "train.max_skipped_steps sets how many steps a run may skip"
    )
