"""This project's train step and encoder as an implementation for bench_model."""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from albert_tf.core import config as config_lib
from albert_tf.devices import strategies
from albert_tf.model import pretraining_model
from albert_tf.optim import optimizers
from albert_tf.training import objectives, train_step


def build_step(request: dict[str, Any], batch: dict[str, list]) -> Callable[[], float]:
    """A function that takes one step and returns the loss, or a number of the output.

    Args:
      request: as `step_server` describes it; `options` has settings of `train`.
      batch: nested lists of integers, as `step_server.make_batch` gives them.
    """
    config = _make_config(request)
    tensors = {name: tf.constant(values, tf.int32) for name, values in batch.items()}
    strategy = strategies.create_strategy()
    with strategy.scope():
        model = _build_model(config)
        if request["task"] == "inference":
            return _inference_step(model, tensors)
        adam = optimizers.create(
            config.optimizer,
            config.train.num_steps,
            compiled=model.compute.fuse_elementwise,
            compute_dtype=model.compute.dtype,
        )
        adam.build(model.trainable_variables)
    objective = objectives.PretrainingObjective(config.data.pair_loss)
    step_fn = train_step.make_train_step(model, adam, config, objective)
    tensors["next_sentence_labels"] = tensors.pop("pair_labels")
    ones = tf.ones_like(tensors["masked_lm_ids"], tf.float32)
    tensors["masked_lm_weights"] = ones

    # The batch is an argument: work on a constant could be folded away.
    @tf.function(autograph=False)
    def run(features):
        never, no_loss_yet = tf.constant(0.0), tf.constant(float("inf"))
        return strategy.run(step_fn, (features, never, no_loss_yet))["loss"]

    return lambda: float(run(tensors))


def _build_model(config: config_lib.Config) -> pretraining_model.PretrainingModel:
    compute = pretraining_model.compute_form(config.train)
    return pretraining_model.build_pretraining_model(
        config.model, config.train.seed, compute
    )


def _make_config(request: dict[str, Any]) -> config_lib.Config:
    return config_lib.Config(
        model=config_lib.ModelConfig(**request["model"]),
        data=config_lib.DataConfig(
            max_seq_length=request["length"],
            max_predictions_per_seq=request["num_predictions"],
        ),
        train=config_lib.TrainConfig(
            batch_size=request["batch_size"],
            compute_dtype=request["dtype"],
            **request["options"]["train"],
        ),
    )


def _inference_step(model, tensors) -> Callable[[], float]:
    encode = pretraining_model.make_encode(model)
    inputs = [tensors[name] for name in ("input_ids", "input_mask", "segment_ids")]

    def step() -> float:
        sequence_output, pooled_output = encode(*inputs)
        return float(sequence_output[0, 0, 0]) + float(pooled_output[0, 0])

    return step
