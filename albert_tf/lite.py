"""Models for TensorFlow Lite: ids in, numbers out, matrices in eight bits.

Each matrix is kept as int8 with scales, a quarter of its bytes; its products are of
integers, and all between them is float32 (TensorFlow Lite's dynamic-range quantization,
which needs no examples). The folder holds model.tflite beside vocab.model and
config.json of the run, and task.json of a fine-tuned one.

Shapes: B texts, S tokens of each with padding, which is fixed; C choices, P positions,
V pieces, H hidden.
"""

import os
import warnings
from collections.abc import Callable, Mapping

import numpy as np
import tensorflow as tf
import tf_keras

from albert_tf import files, models, schema, task_models

MODEL_FILE = "model.tflite"
_TEXTS = ("input_ids", "input_mask", "segment_ids")

Features = dict[str, tf.Tensor]


def convert_pretrained(model: models.PretrainingModel, length: int) -> bytes:
    """A pre-trained model as a file of TensorFlow Lite.

    It takes `input_ids`, `input_mask` and `segment_ids` int32 [B, S] and
    `masked_lm_positions` int32 [B, P], and gives `sequence_output` float32 [B, S, H],
    `pooled_output` [B, H], `masked_lm_probabilities` [B, P, V] and
    `sentence_order_probability` [B], that the two segments stand in order.

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


def convert_task(model: task_models.TaskModel, length: int) -> bytes:
    """A fine-tuned model as a file of TensorFlow Lite.

    It takes `input_ids`, `input_mask` and `segment_ids` int32 [B, S] ([B, C, S] for
    choices) and, for "answerable_span", `p_mask` float32 [B, S], and gives what
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
    """A model of TensorFlow Lite, on all cores.

    Attributes:
      length: S, the tokens of each text.

    Raises:
      ValueError: the folder holds no such model.
    """

    def __init__(self, folder: str):
        path = os.path.join(folder, MODEL_FILE)
        if not files.exists(path):
            raise ValueError(
                "the folder must be one that albert_tf.export --form=lite wrote; there "
                f"is no {path}"
            )
        with warnings.catch_warnings():
            # It is to move to a package of its own.
            warnings.simplefilter("ignore")
            interpreter = tf.lite.Interpreter(
                model_content=files.read_bytes(path), num_threads=os.cpu_count()
            )
        self._run = interpreter.get_signature_runner()
        self._inputs = self._run.get_input_details()
        self.length = int(self._inputs["input_ids"]["shape"][-1])

    def __call__(self, features: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """What the model gives for a batch.

        Args:
          features: what it takes, as `convert_pretrained` and `convert_task` say it,
            and perhaps more.

        Returns:
          Its outputs by name.
        """
        return self._run(**{name: features[name] for name in self._inputs})


def _text_specs(shape: list[int | None]) -> dict[str, tf.TensorSpec]:
    return {name: tf.TensorSpec(shape, tf.int32) for name in _TEXTS}


def _convert(
    compute: Callable[[Features], Features],
    specs: dict[str, tf.TensorSpec],
    model: tf_keras.Model,
) -> bytes:
    """A function of features as a file with one signature.

    Args:
      compute: maps features by name to tensors by name.
      specs: of its features.
      model: whose weights it reads.
    """
    function = tf.function(lambda **features: compute(features), autograph=False)
    traced = function.get_concrete_function(**specs)
    # Not the model itself: Keras would save a function for each layer on the way.
    weights = tf.Module()
    weights.all = model.variables
    converter = tf.lite.TFLiteConverter.from_concrete_functions([traced], weights)
    converter.optimizations = [tf.lite.Optimize.DEFAULT]
    return converter.convert()
