"""Exports a model whose encoder OpenVINO computes: in float32, bfloat16 or int8.

The graph of each signature is divided where the encoder is called. Tokenizer, windows,
heads and the search for answers stay in TensorFlow, since they are the same there; the
encoder becomes a file of OpenVINO. See `inference.openvino_model` for the directory.
"""

import dataclasses
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from albert_tf.core import files
from albert_tf.inference import openvino_model, predict
from albert_tf.model import encoder as encoder_lib


class DividedEncoder:
    """Replaces an encoder that another program computes.

    While one half of a signature is traced it keeps what it is called with, and returns
    what it was given.
    """

    is_in_graph = False

    def __init__(self, encoder: encoder_lib.Encoder):
        self.encoder = encoder
        self.taken: dict[str, tf.Tensor] = {}
        self.given: dict[str, tf.Tensor] | None = None

    def __call__(
        self, input_ids, input_mask, segment_ids
    ) -> encoder_lib.EncoderOutputs:
        """Returns the given outputs, or zeros of their shapes."""
        texts = (input_ids, input_mask, segment_ids)
        self.taken = dict(zip(openvino_model.TEXTS, texts, strict=True))
        outputs = self.given
        if outputs is None:
            shape = tf.concat([tf.shape(input_ids), [self._hidden_size]], 0)
            sequence = tf.zeros(shape)
            outputs = dict(
                zip(openvino_model.OUTPUTS, (sequence, sequence[:, 0]), strict=True)
            )
        sequence, pooled = (outputs[name] for name in openvino_model.OUTPUTS)
        return encoder_lib.EncoderOutputs(sequence, (sequence,), sequence, pooled)

    def pooled_output(self, input_ids, input_mask, segment_ids):
        """Returns that of the call: the other program computes all outputs."""
        return self(input_ids, input_mask, segment_ids).pooled_output

    def variables_to_save(self, variables: Iterable[tf.Variable]) -> list[tf.Variable]:
        """Nothing: each half names those that it reads."""
        return []

    @property
    def _hidden_size(self) -> int:
        return self.encoder.config.hidden_size

    def halves(self, function: Callable) -> tuple[Callable, Callable]:
        """Divides a signature, a tf.function with an input signature.

        Returns:
          A tf.function from its inputs to those of the encoder, and one from its inputs
          and the encoder's outputs to its results.
        """
        parameters = function.function_type.parameters  # type: ignore[attr-defined]
        specs = {name: one.type_constraint for name, one in parameters.items()}
        python_function = function.python_function  # type: ignore[attr-defined]

        @tf.function(autograph=False)
        def inputs(**texts):
            self.given = None
            python_function(**texts)
            return self.taken

        @tf.function(autograph=False)
        def answers(**values):
            texts = {name: values[name] for name in specs}
            self.given = {name: values[name] for name in openvino_model.OUTPUTS}
            return python_function(**texts)

        size = self._hidden_size
        outputs = {
            "sequence_output": tf.TensorSpec([None, None, size], tf.float32),
            "pooled_output": tf.TensorSpec([None, size], tf.float32),
        }
        named = {n: tf.TensorSpec(s.shape, s.dtype, n) for n, s in specs.items()}
        given = {n: tf.TensorSpec(s.shape, s.dtype, n) for n, s in outputs.items()}
        return (
            inputs.get_concrete_function(**named),
            answers.get_concrete_function(**named, **given),
        )


def write(
    module: tf.Module,
    encoder: DividedEncoder,
    settings: openvino_model.Settings,
    path: str,
) -> None:
    """Writes a model.

    Args:
      module: with `signatures` that call `encoder`; those of strings are exported.
      encoder: with its weights.
      settings: of the export.
      path: an existing directory.

    Raises:
      ValueError: OpenVINO is not installed.
    """
    openvino = openvino_model.import_openvino()
    halves: dict[str, Any] = {}
    for name, function in module.signatures.items():
        parameters = function.function_type.parameters.values()
        if any(one.type_constraint.dtype == tf.string for one in parameters):
            inputs, answers = encoder.halves(function)
            halves[f"{name}{openvino_model.INPUTS}"] = inputs
            halves[f"{name}{openvino_model.ANSWERS}"] = answers
    # Not the module: its own functions would be saved, and all weights with them.
    saved = tf.Module()
    saved.tokenizer = module.tokenizer
    variables = {id(v): v for half in halves.values() for v in half.variables}
    saved.weights = list(variables.values())
    tf.saved_model.save(saved, path, signatures=halves)

    with tempfile.TemporaryDirectory() as plain:
        _save_encoder(encoder.encoder, plain)
        converted = openvino.convert_model(plain)
    _save(openvino, converted, settings, path)


