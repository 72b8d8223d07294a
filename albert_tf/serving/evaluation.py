"""Evaluation of fine-tuned models as exported: in another dtype, or TensorFlow Lite."""

import os
from typing import Any

from albert_tf.core import cli, files
from albert_tf.core import config as config_lib
from albert_tf.data import schema
from albert_tf.finetuning import evaluation, run_dir
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
        lambda model: scaled_weights.ScaledEncoder(model.encoder),
        weights,
    )


def evaluate_tflite(
    lite_dir: str, model_dir: str, data_dir: str, split: str, output_dir: str
) -> dict[str, Any]:
    """Evaluates a TensorFlow Lite model on this machine.

    Args:
      lite_dir: directory that albert_tf.export --form=lite wrote of the run.
      model_dir: directory of the run, or of one of its seeds.
      data_dir: directory of the task's files.
      split: such as "dev".
      output_dir: another directory.

    Returns:
      The content of results.json.

    Raises:
      ValueError: directories or data do not fit.
    """
    cli.check_output_dir(output_dir, [model_dir])
    model = tflite.LiteModel(lite_dir)
    _check_same_task(model_dir, lite_dir)
    split_evaluation = evaluation.SplitEvaluation(model_dir, data_dir, split, lite_dir)
    predict = tflite.make_predict(
        model,
        split_evaluation.batcher(is_fixed_length=True),
        split_evaluation.run.config.train.eval_batch_size,
    )
    return split_evaluation.write(predict(), output_dir)


def _check_same_task(model_dir: str, lite_dir: str) -> None:
    """Raises ValueError if a model was not exported from the run."""
    for name in (run_dir.TASK_FILE, schema.VOCAB_FILE):
        ours, other = (
            files.read_bytes(os.path.join(folder, name))
            for folder in (model_dir, lite_dir)
        )
        if ours != other:
            raise ValueError(
                f"--lite must be exported from --model_dir; {name} differs between "
                f"{lite_dir} and {model_dir}"
            )
