"""Requests that TensorFlow Serving sends to a model before it serves others.

A model's first calls allocate memory and compile. TensorFlow Serving reads the file
written here and makes those calls itself before it reports the model as available
("SavedModel Warmup" in its documentation).
"""

import os
from collections.abc import Mapping
from typing import Any

import tensorflow as tf
from tensorflow_serving.apis import predict_pb2, prediction_log_pb2

from albert_tf.tokenization import tokenizer

FILE = "assets.extra/tf_serving_warmup_requests"
# Texts per request, and words per text. The last is longer than any sequence, so that
# it is cut to the full length.
SIZES = ((1, 8), (32, 8), (1, 1000))
_NUM_OPTIONS = 2
_NUMBER = 5  # for int32 inputs, such as fill_mask's top_k


def make(signature: str, inputs: Mapping[str, tf.TensorSpec]) -> list:
    """Creates the requests of one signature.

    Args:
      signature: its name.
      inputs: specs by name: string [None], string [None, None] or int32 [].

    Returns:
      A tensorflow_serving.apis.prediction_log_pb2.PredictionLog for each of `SIZES`.
    """
    logs = []
    for num_texts, num_words in SIZES:
        request = predict_pb2.PredictRequest()
        request.model_spec.signature_name = signature
        for name, spec in inputs.items():
            value = tf.make_tensor_proto(_value(spec, num_texts, num_words))
            request.inputs[name].CopyFrom(value)
        log = prediction_log_pb2.PredictionLog()
        log.predict_log.request.CopyFrom(request)
        logs.append(log)
    return logs


def write(saved_model: str, signatures: Mapping[str, Any]) -> None:
    """Adds the requests of all its signatures to a SavedModel.

    Args:
      saved_model: its directory, written by tf.saved_model.save.
      signatures: by name, tf.functions with an input signature.
    """
    path = os.path.join(saved_model, FILE)
    tf.io.gfile.makedirs(os.path.dirname(path))
    with tf.io.TFRecordWriter(path) as writer:
        for name, signature in sorted(signatures.items()):
            # A concrete function would be traced again, outside of saving.
            parameters = signature.function_type.parameters
            specs = {key: value.type_constraint for key, value in parameters.items()}
            # One without texts is for programs that evaluate the model, not for users.
            if any(spec.dtype == tf.string for spec in specs.values()):
                for log in make(name, specs):
                    writer.write(log.SerializeToString())


def _value(spec: tf.TensorSpec, num_texts: int, num_words: int):
    if spec.dtype == tf.int32:
        return tf.constant(_NUMBER)
    text = " ".join([tokenizer.MASK, *["word"] * (num_words - 1)])
    return tf.fill([num_texts, *[_NUM_OPTIONS] * (spec.shape.rank - 1)], text)
