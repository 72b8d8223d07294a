"""Trust ratios of LAMB, for the log."""

from collections.abc import Callable

import tensorflow as tf
import tf_keras

from albert_tf.devices import strategies
from albert_tf.optim import optimizers


def make_trust_ratios(
    strategy: tf.distribute.Strategy, model: tf_keras.Model, optimizer: optimizers.AdamW
) -> Callable[[int], dict[str, float]]:
    """Returns a function that gives the trust ratio of each variable's last step.

    Args:
      strategy: the devices.
      model: its variables.
      optimizer: its slots. Only LAMB has trust ratios.

    Returns:
      A function of the number of steps that were skipped so far. Its result maps
      `trust_ratio/VARIABLE` to a float, for the variables that a loss has reached.
    """
    adapted = [v for v in model.trainable_variables if optimizer.uses_trust_ratio(v)]
    if not adapted:
        return lambda num_skipped: {}

    def on_replica(num_skipped):
        return optimizer.trust_ratios(adapted, num_skipped)

    # Not a lambda: a TPU's cluster is named after it, and "<" is not valid in a name.
    @tf.function(autograph=False)
    def on_devices(num_skipped):
        return strategies.run_on_replicas(strategy, on_replica, (num_skipped,))

    def trust_ratios(num_skipped: int) -> dict[str, float]:
        found = on_devices(tf.constant(num_skipped))
        ratios = {name: float(value) for name, value in found.items()}
        return {
            f"trust_ratio/{name.removeprefix(model.name + '/')}": ratio
            for name, ratio in ratios.items()
            if ratio > 0.0
        }

    return trust_ratios