def quantize(path: str, examples_path: str) -> int:
    """Changes the encoder of a model to weights and activations of eight bits.

    Args:
      path: directory that `write` wrote, with the precision float32.
      examples_path: a file of examples to calibrate with, as albert_tf.predict reads
        them.

    Returns:
      The number of rows that it was calibrated with.

    Raises:
      ValueError: NNCF is not installed, or there is no example.
    """
    openvino = openvino_model.import_openvino()
    os.environ["NNCF_CI"] = "1"  # the only way to keep it from reporting its use
    try:
        import nncf
    except ImportError as error:
        raise ValueError(
            "eight bits need NNCF, which is not installed: pip install -r "
            "requirements-openvino.txt"
        ) from error
    rows = list(_rows(path, examples_path))
    if not rows:
        raise ValueError(f"{examples_path} must have an example; it is empty")
    folder = os.path.join(path, openvino_model.FOLDER)
    model = openvino.Core().read_model(os.path.join(folder, openvino_model.MODEL_FILE))
    quantized = nncf.quantize(
        model,
        nncf.Dataset(rows),
        model_type=nncf.ModelType.TRANSFORMER,
        subset_size=len(rows),
    )
    settings = openvino_model.read_settings(path)
    with tempfile.TemporaryDirectory(dir=path) as unfinished:
        # What is read is mapped into memory, and must not be written over.
        settings = dataclasses.replace(settings, precision="int8")
        _save(openvino, quantized, settings, unfinished)
        shutil.rmtree(folder)
        os.rename(os.path.join(unfinished, openvino_model.FOLDER), folder)
    return len(rows)


def _save(openvino, model, settings: openvino_model.Settings, path: str) -> None:
    folder = os.path.join(path, openvino_model.FOLDER)
    files.make_folder(folder)
    # By default weights would be rounded to 16 bits.
    model_path = os.path.join(folder, openvino_model.MODEL_FILE)
    openvino.save_model(model, model_path, compress_to_fp16=False)
    settings_path = os.path.join(folder, openvino_model.SETTINGS_FILE)
    files.write_bytes(settings_path, json.dumps(dataclasses.asdict(settings)).encode())


def _save_encoder(encoder: encoder_lib.Encoder, path: str) -> None:
    """Writes the encoder as a SavedModel of ids, as OpenVINO reads it."""

    @tf.function(autograph=False)
    def encode(**texts):
        found = encoder(*(texts[name] for name in openvino_model.TEXTS))
        return {name: getattr(found, name) for name in openvino_model.OUTPUTS}

    specs = {
        name: tf.TensorSpec([None, None], tf.int32, name)
        for name in openvino_model.TEXTS
    }
    traced = encode.get_concrete_function(**specs)
    saved = tf.Module()
    saved.weights = list(traced.variables)
    tf.saved_model.save(saved, path, signatures={"encode": traced})


def _rows(path: str, examples_path: str) -> Iterator[dict[str, np.ndarray]]:
    """Yields the encoder's inputs for each example, a row at a time."""
    model = openvino_model.Model(path)
    encode = model.encoder
    taken: list[Sequence[np.ndarray]] = []

    def keep(rows: Sequence[np.ndarray]) -> openvino_model.Encoded:
        taken.append(rows)
        return encode(rows)

    model.encoder = keep  # type: ignore[assignment]
    name, form = predict.encoding_form(model)
    for fields in predict.read_examples(form, examples_path):
        form.ask(model.signatures[name], [fields])
        for rows in taken:
            for number in range(len(rows[0])):
                row = [values[number : number + 1] for values in rows]
                yield dict(zip(openvino_model.TEXTS, row, strict=True))
        taken.clear()
