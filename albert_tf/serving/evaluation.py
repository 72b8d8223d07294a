"""Evaluation of fine-tuned models as exported: another dtype, OpenVINO, TF Lite."""

import os
from typing import Any

import tensorflow as tf

from albert_tf.core import checksums, cli, files
from albert_tf.core import config as config_lib
from albert_tf.data import schema
from albert_tf.finetuning import evaluation, run_dir
from albert_tf.inference import openvino_model, saved_model_dir
from albert_tf.model import encoder as encoder_lib
from albert_tf.serving import scaled_weights, tflite


def evaluate_compute_dtype(
    compute_dtype: str,
    model_dir: str,
    data_dir: str,
    split: str,
    output_dir: str,
    checkpoint_path: str = "",
    strategy_kind: str = "auto",
    tpu: str = "",
    weights: str = config_lib.WEIGHTS[0],
) -> dict[str, Any]:
    """Evaluates a checkpoint as a model that is exported with a compute dtype.

    Other arguments, result and errors as for `evaluation.evaluate_checkpoint`.
    """
    return evaluation.evaluate_checkpoint(
        model_dir,
        data_dir,
        split,
        output_dir,
        checkpoint_path,
        strategy_kind,
        tpu,
        scaled_weights.serving_form(compute_dtype),
        scaled_weights.ScaledEncoder,
        weights,
    )


def evaluate_exported(
    engine: str,
    exported_dir: str,
    model_dir: str,
    data_dir: str,
    split: str,
    output_dir: str,
) -> dict[str, Any]:
    """Evaluates an exported model on this machine, with the engine that computes it.

    Args:
      engine: one of `ENGINES`.
      exported_dir: directory that albert_tf.export --form=ENGINE wrote of the run.
      model_dir: directory of the run, or of one of its seeds.
      data_dir: directory of the task's files.
      split: such as "dev".
      output_dir: another directory.

    Returns:
      The content of results.json.

    Raises:
      ValueError: directories or data do not fit, or a file is not the one that was
        exported.
    """
    cli.check_output_dir(output_dir, [model_dir])
    checksums.check(exported_dir)
    evaluate = ENGINES[engine]
    return evaluate(exported_dir, model_dir, data_dir, split, output_dir)


def _evaluate_tflite(
    lite_dir: str, model_dir: str, data_dir: str, split: str, output_dir: str
) -> dict[str, Any]:
    model = tflite.LiteModel(lite_dir)
    _check_same_task(model_dir, lite_dir)
    split_evaluation = evaluation.SplitEvaluation(model_dir, data_dir, split, lite_dir)
    predict = tflite.make_predict(
        model,
        split_evaluation.batcher(is_fixed_length=True),
        split_evaluation.run.config.train.eval_batch_size,
    )
    return split_evaluation.write(predict(), output_dir)


def _evaluate_openvino(
    openvino_dir: str, model_dir: str, data_dir: str, split: str, output_dir: str
) -> dict[str, Any]:
    engine = openvino_model.Encoder(openvino_dir)
    _check_same_task(model_dir, os.path.join(openvino_dir, saved_model_dir.EXTRA))
    return evaluation.evaluate_checkpoint(
        model_dir,
        data_dir,
        split,
        output_dir,
        # The head's weights are those that were exported.
        os.path.join(model_dir, engine.settings.checkpoint),
        compute=scaled_weights.serving_form("float32"),
        make_encoder=lambda encoder: _ExportedEncoder(engine),
        weights=engine.settings.weights,
    )


# By the name of the form of export, and of the flag of albert_tf.evaluate.
ENGINES = {"lite": _evaluate_tflite, "openvino": _evaluate_openvino}


class _ExportedEncoder:
    """An encoder that OpenVINO computes on this CPU, called in a graph."""

    def __init__(self, engine: openvino_model.Encoder):
        self._engine = engine

    def __call__(
        self, input_ids, input_mask, segment_ids
    ) -> encoder_lib.EncoderOutputs:
        """Encodes a batch, as `Encoder.call` does."""
        texts = (input_ids, input_mask, segment_ids)
        sequence, pooled = tf.numpy_function(
            lambda *rows: tuple(self._engine(rows)), texts, [tf.float32, tf.float32]
        )
        size = self._engine.settings.hidden_size
        sequence = tf.ensure_shape(sequence, [*texts[0].shape, size])
        pooled = tf.ensure_shape(pooled, [texts[0].shape[0], size])
        return encoder_lib.EncoderOutputs(sequence, (sequence,), sequence, pooled)

    def pooled_output(self, input_ids, input_mask, segment_ids):
        """Returns that of the call: OpenVINO computes all outputs."""
        return self(input_ids, input_mask, segment_ids).pooled_output


def _check_same_task(model_dir: str, exported_dir: str) -> None:
    """Raises ValueError if a model was not exported from the run."""
    for name in (run_dir.TASK_FILE, schema.VOCAB_FILE):
        ours, other = (
            files.read_bytes(os.path.join(folder, name))
            for folder in (model_dir, exported_dir)
        )
        if ours != other:
            raise ValueError(
                f"the model must be exported from --model_dir; {name} differs between "
                f"{exported_dir} and {model_dir}"
            )
