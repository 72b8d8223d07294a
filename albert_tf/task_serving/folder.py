"""The folder of a fine-tuning run, as a serving."""

import os
from typing import Any

from albert_tf import checkpoint, models, task_folder, task_models, tokenization
from albert_tf import config as config_lib
from albert_tf.task_serving import base, choices, spans, texts, words

SERVINGS: dict[str, type[base.TaskServing]] = {
    "classification": texts.ClassificationServing,
    "regression": texts.RegressionServing,
    "token_classification": words.TokenClassificationServing,
    "span": spans.SpanServing,
    "answerable_span": spans.AnswerableSpanServing,
    "multiple_choice": choices.MultipleChoiceServing,
}


def load(
    model_dir: str,
    config: config_lib.Config,
    tokenizer: tokenization.Tokenizer,
    checkpoint_path: str = "",
    is_fixed_length: bool = False,
) -> tuple[base.FineTuned, str]:
    """What `SERVINGS` take of a fine-tuning run, and its checkpoint's path.

    Args:
      model_dir: what albert_tf.finetune wrote.
      config: of the run.
      tokenizer: of the run.
      checkpoint_path: which checkpoint; empty means the best, or the newest where none
        is named the best.
      is_fixed_length: as base.FineTuned has it.

    Raises:
      ValueError: a file is missing or damaged, or they do not fit each other.
    """
    task = task_folder.read_task(model_dir)
    model = _build(config, task, os.path.join(model_dir, task_folder.TASK_FILE))
    path = checkpoint_path or checkpoint.best_path(model_dir)
    path = path or checkpoint.newest_path(model_dir)
    checkpoint.restore_parts(path, model=model)
    trained = base.FineTuned(
        model,
        tokenizer,
        config.task,
        tuple(task["labels"]),
        task["calibration"].get("null_odds_threshold", 0.0),
        is_fixed_length,
    )
    return trained, path


def _build(
    config: config_lib.Config, task: dict[str, Any], path: str
) -> task_models.TaskModel:
    settings = task["head_settings"]
    num_labels, num_classes = len(task["labels"]), settings.get("num_classes")
    if num_classes is not None and num_classes != num_labels:
        raise ValueError(
            f"{path} must name each class; received {num_labels} labels for "
            f"{num_classes} classes. Copy it anew, or fine-tune again"
        )
    try:
        return task_models.build_task_model(
            config.model,
            task["kind"],
            config.train.seed,
            models.serving_form(config.train.compute_dtype),
            **settings,
        )
    except TypeError as error:  # an argument that the head does not take
        raise ValueError(
            f"{path} must hold head_settings that {task['kind']} takes; received "
            f"{settings!r}: {error}. Copy it anew, or fine-tune again"
        ) from error
