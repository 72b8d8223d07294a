"""An exported model as an implementation for bench_serve: strings in."""

import pathlib
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from albert_tf.inference import saved_model


def build_step(request: dict[str, Any], batch: dict[str, list]) -> Callable[[], float]:
    """A function that encodes the texts once and returns a number of the output.

    Args:
      request: as `step_server` describes it; `options` has `folder`, of the form text
        or openvino, and `text`, a file with the text that fills the batch.
      batch: unused.
    """
    del batch
    options = request["options"]
    encode = saved_model.load(options["folder"]).signatures["encode"]
    text = pathlib.Path(options["text"]).read_text()
    texts = tf.constant([text] * request["batch_size"])

    def step() -> float:
        found = encode(text=texts)
        sequence_output = found["sequence_output"].numpy()
        if sequence_output.shape[1] != request["length"]:
            raise ValueError(f"the texts have {sequence_output.shape[1]} tokens")
        return float(sequence_output[0, 0, 0]) + float(found["pooled_output"][0, 0])

    return step
