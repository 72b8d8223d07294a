"""What an average of the weights adds to the optimizer's update."""

from collections.abc import Callable

import tensorflow as tf

from albert_tf.benchmarks import figures, rounds, setup
from albert_tf.core import config as config_lib
from albert_tf.core import config_io
from albert_tf.devices import strategies
from albert_tf.training import trainer as trainer_lib

_EMA_DECAY = 0.999
_GROUP = "update of the weights"


def measure(
    config: config_lib.Config, num_rounds: int, seconds: float
) -> list[figures.Figure]:
    """Times the update of all weights, with an average of them and without.

    Forward and backward pass are the same with it, so they are left out: the difference
    would be lost in their variation.

    Args:
      config: what to train.
      num_rounds: how often each is timed.
      seconds: approximate duration of one measurement.
    """
    times = rounds.time_steps(
        {
            name: _updates(
                setup.build(config_io.override(config, [f"train.ema_decay={decay}"]))
            )
            for name, decay in (("without", 0.0), ("with", _EMA_DECAY))
        },
        num_rounds,
        seconds,
    )
    return to_figures(times["without"], times["with"])


def to_figures(
    without: list[rounds.StepTimes], with_average: list[rounds.StepTimes]
) -> list[figures.Figure]:
    """The figures of the times without and with an average, round by round."""
    found = []
    for kind, attribute in (("", "seconds"), (", core time", "core_seconds")):
        before, after = (
            [1e3 * getattr(one, attribute) for one in times]
            for times in (without, with_average)
        )
        for name, samples in (
            ("without an average", before),
            ("an average adds", figures.differences(after, before)),
        ):
            found.append(figures.median_figure(_GROUP, name + kind, samples, "ms"))
    return found


def _updates(trainer: trainer_lib.Trainer) -> Callable[[int], None]:
    """Returns a function that updates the weights by the same gradients each time."""
    variables = trainer.model.trainable_variables
    gradients = [
        tf.random.stateless_normal(variable.shape, [1, number], stddev=1e-3)
        for number, variable in enumerate(variables)
    ]

    def update(*parts):
        trainer.optimizer.apply_gradients(
            zip(parts, variables, strict=True), skip_gradients_aggregation=True
        )
        return tf.constant(0.0)

    # The gradients are arguments: work on constants could be folded away.
    @tf.function(autograph=False)
    def step(parts):
        return strategies.run_on_replicas(trainer.strategy, update, tuple(parts))

    def take_steps(num_steps: int) -> None:
        for _ in range(num_steps):
            step(gradients)
        # When the last one is done.
        tf.reduce_sum(variables[0]).numpy()

    return take_steps
