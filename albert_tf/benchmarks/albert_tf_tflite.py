"""A TensorFlow Lite model as an implementation for bench_serve: strings in."""

import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np

from albert_tf.core import config_io
from albert_tf.data import schema
from albert_tf.serving import tflite
from albert_tf.tokenization import tokenizer as tokenizer_lib


def build_step(request: dict[str, Any], batch: dict[str, list]) -> Callable[[], float]:
    """A function that encodes the texts once and returns a number of the output.

    Args:
      request: as `step_server` describes it; `options` has `folder`, a pre-trained
        model written by albert_tf.export --form=lite, and `text` as in
        `albert_tf_serving`.
      batch: unused.
    """
    del batch
    folder = request["options"]["folder"]
    model = tflite.LiteModel(folder)
    config = config_io.read(f"{folder}/{schema.CONFIG_FILE}")
    tokenizer = tokenizer_lib.Tokenizer.from_file(
        f"{folder}/{schema.VOCAB_FILE}", config.data.lower_case
    )
    text = pathlib.Path(request["options"]["text"]).read_text()
    texts = [text] * request["batch_size"]
    if model.length != request["length"]:
        raise ValueError(f"the model takes {model.length} tokens")

    def step() -> float:
        ids = [
            [tokenizer.cls_id, *found[: model.length - 2], tokenizer.sep_id]
            for found in tokenizer.encode_batch(texts)
        ]
        input_ids = np.array(ids, np.int32)
        found = model(
            {
                "input_ids": input_ids,
                "input_mask": np.ones_like(input_ids),
                "segment_ids": np.zeros_like(input_ids),
                "masked_lm_positions": np.zeros([len(ids), 1], np.int32),
            }
        )
        return float(found["sequence_output"][0, 0, 0]) + float(
            found["pooled_output"][0, 0]
        )

    return step
