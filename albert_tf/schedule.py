"""The learning rate: linear warmup, then polynomial decay to zero."""

import tensorflow as tf
import tf_keras


class WarmupPolynomialDecay(tf_keras.optimizers.schedules.LearningRateSchedule):
    """Learning rate of the update that follows `step` updates.

    Below `warmup_steps` it is `learning_rate * step / warmup_steps`; from there
    `learning_rate * (1 - progress) ** power`. `progress` is `step / num_steps` for
    decay_from="start", as in the original, where the rate jumps down as warmup ends;
    for "warmup_end" it counts from there, and the rate is continuous.
    """

    def __init__(
        self,
        learning_rate: float,
        num_steps: int,
        warmup_steps: int,
        power: float,
        decay_from: str,
    ):
        self.learning_rate = learning_rate
        self.num_steps = num_steps
        self.warmup_steps = warmup_steps
        self.power = power
        self.decay_from = decay_from

    def __call__(self, step):
        """float32 scalar for `step`, an integer scalar counted from 0."""
        step = tf.cast(step, tf.float32)
        # Differs from the original: with decay_from="warmup_end" the rate does not
        # jump where warmup ends.
        first = self.warmup_steps if self.decay_from == "warmup_end" else 0
        span = max(self.num_steps - first, 1)
        progress = tf.clip_by_value((step - first) / span, 0.0, 1.0)
        decayed = self.learning_rate * (1.0 - progress) ** self.power
        warmup = self.learning_rate * step / max(self.warmup_steps, 1)
        return tf.where(step < self.warmup_steps, warmup, decayed)

    def get_config(self):
        """The constructor's arguments."""
        return {
            "learning_rate": self.learning_rate,
            "num_steps": self.num_steps,
            "warmup_steps": self.warmup_steps,
            "power": self.power,
            "decay_from": self.decay_from,
        }
