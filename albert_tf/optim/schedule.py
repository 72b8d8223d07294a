"""The learning rate: linear warmup, then decay."""

import math
from collections.abc import Sequence

import tensorflow as tf
import tf_keras

from albert_tf.core import config as config_lib
from albert_tf.core import stages as stages_lib


class WarmupDecay(tf_keras.optimizers.schedules.LearningRateSchedule):
    """Learning rate of the update after `step` updates.

    Before `warmup_steps` it is `learning_rate * step / warmup_steps`, then
    `learning_rate` times a factor of `progress`, by `decay`:

    - "polynomial": `(1 - progress) ** decay_power`;
    - "cosine": half a cosine from 1 to 0;
    - "constant": 1;
    - "wsd": as "polynomial", but `progress` is 0 until `decay_steps` before
      `num_steps`. Warmup, stable, decay is of Hu et al., 2024 (MiniCPM, arXiv
      2404.06395, section 4), whose decay is exponential and does not reach 0; the
      linear decay to 0, which is the default, is of Hägele et al., 2024 (arXiv
      2405.18392, section 3);
    - "sqrt": `1 - sqrt(progress)`, which falls fast at first;
    - "wsd_sqrt": in those steps `1 - sqrt(progress)` (Hägele et al., 2024).

    Without a stable part `progress` is `step / num_steps` for decay_from="start", as in
    the original, where the rate drops at the end of warmup; for "warmup_end" it counts
    from there, and the rate is continuous.
    """

    def __init__(self, optimizer: config_lib.OptimizerConfig, num_steps: int):
        """Takes the settings from `optimizer`; the decay ends at `num_steps`."""
        self._optimizer = optimizer
        self._num_steps = num_steps

    def __call__(self, step):
        """Returns a float32 scalar for `step`, an integer scalar counted from 0."""
        settings = self._optimizer
        step = tf.cast(step, tf.float32)
        # Differs from the original: with decay_from="warmup_end" the rate does not
        # jump where warmup ends.
        first = settings.warmup_steps if settings.decay_from == "warmup_end" else 0
        if settings.decay in config_lib.WSD_DECAYS:
            first = self._num_steps - settings.decay_steps
        span = max(self._num_steps - first, 1)
        progress = tf.clip_by_value((step - first) / span, 0.0, 1.0)
        decayed = settings.learning_rate * self._factor(progress)
        warmup = settings.learning_rate * step / max(settings.warmup_steps, 1)
        return tf.where(step < settings.warmup_steps, warmup, decayed)

    def _factor(self, progress):
        match self._optimizer.decay:
            case "constant":
                return tf.ones_like(progress)
            case "cosine":
                return 0.5 * (1.0 + tf.cos(math.pi * progress))
            case "sqrt" | "wsd_sqrt":
                return 1.0 - tf.sqrt(progress)
            case _:
                return (1.0 - progress) ** self._optimizer.decay_power


class StagedRate(tf_keras.optimizers.schedules.LearningRateSchedule):
    """A schedule times the factor of each stage (`train.stages`)."""

    def __init__(
        self,
        schedule: tf_keras.optimizers.schedules.LearningRateSchedule,
        stages: Sequence[stages_lib.Stage],
    ):
        """Takes a schedule and the stages of the run."""
        self._schedule = schedule
        self._last_steps = [stage.last_step for stage in stages[:-1]]
        self._factors = [stage.learning_rate_factor for stage in stages]

    def __call__(self, step):
        """Returns a float32 scalar for `step`, an integer scalar counted from 0."""
        has_ended = tf.cast(step, tf.int64) >= tf.constant(self._last_steps, tf.int64)
        number = tf.math.count_nonzero(has_ended)
        return self._schedule(step) * tf.gather(self._factors, number)


def create(
    optimizer: config_lib.OptimizerConfig,
    num_steps: int,
    stages: Sequence[stages_lib.Stage] = (),
) -> tf_keras.optimizers.schedules.LearningRateSchedule:
    """Returns the schedule of a run of `num_steps` steps, maybe in stages."""
    schedule = WarmupDecay(optimizer, num_steps)
    if all(stage.learning_rate_factor == 1.0 for stage in stages):
        return schedule
    return StagedRate(schedule, stages)
