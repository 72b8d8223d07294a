"""ALBERT of keras-hub on Keras 3 with TensorFlow, as an implementation for bench_model.

It runs in a separate environment and imports nothing of this project. `options` has
`jit_compile`. keras-hub has no pre-training model with both heads; this one combines
AlbertBackbone, its MaskedLMHead as AlbertMaskedLM uses it, and a dense layer on the
pooled output.
"""

import os
from collections.abc import Callable
from typing import Any

os.environ["KERAS_BACKEND"] = "tensorflow"
os.environ["TF_USE_LEGACY_KERAS"] = "0"  # whatever the caller has set

import keras
import keras_hub
import numpy
import tensorflow as tf

_POLICIES = {"float32": "float32", "bfloat16": "mixed_bfloat16"}


def build_step(request: dict[str, Any], batch: dict[str, list]) -> Callable[[], float]:
    """A function that takes one step and returns the loss, or a number of the output.

    Args:
      request: as `step_server` describes it.
      batch: nested lists of integers, as `step_server.make_batch` gives them.
    """
    keras.utils.set_random_seed(0)
    keras.mixed_precision.set_global_policy(_POLICIES[request["dtype"]])
    model = request["model"]
    backbone = keras_hub.models.AlbertBackbone(
        vocabulary_size=model["vocab_size"],
        num_layers=model["num_layers"],
        num_heads=model["num_heads"],
        embedding_dim=model["embedding_size"],
        hidden_dim=model["hidden_size"],
        intermediate_dim=model["intermediate_size"],
        max_sequence_length=model["max_positions"],
        dropout=0.0,
    )
    arrays = {name: numpy.array(values, "int32") for name, values in batch.items()}
    inputs = {
        "token_ids": arrays["input_ids"],
        "segment_ids": arrays["segment_ids"],
        "padding_mask": arrays["input_mask"],
    }
    jit_compile = request["options"]["jit_compile"]
    if request["task"] == "inference":
        return _inference_step(backbone, inputs, jit_compile)
    inputs["mask_positions"] = arrays["masked_lm_positions"]
    labels = {"mlm": arrays["masked_lm_ids"], "pair": arrays["pair_labels"]}
    return _training_step(backbone, inputs, labels, jit_compile)


def _training_step(backbone, inputs, labels, jit_compile) -> Callable[[], float]:
    outputs = backbone(backbone.input)
    positions = keras.Input((None,), dtype="int32", name="mask_positions")
    masked_lm = keras_hub.layers.MaskedLMHead(
        token_embedding=backbone.token_embedding,
        intermediate_activation=lambda x: keras.activations.gelu(x, approximate=True),
        name="mlm",
    )
    pair = keras.layers.Dense(2, name="pair")
    model = keras.Model(
        {**backbone.input, "mask_positions": positions},
        {
            "mlm": masked_lm(outputs["sequence_output"], positions),
            "pair": pair(outputs["pooled_output"]),
        },
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(
        keras.optimizers.Lamb(1e-5, weight_decay=0.01, global_clipnorm=1.0),
        {"mlm": loss, "pair": loss},
        jit_compile=jit_compile,
    )
    # Tensors, so that the step is timed without the conversion of arrays.
    inputs = {name: tf.constant(array) for name, array in inputs.items()}
    labels = {name: tf.constant(array) for name, array in labels.items()}
    return lambda: float(model.train_on_batch(inputs, labels, return_dict=True)["loss"])


def _inference_step(backbone, inputs, jit_compile) -> Callable[[], float]:
    backbone.compile(jit_compile=jit_compile)

    def step() -> float:
        outputs = backbone.predict_on_batch(inputs)
        return float(outputs["sequence_output"][0, 0, 0]) + float(
            outputs["pooled_output"][0, 0]
        )

    return step
