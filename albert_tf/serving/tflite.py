"""Models for TensorFlow Lite, which map ids to numbers, with 8-bit matrices.

Each matrix is stored as int8 with scales, a quarter of its bytes; products are of
integers, and everything else is float32 (TensorFlow Lite's dynamic-range quantization,
which needs no examples). The directory holds model.tflite beside vocab.model and
config.json of the run, and task.json of a fine-tuned one.

Shapes: B texts, S tokens of each with padding, a fixed number; C choices, P positions,
V pieces, H hidden.
"""

import os
import warnings
from collections.abc import Callable, Mapping

import numpy as np
import tensorflow as tf
import tf_keras

from albert_tf.core import files, machine, other_formats
from albert_tf.data import schema
from albert_tf.finetuning import batches
from albert_tf.model import pretraining_model, task_model

MODEL_FILE = other_formats.LITE_FILE
_TEXTS = ("input_ids", "input_mask", "segment_ids")

Features = dict[str, tf.Tensor]


def convert_pretrained(model: pretraining_model.PretrainingModel, length: int) -> bytes:
    """Converts a pre-trained model to the content of a TensorFlow Lite file.

    It takes `input_ids`, `input_mask` and `segment_ids` int32 [B, S] and
    `masked_lm_positions` int32 [B, P], and returns `sequence_output` float32 [B, S, H],
    `pooled_output` [B, H], `masked_lm_probabilities` [B, P, V] and
    `sentence_order_probability` [B], that the two segments are in order.

    Args:
      model: with its weights, computing in float32.
      length: S.
    """

    def compute(features: Features) -> Features:
        found = model(features)
        order = tf.nn.softmax(found.pair_logits)
        return {
            "sequence_output": found.encoder.sequence_output,
            "pooled_output": found.encoder.pooled_output,
            "masked_lm_probabilities": tf.nn.softmax(found.mlm.logits),
            "sentence_order_probability": order[:, schema.IN_ORDER],
        }

    specs = _text_specs([None, length])
    specs["masked_lm_positions"] = tf.TensorSpec([None, None], tf.int32)
    return _convert(compute, specs, model)


def convert_task(model: task_model.TaskModel, length: int) -> bytes:
    """Converts a fine-tuned model to the content of a TensorFlow Lite file.

    It takes `input_ids`, `input_mask` and `segment_ids` int32 [B, S] ([B, C, S] for
    choices) and, for "answerable_span", `p_mask` float32 [B, S], and returns what
    `TaskModel.infer` does.

    Args:
      model: with its weights, computing in float32.
      length: S.
    """
    specs = _text_specs([None] * (model.head.input_rank - 1) + [length])
    if model.kind == "answerable_span":
        specs["p_mask"] = tf.TensorSpec([None, length], tf.float32)
    return _convert(lambda features: model.infer(features)._asdict(), specs, model)


class LiteModel:
    """A TensorFlow Lite model, run on all cores.

    Attributes:
      length: S, the tokens of each text.

    Raises:
      ValueError: the directory holds no such model.
    """

    def __init__(self, folder: str):
        path = os.path.join(folder, MODEL_FILE)
        if not files.exists(path):
            raise ValueError(
                "the directory must be one that albert_tf.export --form=lite wrote; "
                f"there is no {path}"
            )
        with warnings.catch_warnings():
            # TensorFlow warns that the interpreter will move to another package.
            warnings.simplefilter("ignore")
            interpreter = tf.lite.Interpreter(
                model_content=files.read_bytes(path), num_threads=machine.num_cores()
            )
        self._run = interpreter.get_signature_runner()
        self._inputs = self._run.get_input_details()
        self.length = int(self._inputs["input_ids"]["shape"][-1])

    def __call__(self, features: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Returns the model's outputs for a batch, by name.

        Args:
          features: its inputs, see `convert_pretrained` and `convert_task`; others are
            ignored.
        """
        return self._run(**{name: features[name] for name in self._inputs})


def _text_specs(shape: list[int | None]) -> dict[str, tf.TensorSpec]:
    return {name: tf.TensorSpec(shape, tf.int32) for name in _TEXTS}


def _convert(
    compute: Callable[[Features], Features],
    specs: dict[str, tf.TensorSpec],
    model: tf_keras.Model,
) -> bytes:
    """Converts a function of features to a file with one signature.

    Args:
      compute: maps features by name to tensors by name.
      specs: of the features.
      model: whose weights the function reads.
    """
    function = tf.function(lambda **features: compute(features), autograph=False)
    traced = function.get_concrete_function(**specs)
    # Not the model itself: Keras would save a function for each layer.
    weights = tf.Module()
    weights.all = model.variables
    converter = tf.lite.TFLiteConverter.from_concrete_functions([traced], weights)
    converter.optimizations = [tf.lite.Optimize.DEFAULT]
    return converter.convert()


def make_predict(
    model: LiteModel, batcher: batches.FeatureBatcher, batch_size: int
) -> Callable[[], dict[str, np.ndarray]]:
    """Returns `prediction.make_predict` for a TensorFlow Lite model on this machine.

    Args:
      model: of the task.
      batcher: of the items, padded to the model's length.
      batch_size: items per call.
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
