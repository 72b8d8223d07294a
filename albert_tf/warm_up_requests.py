"""Requests that TensorFlow Serving sends to a model before it takes any other.

A model's first calls allocate memory, and compile what is to be compiled. TensorFlow
Serving reads the file that is written here and makes those calls itself, before it
reports the model as available ("SavedModel Warmup" in its documentation).
"""

import os
from collections.abc import Mapping
from typing import Any

import tensorflow as tf
from tensorflow_serving.apis import predict_pb2, prediction_log_pb2

from albert_tf import tokenization

FILE = "assets.extra/tf_serving_warmup_requests"
# How many texts a request has, and how many words each. The last is longer than any
# sequence, so that it becomes one of full length.
SIZES = ((1, 8), (32, 8), (1, 1000))
_NUM_OPTIONS = 2
_NUMBER = 5  # such as fill_mask's top_k


def make(signature: str, inputs: Mapping[str, tf.TensorSpec]) -> list:
    """The requests of one signature, as records.

    Args:
      signature: its name.
      inputs: what it takes: string [None], string [None, None] or int32 [].

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
      saved_model: its folder, as tf.saved_model.save wrote it.
      signatures: by name, tf.functions that have an input signature.
    """
    path = os.path.join(saved_model, FILE)
    tf.io.gfile.makedirs(os.path.dirname(path))
    with tf.io.TFRecordWriter(path) as writer:
        for name, signature in sorted(signatures.items()):
            traced = signature.get_concrete_function()
            inputs, _ = traced.structured_input_signature
            for log in make(name, {spec.name: spec for spec in inputs}):
                writer.write(log.SerializeToString())


def _value(spec: tf.TensorSpec, num_texts: int, num_words: int):
    if spec.dtype == tf.int32:
        return tf.constant(_NUMBER)
    text = " ".join([tokenization.MASK, *["word"] * (num_words - 1)])
    return tf.fill([num_texts, *[_NUM_OPTIONS] * (spec.shape.rank - 1)], text)
