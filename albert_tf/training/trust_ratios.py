"""Trust ratios of LAMB, for the log."""

from collections.abc import Callable

import tensorflow as tf
import tf_keras

from albert_tf.devices import strategies
from albert_tf.optim import optimizers


def make_trust_ratios(
    strategy: tf.distribute.Strategy, model: tf_keras.Model, optimizer: optimizers.AdamW
) -> Callable[[], dict[str, float]]:
    """Returns a function that gives the trust ratio of each variable's last step.

    Args:
      strategy: the devices.
      model: its variables.
      optimizer: its slots. Under AdamW there are no trust ratios.

    Returns:
      A function without arguments; its result maps `trust_ratio/VARIABLE` to a float.
    """
    adapted = [v for v in model.trainable_variables if optimizer.uses_trust_ratio(v)]
    if not adapted:
        return dict

    def on_replica():
        return optimizer.trust_ratios(adapted)

    # Not a lambda: a TPU's cluster is named after it, and "<" is not valid in a name.
    @tf.function(autograph=False)
    def on_devices():
        return strategies.run_on_replicas(strategy, on_replica, ())

    def trust_ratios() -> dict[str, float]:
        return {
            f"trust_ratio/{name.removeprefix(model.name + '/')}": float(value)
            for name, value in on_devices().items()
        }

    return trust_ratios
