"""What a task's model says of rows, on the devices that train or in TensorFlow Lite."""

from collections.abc import Callable

import numpy as np
import tensorflow as tf

from albert_tf import distribution, layers, lite, task_input, task_models, train_loop

Predict = Callable[[], dict[str, np.ndarray] | None]


def make_predict(
    strategy: tf.distribute.Strategy,
    model: task_models.TaskModel,
    batcher: task_input.Batcher,
    batch_size: int,
    jit_compile: str,
    signals: train_loop.Signals,
    cast: layers.CastOnce | None = None,
) -> Predict:
    """A function that gives the model's outputs for all items, on every host.

    Args:
      strategy: where to run.
      model: with all its variables made.
      batcher: of the items.
      batch_size: items of a batch on one device.
      jit_compile: `train.jit_compile`.
      signals: its `stop` ends the work.
      cast: as `model.infer` takes it.

    Returns:
      A function that returns, by the names of the fields of what `model.infer` returns,
      arrays with a leading axis of items; or None where it was asked to end.
    """
    input_fn = task_input.eval_input_fn(batcher, batch_size)
    dataset = distribution.distribute_dataset(strategy, input_fn)
    num_rounds = -(-batcher.num_items // (batch_size * strategy.num_replicas_in_sync))
    infer = tf.function(
        lambda features: model.infer(features, cast and cast.copy())._asdict(),
        jit_compile=distribution.compiles_with_xla(jit_compile),
        autograph=False,
    )

    def on_replica(features, stop):
        outputs = infer(features)
        # What the host read lies on no replica, and only what does can be added up.
        stop = tf.identity(stop)
        return distribution.gather_over_replicas(
            outputs
        ), distribution.sum_over_replicas(stop)

    @tf.function(autograph=False)
    def take(iterator):
        features = next(iterator)
        stop = signals.stop.read_value()
        return distribution.run_on_replicas(strategy, on_replica, (features, stop))

    def predict() -> dict[str, np.ndarray] | None:
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


def make_lite_predict(
    model: lite.LiteModel, batcher: task_input.Batcher, batch_size: int
) -> Predict:
    """As `make_predict`, of a model of TensorFlow Lite on this machine.

    Args:
      model: of the task.
      batcher: of the items, padded to the model's length.
      batch_size: items of a call.
    """
    last = batcher.num_items

    def predict() -> dict[str, np.ndarray]:
        parts = [
            model(batcher.batch(range(first, min(first + batch_size, last))))
            for first in range(0, last, batch_size)
        ]
        return {
            name: np.concatenate([part[name] for part in parts]) for name in parts[0]
        }

    return predict
