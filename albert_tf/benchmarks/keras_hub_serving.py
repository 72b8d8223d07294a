"""KerasHub's model and preprocessor under XLA, as an implementation of bench_serve.

It runs in a separate environment and imports nothing of this project.

Options: `folder` of the preset, and `text` as in `albert_tf_serving`.
"""

import os
import pathlib
from collections.abc import Callable
from typing import Any

os.environ["KERAS_BACKEND"] = "tensorflow"
os.environ["TF_USE_LEGACY_KERAS"] = "0"  # whatever the caller has set

import keras
import keras_hub
import numpy as np

_POLICIES = {"float32": "float32", "bfloat16": "mixed_bfloat16"}


def build_step(request: dict[str, Any], batch: dict[str, list]) -> Callable[[], float]:
    """A function that encodes the texts once and returns a number of the output.

    Args:
      request: as `step_server` describes it.
      batch: unused.
    """
    del batch
    options = request["options"]
    keras.mixed_precision.set_global_policy(_POLICIES[request["dtype"]])
    backbone = keras_hub.models.AlbertBackbone.from_preset(options["folder"])
    backbone.compile(jit_compile=True)
    tokenizer = keras_hub.models.AlbertTokenizer.from_preset(options["folder"])
    preprocess = keras_hub.models.AlbertTextClassifierPreprocessor(
        tokenizer, sequence_length=request["length"]
    )
    texts = [pathlib.Path(options["text"]).read_text()] * request["batch_size"]

    def step() -> float:
        inputs = preprocess(texts)
        if not np.asarray(inputs["padding_mask"]).all():
            raise ValueError(f"the texts have fewer than {request['length']} tokens")
        outputs = backbone.predict_on_batch(inputs)
        return float(outputs["sequence_output"][0, 0, 0]) + float(
            outputs["pooled_output"][0, 0]
        )

    return step
