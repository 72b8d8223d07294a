"""Model outputs for all items of a split, on the devices of the strategy."""

from collections.abc import Callable

import numpy as np
import tensorflow as tf

from albert_tf.devices import strategies
from albert_tf.finetuning import batches
from albert_tf.model import encoder as encoder_lib
from albert_tf.model import task_model
from albert_tf.training import loops

ModelOutputs = dict[str, np.ndarray]
Predict = Callable[[], ModelOutputs | None]


def make_predict(
    strategy: tf.distribute.Strategy,
    model: task_model.TaskModel,
    batcher: batches.FeatureBatcher,
    batch_size: int,
    jit_compile: str,
    signals: loops.Signals,
    encoder: encoder_lib.TextEncoder | None = None,
) -> Predict:
    """Returns a function that computes the model's outputs for all items.

    Args:
      strategy: the devices.
      model: with all its variables created.
      batcher: of the items.
      batch_size: items per batch and device.
      jit_compile: `train.jit_compile`.
      signals: its `stop` interrupts the computation; its `heartbeat` counts batches.
      encoder: as `model.infer` takes it.

    Returns:
      A function that returns on every host the fields of the result of `model.infer` by
      name, arrays with a leading axis of items; or None if `stop` was set.
    """
    input_fn = batches.eval_input_fn(batcher, batch_size)
    dataset = strategies.distribute_dataset(strategy, input_fn)
    num_rounds = -(-batcher.num_items // (batch_size * strategy.num_replicas_in_sync))
    infer = tf.function(
        lambda features: model.infer(features, encoder)._asdict(),
        jit_compile=strategies.compiles_with_xla(jit_compile),
        autograph=False,
    )

    def on_replica(features, stop):
        outputs = infer(features)
        # A host value is on no replica, and only replica values can be summed.
        stop = tf.identity(stop)
        return strategies.gather_over_replicas(outputs), strategies.sum_over_replicas(
            stop
        )

    @tf.function(autograph=False)
    def take(iterator):
        signals.heartbeat.assign_add(1)
        features = next(iterator)
        stop = signals.stop.read_value()
        return strategies.run_on_replicas(strategy, on_replica, (features, stop))

    def predict() -> ModelOutputs | None:
        iterator, parts = iter(dataset), []
        for _ in range(num_rounds):
            outputs, stop = take(iterator)
            if stop > 0:
                return None
            parts.append({name: value.numpy() for name, value in outputs.items()})
        return {
            name: np.concatenate([part[name] for part in parts])[: batcher.num_items]
            for name in parts[0]
        }

    return predict
