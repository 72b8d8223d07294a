"""Exported models whose encoder is computed by OpenVINO, on Intel's and AMD's CPUs.

The directory is a SavedModel with two signatures for each of the model's: NAME.inputs
maps texts to the encoder's inputs, NAME.answers maps texts and the encoder's outputs to
answers. `openvino/` holds the encoder between them.

Shapes: R rows, S the longest of them in tokens, H hidden.
"""

import dataclasses
import os
import sys
import threading
from collections.abc import Sequence
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from albert_tf.core import files, short_repr, strict_json

FOLDER = "openvino"
MODEL_FILE = "encoder.xml"
SETTINGS_FILE = "settings.json"
INPUTS, ANSWERS = ".inputs", ".answers"
TEXTS = ("input_ids", "input_mask", "segment_ids")
OUTPUTS = ("sequence_output", "pooled_output")
# What the CPU computes in, unless weights and activations have eight bits.
_HINTS = {"float32": "f32", "bfloat16": "bf16", "int8": "f32"}
PRECISIONS = tuple(_HINTS)
# Rows per call, which bounds the memory for a long text.
_ROWS_AT_ONCE = 32


@dataclasses.dataclass(frozen=True)
class Settings:
    """What a model was exported with.

    Attributes:
      precision: one of `PRECISIONS`.
      checkpoint: the name of the checkpoint.
      weights: of it, as in `checkpointer.weights_part`.
      hidden_size: H.
    """

    precision: str
    checkpoint: str
    weights: str
    hidden_size: int


class Encoded(NamedTuple):
    """Outputs of the encoder.

    sequence_output: float32 [R, S, H].
    pooled_output: float32 [R, H].
    """

    sequence_output: np.ndarray
    pooled_output: np.ndarray


def is_openvino(path: str) -> bool:
    """Returns whether a directory is that of such a model."""
    return files.exists(os.path.join(path, FOLDER, MODEL_FILE))


def import_openvino() -> ModuleType:
    """Imports OpenVINO without its reports to its makers.

    Raises:
      ValueError: it is not installed.
    """
    # Imports of this package fail, and OpenVINO and NNCF do without it.
    sys.modules.setdefault("openvino_telemetry", None)  # type: ignore[arg-type]
    try:
        import openvino
    except ImportError as error:
        raise ValueError(
            "models of --form=openvino need OpenVINO, which is not installed: "
            "pip install -r requirements-openvino.txt"
        ) from error
    return openvino


def read_settings(path: str) -> Settings:
    """Reads what a model was exported with.

    Args:
      path: the model's directory.

    Raises:
      ValueError: the file is damaged, or lacks a setting.
    """
    settings_path = os.path.join(path, FOLDER, SETTINGS_FILE)
    settings = strict_json.load_as(settings_path, Settings)
    if settings.precision not in PRECISIONS:
        raise ValueError(
            f"{settings_path}: precision must be one of {', '.join(PRECISIONS)}; "
            f"received {short_repr.shown(settings.precision)}. Export the model again"
        )
    return settings


class Encoder:
    """The encoder of such a model, compiled for this machine.

    Attributes:
      settings: what it was exported with.
    """

    def __init__(self, path: str):
        """Compiles the encoder.

        Args:
          path: the model's directory.

        Raises:
          ValueError: OpenVINO is not installed, or cannot read the files.
        """
        openvino = import_openvino()
        folder = os.path.join(path, FOLDER)
        self.settings = read_settings(path)
        # All cores for one call, in the precision of the export: without the hint a CPU
        # with bfloat16 would round what was exported in float32.
        options = {
            "PERFORMANCE_HINT": "LATENCY",
            "INFERENCE_PRECISION_HINT": _HINTS[self.settings.precision],
        }
        try:
            model = openvino.Core().compile_model(
                os.path.join(folder, MODEL_FILE), "CPU", options
            )
        except RuntimeError as error:
            reason = str(error).strip().splitlines()[-1]
            raise ValueError(f"{folder} cannot be loaded: {reason:.200}") from error
        self._request = model.create_infer_request()
        self._lock = threading.Lock()

    def __call__(self, rows: Sequence[np.ndarray]) -> Encoded:
        """Encodes rows.

        Args:
          rows: the `TEXTS`, int32 [R, S] each.
        """
        num_rows, length = rows[0].shape
        size = self.settings.hidden_size
        sequence = np.empty([num_rows, length, size], np.float32)
        pooled = np.empty([num_rows, size], np.float32)
        num_portions = -(-num_rows // _ROWS_AT_ONCE)
        bounds = np.linspace(0, num_rows, num_portions + 1).astype(int)
        with self._lock:
            for first, last in zip(bounds[:-1], bounds[1:], strict=True):
                portion = {
                    name: np.ascontiguousarray(values[first:last])
                    for name, values in zip(TEXTS, rows, strict=True)
                }
                found = self._request.infer(portion, share_inputs=True)
                sequence[first:last] = found[OUTPUTS[0]]
                pooled[first:last] = found[OUTPUTS[1]]
        return Encoded(sequence, pooled)


class Model:
    """Such a model, called as a SavedModel is.

    Attributes:
      signatures: by name, functions of tensors by name.
      encoder: what computes between their halves.
    """

    def __init__(self, path: str):
        """Loads the model in the directory `path`.

        Raises:
          ValueError: as `Encoder`.
        """
        self.encoder = Encoder(path)
        self._halves = tf.saved_model.load(path)
        self.signatures = {
            name.removesuffix(INPUTS): _Signature(self, name.removesuffix(INPUTS))
            for name in self._halves.signatures
            if name.endswith(INPUTS)
        }

    def call(self, name: str, texts: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """Returns the answers of a signature."""
        signatures = self._halves.signatures
        found = signatures[f"{name}{INPUTS}"](**_known(texts, signatures, name, INPUTS))
        encoded = self.encoder([found[key].numpy() for key in TEXTS])
        values = {**texts, **{k: tf.constant(v) for k, v in encoded._asdict().items()}}
        known = _known(values, signatures, name, ANSWERS)
        return signatures[f"{name}{ANSWERS}"](**known)


class _Signature:
    def __init__(self, model: Model, name: str):
        self._model, self._name = model, name

    def __call__(self, **texts: tf.Tensor) -> dict[str, tf.Tensor]:
        return self._model.call(self._name, texts)


def _known(values: dict[str, Any], signatures, name: str, half: str) -> dict[str, Any]:
    """Returns the values that one half of a signature takes."""
    _, inputs = signatures[f"{name}{half}"].structured_input_signature
    return {key: values[key] for key in inputs}
