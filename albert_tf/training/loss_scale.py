"""Dynamic loss scale of float16, whose smallest numbers gradients fall below.

The loss is multiplied by the scale before the backward pass, and the gradients are
divided by it after their sum over replicas. A step whose gradients are too large for
float16 is skipped and halves the scale; a number of good steps in a row doubles it.
"""

from collections.abc import Mapping

import tensorflow as tf

DTYPE = "float16"
# Powers of two: to multiply and divide by them rounds nothing.
INITIAL, LEAST, MOST = 2.0**15, 1.0, 2.0**24
# What a step needs of the step before.
CARRIED = ("loss_scale", "num_good", "num_overflows")

Scalars = Mapping[str, tf.Tensor]


class LossScale(tf.Module):
    """The state of the scale between loops; a part of a checkpoint.

    loss_scale: float32 scalar.
    num_good: int32 scalar, the number of good steps since the scale was last changed.
    num_overflows: int32 scalar, the number of steps skipped for an overflow.
    """

    def __init__(self, growth_steps: int):
        """Starts with the initial scale.

        Args:
          growth_steps: the number of good steps in a row that doubles the scale.
        """
        super().__init__(name="loss_scale")
        self.growth_steps = growth_steps
        with tf.device("/cpu:0"):
            self.loss_scale = tf.Variable(INITIAL, trainable=False, name="loss_scale")
            self.num_good = tf.Variable(0, trainable=False, name="num_good")
            self.num_overflows = tf.Variable(0, trainable=False, name="num_overflows")

    def read(self) -> dict[str, tf.Tensor]:
        """Returns the state by the names `CARRIED`, float32 scalars."""
        return {
            name: tf.cast(getattr(self, name).read_value(), tf.float32)
            for name in CARRIED
        }

    def assign(self, state: Scalars) -> None:
        """Sets the state to float32 scalars by the names `CARRIED`."""
        for name in CARRIED:
            variable = getattr(self, name)
            variable.assign(tf.cast(state[name], variable.dtype))

    def metrics(self) -> dict[str, float]:
        """Returns what a row of metrics says about the scale."""
        return {
            "overflow_steps": int(self.num_overflows),
            "loss_scale": float(self.loss_scale),
        }

    def describe(self, num_before: int, first: int, last: int) -> str:
        """Returns a line about overflows.

        Args:
          num_before: the number of overflows before some steps.
          first: the first of these steps.
          last: the last of them.
        """
        total = int(self.num_overflows)
        return (
            f"{total - num_before} of the steps {first} to {last} skipped for an "
            f"overflow of float16; {total} in all, and the loss scale is "
            f"{float(self.loss_scale):g}"
        )

    def after(self, state: Scalars, is_bad, is_overflow) -> dict[str, tf.Tensor]:
        """Returns the state after a step, as `read` does.

        Args:
          state: before the step.
          is_bad: bool scalar, whether the step was skipped for another reason.
          is_overflow: bool scalar.
        """
        scale = state["loss_scale"]
        num_good = state["num_good"] + tf.where(is_bad, 0.0, 1.0)
        is_due = num_good >= float(self.growth_steps)
        grown = tf.where(is_due, tf.minimum(2.0 * scale, MOST), scale)
        return {
            "loss_scale": tf.where(is_overflow, tf.maximum(scale / 2.0, LEAST), grown),
            "num_good": tf.where(is_overflow | is_due, 0.0, num_good),
            "num_overflows": state["num_overflows"] + tf.cast(is_overflow, tf.float32),
        }


def is_overflow(scale, is_good_loss, gradient_norm) -> tf.Tensor:
    """Returns whether a smaller scale may make a step's gradients finite; bool scalar.

    Args:
      scale: float32 scalar, that of the step.
      is_good_loss: bool scalar, whether the loss is finite and low enough.
      gradient_norm: float32 scalar.
    """
    return is_good_loss & ~tf.math.is_finite(gradient_norm) & (scale > LEAST)
