"""State that the steps of a loop leave on the devices: for the next step, and the host.

A step needs nothing that the host has made of the step before, and the host need not
wait for a step to start the next one.
"""

from collections.abc import Sequence

import tensorflow as tf

from albert_tf.training import loss_scale as loss_scale_lib
from albert_tf.training import objectives

# The host reads the log when it is full, or the steps are done.
NUM_ROWS = 128
# The running mean of the loss is one of about 100 steps.
_MEAN_LOSS_RATE = 0.01
# What a step needs of the step before, and what is logged of a step besides its sums.
_CARRIED = ("mean_loss", "num_skipped")
_LOGGED = ("loss", "gradient_norm", "is_bad", "is_overflow")

Scalars = objectives.Scalars


class StepLog:
    """The state on the devices: one copy on each replica, all of them equal.

    carried: float32 [carried], what the next step needs, by name: `mean_loss`, the
      running mean of the loss, which is -inf once a step has failed; `num_skipped`, the
      number of bad steps; and `loss_scale.CARRIED` with a loss scale.
    rows: float32 [NUM_ROWS, columns], a row for each step: the sums of the objective,
      `_LOGGED`, and `carried` after it, with the mean as it was before it failed.
    """

    def __init__(
        self,
        strategy,
        sum_names: Sequence[str],
        max_skipped: int,
        scale: loss_scale_lib.LossScale | None = None,
    ):
        """Makes the variables.

        Args:
          strategy: the devices.
          sum_names: of the objective.
          max_skipped: the number of bad steps to skip in all; the next one fails.
          scale: the loss scale of float16.

        Raises:
          ValueError: a sum has the name of something else that is logged.
        """
        taken = {*_LOGGED, *_CARRIED, *loss_scale_lib.CARRIED, "stop"}
        if found := sorted(taken.intersection(sum_names)):
            raise ValueError(
                "sum_names of the objective must not have names of what a step itself "
                f"computes ({', '.join(sorted(taken))}); received {', '.join(found)}"
            )
        self._sum_names = tuple(sum_names)
        self._carried = _CARRIED + (loss_scale_lib.CARRIED if scale else ())
        self._names = (*self._sum_names, *_LOGGED, *self._carried)
        self._max_skipped = max_skipped
        self._scale = scale
        with strategy.scope():
            self.carried = _variable([len(self._carried)], "carried")
            self.rows = _variable([NUM_ROWS, len(self._names)], "step_log")

    def first(self, state) -> tf.Tensor:
        """Returns `carried` for the first step, of a run's `loops.TrainState`."""
        values = {
            "mean_loss": state.mean_loss.read_value(),
            "num_skipped": tf.cast(state.num_skipped.read_value(), tf.float32),
            **(self._scale.read() if self._scale else {}),
        }
        return self._stack(values)

    def take(self, step_fn, row, first, features, stop) -> tf.Tensor:
        """Takes a step on this replica, and logs it.

        Args:
          step_fn: the result of `train_step.make_train_step`.
          row: int32 scalar, the row of the step.
          first: what `first` returned before row 0.
          features: those of this replica.
          stop: float32 scalar, above 0 if this host was asked to end.

        Returns:
          `stop` summed over the hosts.
        """
        numbers = tf.where(row == 0, first, self.carried.read_value())
        before = dict(zip(self._carried, tf.unstack(numbers), strict=True))
        mean, num_skipped = before["mean_loss"], before["num_skipped"]
        if self._scale:
            not_taken = tf.cast(num_skipped + before["num_overflows"], tf.int32)
            values = step_fn(features, stop, mean, not_taken, before["loss_scale"])
        else:
            values = step_fn(features, stop, mean, tf.cast(num_skipped, tf.int32))
        values = {"is_overflow": tf.constant(0.0), **values}
        is_bad, is_overflow = values["is_bad"] > 0, values["is_overflow"] > 0
        moved = mean + _MEAN_LOSS_RATE * (values["loss"] - mean)
        new_mean = tf.where(tf.math.is_inf(mean), values["loss"], moved)
        after = {
            "mean_loss": tf.where(is_bad | is_overflow, mean, new_mean),
            "num_skipped": num_skipped + values["is_bad"],
        }
        if self._scale:
            after |= self._scale.after(before, is_bad, is_overflow)
        self._log(row, {**values, **after})
        # No loss is low enough for the steps after one that failed.
        has_failed = is_bad & (after["num_skipped"] > self._max_skipped)
        after["mean_loss"] = tf.where(has_failed, float("-inf"), after["mean_loss"])
        self.carried.assign(self._stack(after))
        return values["stop"]

    def _stack(self, values: Scalars) -> tf.Tensor:
        return tf.stack([values[name] for name in self._carried])

    def _log(self, row, values: Scalars) -> None:
        is_row = tf.range(NUM_ROWS)[:, tf.newaxis] == row
        new = tf.stack([values[name] for name in self._names])
        self.rows.assign(tf.where(is_row, new, self.rows.read_value()))

    def read(self, state, num_steps, before: Scalars) -> Scalars:
        """Brings the state of a run to the last step that counts.

        Args:
          state: as `first` takes it.
          num_steps: int32 scalar, the number of steps from row 0 on, at least 1.
          before: the last result; its numbers of a bad step stay until the next one.

        Returns:
          `num_steps` (int32) up to the one that failed, `failed` (bool), and
          `bad_loss` and `bad_norm` (float32) of the last bad step.
        """
        with tf.device("/cpu:0"):
            rows = tf.identity(self.rows.read_value())[:num_steps]
            return self._account(state, rows, before)

    def _account(self, state, rows, before: Scalars) -> Scalars:
        columns = dict(zip(self._names, tf.unstack(rows, axis=1), strict=True))
        failed = (columns["is_bad"] > 0) & (columns["num_skipped"] > self._max_skipped)
        has_failed = tf.reduce_any(failed)
        num_steps = tf.where(
            has_failed, tf.argmax(failed, output_type=tf.int32) + 1, tf.size(failed)
        )
        columns = {name: column[:num_steps] for name, column in columns.items()}
        is_bad, is_overflow = columns["is_bad"] > 0, columns["is_overflow"] > 0
        is_taken = ~(is_bad | is_overflow)
        sums = tf.stack([columns[name] for name in self._sum_names], axis=1)
        # Of many steps: float32 would round. One by one: so might another order.
        sums = tf.cast(tf.boolean_mask(sums, is_taken), tf.float64)
        total = tf.concat([state.sums.read_value()[tf.newaxis], sums], axis=0)
        state.sums.assign(tf.cumsum(total)[-1])
        norms = columns["gradient_norm"]
        state.gradient_norm.assign(
            _last(norms, is_taken, state.gradient_norm.read_value())
        )
        state.mean_loss.assign(columns["mean_loss"][-1])
        state.num_skipped.assign(tf.cast(columns["num_skipped"][-1], tf.int32))
        if self._scale:
            names = loss_scale_lib.CARRIED
            self._scale.assign({name: columns[name][-1] for name in names})
        return {
            "num_steps": num_steps,
            "failed": has_failed,
            "bad_loss": _last(columns["loss"], is_bad, before["bad_loss"]),
            "bad_norm": _last(norms, is_bad, before["bad_norm"]),
        }


def _variable(shape: Sequence[int], name: str) -> tf.Variable:
    """Returns a variable that each replica sets for itself."""
    return tf.Variable(
        tf.zeros(shape),
        trainable=False,
        name=name,
        aggregation=tf.VariableAggregation.NONE,
    )


def _last(values, chosen, default) -> tf.Tensor:
    """Returns the last of the chosen values, or a default."""
    return tf.concat([[default], tf.boolean_mask(values, chosen)], axis=0)[-1]
