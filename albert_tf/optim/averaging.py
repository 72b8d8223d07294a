"""Exponential moving average of the weights during training."""

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

import tensorflow as tf
import tf_keras


class MovingAverage:
    """A running average of each trainable variable of a model.

    After a step that was taken, the `t`-th from 0 on, each average moves by
    `1 - min(decay, (1 + t) / (10 + t))` of the way to the weights. This is
    `tf.train.ExponentialMovingAverage` with `num_updates`: the averages start at the
    initial weights, whose share is a tenth after the first step and soon nothing, so
    that they need no correction of a bias. In a branch that reads its records from
    their beginning, `t` is counted from the step where that is.

    Attributes:
      tree: the averages under the names that their variables have in the model, as a
        part of a checkpoint. What reads the model from a checkpoint reads this part
        instead, whatever the model.
    """

    def __init__(self, model: tf_keras.Model, decay: float):
        """Creates an average of each variable, with its value; call it in the scope.

        Args:
          model: with all of its variables.
          decay: `train.ema_decay`, above 0.
        """
        self._decay = decay
        self._first_step = 0
        self._weights = model.trainable_variables
        self._averages = [
            tf.Variable(
                tf.convert_to_tensor(weights),
                trainable=False,
                name=f"average/{weights.name.partition(':')[0]}",
            )
            for weights in self._weights
        ]
        pairs = zip(self._weights, self._averages, strict=True)
        self.tree = _mirror(model, {id(weights): average for weights, average in pairs})

    def update(self, index: int, weights, num_taken, is_skipped) -> None:
        """Moves one average; called in the update of its variable.

        Args:
          index: of the variable among the trainable ones.
          weights: the variable, after the step.
          num_taken: float32 scalar, how many earlier steps were taken.
          is_skipped: bool scalar, whether this step is skipped.
        """
        # How many steps were skipped before a branch is not known: `t` stays 0 for as
        # many steps.
        num_averaged = tf.maximum(num_taken - self._first_step, 0.0)
        # 1 - (1 + t) / (10 + t) is 9 / (10 + t).
        rate = tf.maximum(1.0 - self._decay, 9.0 / (10.0 + num_averaged))
        rate = tf.where(is_skipped, 0.0, rate)
        average = self._averages[index]
        average.assign_add(
            rate * (tf.convert_to_tensor(weights) - tf.convert_to_tensor(average))
        )

    def count_from(self, first_step: int) -> None:
        """Counts `t` from a step; call it before a loop is compiled."""
        self._first_step = first_step

    def restart(self) -> None:
        """Sets the averages to the present weights."""
        for weights, average in zip(self._weights, self._averages, strict=True):
            average.assign(tf.convert_to_tensor(weights))

    @contextlib.contextmanager
    def in_model(self) -> Iterator[None]:
        """Gives the model the averages as its weights until the block ends."""
        self._swap()
        try:
            yield
        finally:
            self._swap()

    def _swap(self) -> None:
        for weights, average in zip(self._weights, self._averages, strict=True):
            value = tf.identity(weights)
            weights.assign(tf.convert_to_tensor(average))
            average.assign(value)


def _mirror(model: tf_keras.Model, averages: Mapping[int, tf.Variable]) -> Any:
    """Returns a copy of the model's tree of names with other variables in it.

    Args:
      model: the model.
      averages: the other variables by the ids of the model's. A variable without
        another one stays.
    """
    view = tf.train.TrackableView(model)
    # A shared node is one node in the copy too.
    copies: dict[int, Any] = {}

    def copy(node):
        if isinstance(node, tf.Variable):
            return averages.get(id(node), node)
        if id(node) not in copies:
            copies[id(node)] = tf.Module()
            for name, child in view.children(node).items():
                setattr(copies[id(node)], name, copy(child))
        return copies[id(node)]

    return copy(model)
