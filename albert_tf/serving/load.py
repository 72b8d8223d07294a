"""Loads the directory of a run for export: model, tokenizer and settings."""

import dataclasses
import os
from typing import Any

import tensorflow as tf

from albert_tf.checkpoints import checkpointer, run_vocab
from albert_tf.checkpoints import untrained as untrained_lib
from albert_tf.core import config as config_lib
from albert_tf.core import config_io, files, other_formats
from albert_tf.data import schema
from albert_tf.finetuning import results_reader, run_dir
from albert_tf.model import compute, encoder, pretraining_model, task_model
from albert_tf.serving import (
    multiple_choice,
    pretrained,
    question_answering,
    scaled_weights,
    signature,
    text_classification,
    token_classification,
)
from albert_tf.tokenization import tokenizer as tokenizer_lib

# By kind of task, a key of `task_model.HEADS`.
SERVINGS: dict[str, type[signature.TaskServing]] = {
    "classification": text_classification.ClassificationServing,
    "regression": text_classification.RegressionServing,
    "token_classification": token_classification.TokenClassificationServing,
    "span": question_answering.SpanServing,
    "answerable_span": question_answering.AnswerableSpanServing,
    "multiple_choice": multiple_choice.MultipleChoiceServing,
}
Serving = pretrained.PretrainedServing | signature.TaskServing


def load_serving(
    model_dir: str,
    checkpoint_path: str = "",
    compute_dtype: str | None = None,
    fixed_length: int | None = None,
    weights: str = config_lib.WEIGHTS[0],
    make_encoder: signature.MakeEncoder = scaled_weights.ScaledEncoder,
) -> tuple[Serving, str]:
    """Loads the model of a run with signatures that take strings.

    Args:
      model_dir: the run directory.
      checkpoint_path: which checkpoint; empty means the newest of a pre-training, and
        the best of a fine-tuning.
      compute_dtype: of the blocks; None means that of the run.
      fixed_length: in tokens, to which all texts are padded and cut; None means the
        longest text of a call, and the maximum of the run.
      weights: as in `checkpointer.weights_part`.
      make_encoder: as in `signature.ServableTask`.

    Returns:
      The module to save, and the path of its checkpoint.

    Raises:
      ValueError: the directory holds no run, its files do not match, or the length
        does not suit the model.
    """
    model_dir = results_reader.best_folder(model_dir)
    config, tokenizer = read_run(model_dir, compute_dtype, fixed_length)
    is_fixed_length = fixed_length is not None
    if config.task.name:
        task, path = load_task(
            model_dir, config, tokenizer, checkpoint_path, is_fixed_length, weights
        )
        task = dataclasses.replace(task, make_encoder=make_encoder)
        return SERVINGS[task.model.kind](task), path
    model, path = load_pretrained(model_dir, config, checkpoint_path, weights)
    length = config.data.max_seq_length
    module = pretrained.PretrainedServing(
        model,
        tokenizer,
        length,
        is_fixed_length,
        make_encoder,
        untrained_lib.of_run(model_dir, config),
    )
    return module, path


def load_encoder(
    model_dir: str, checkpoint_path: str = "", weights: str = config_lib.WEIGHTS[0]
) -> tuple[encoder.Encoder, str]:
    """Loads the encoder of a run, and returns it and the path of its checkpoint.

    Takes and raises what `load_serving` does.
    """
    model_dir = results_reader.best_folder(model_dir)
    config, _ = read_run(model_dir)
    # Its heads are not used, but only a whole model creates all variables.
    model = pretraining_model.build_pretraining_model(
        config.model, config.train.seed, compute.Compute(config.train.compute_dtype)
    )
    path = _checkpoint(model_dir, config, checkpoint_path)
    encoder_only = tf.train.Checkpoint(encoder=model.encoder)
    checkpointer.restore_parts(path, weights, model=encoder_only)
    return model.encoder, path


def load_pretrained(
    model_dir: str,
    config: config_lib.Config,
    checkpoint_path: str = "",
    weights: str = config_lib.WEIGHTS[0],
    form: compute.Compute | None = None,
) -> tuple[pretraining_model.PretrainingModel, str]:
    """Loads the model of a pre-training; returns it and its checkpoint's path.

    Args:
      model_dir: the run.
      config: of the run, with the dtype to compute in.
      checkpoint_path: one of its checkpoints; the newest if empty.
      weights: as in `checkpointer.weights_part`.
      form: how it computes; by default as an exported model.
    """
    model = pretraining_model.build_pretraining_model(
        config.model,
        config.train.seed,
        form or scaled_weights.serving_form(config.train.compute_dtype),
    )
    path = _checkpoint(model_dir, config, checkpoint_path)
    checkpointer.restore_parts(path, weights, model=model)
    return model, path


def load_task(
    model_dir: str,
    config: config_lib.Config,
    tokenizer: tokenizer_lib.Tokenizer,
    checkpoint_path: str = "",
    is_fixed_length: bool = False,
    weights: str = config_lib.WEIGHTS[0],
) -> tuple[signature.ServableTask, str]:
    """Loads the model of a fine-tuning; returns it and its checkpoint's path.

    Args:
      model_dir: a directory that albert_tf.finetune wrote.
      config: of the run.
      tokenizer: of the run.
      checkpoint_path: which checkpoint; empty means the best, or the newest if none is
        marked as the best.
      is_fixed_length: as in `signature.ServableTask`.
      weights: as in `checkpointer.weights_part`.

    Raises:
      ValueError: a file is missing or damaged, or they do not match.
    """
    task = run_dir.read_task(model_dir)
    model = _build(config, task, os.path.join(model_dir, run_dir.TASK_FILE))
    path = _checkpoint(model_dir, config, checkpoint_path)
    checkpointer.restore_parts(path, weights, model=model)
    servable = signature.ServableTask(
        model,
        tokenizer,
        config.task,
        tuple(task["labels"]),
        task["calibration"].get("null_odds_threshold", 0.0),
        is_fixed_length,
    )
    return servable, path


def read_run(
    model_dir: str, compute_dtype: str | None = None, fixed_length: int | None = None
) -> tuple[config_lib.Config, tokenizer_lib.Tokenizer]:
    """Reads configuration and tokenizer of a run, with two settings replaced.

    Args:
      model_dir: of one run.
      compute_dtype: as in `load_serving`.
      fixed_length: as in `load_serving`.

    Raises:
      ValueError: there is no run, its files do not match, or the length does not suit
        the model.
    """
    other_formats.refuse_exported(model_dir)
    config_path = os.path.join(model_dir, schema.CONFIG_FILE)
    if not files.exists(config_path):
        other_formats.refuse(model_dir)
        raise ValueError(
            "--model_dir must be a directory that albert_tf.pretrain or "
            f"albert_tf.finetune wrote; there is no {config_path}"
        )
    config = config_io.read(config_path)
    run_vocab.check(model_dir)
    tokenizer = tokenizer_lib.Tokenizer.from_file(
        os.path.join(model_dir, schema.VOCAB_FILE), config.data.lower_case
    )
    if tokenizer.vocab_size != config.model.vocab_size:
        raise ValueError(
            f"the vocabulary in {model_dir} has {tokenizer.vocab_size} pieces, but the "
            f"model has {config.model.vocab_size}; restore the vocabulary of the run"
        )
    compute_dtype = compute_dtype or config_lib.serving_dtype(
        config.train.compute_dtype
    )
    config = _with(config, "train", compute_dtype=compute_dtype)
    length = config.longest_sequence
    # Of another stage than the longest; nothing is packed here.
    packed = min(config.data.pack_sequences, config_lib.LONGEST_ROW // length)
    config = _with(config, "data", max_seq_length=length, pack_sequences=packed)
    if fixed_length:
        if fixed_length > config.model.max_positions:
            raise ValueError(
                "--fixed_length must be at most model.max_positions of the run, "
                f"{config.model.max_positions}; received {fixed_length}"
            )
        section = "task" if config.task.name else "data"
        config = _with(config, section, max_seq_length=fixed_length)
    return config, tokenizer


def _with(config: config_lib.Config, section: str, **changes: Any) -> config_lib.Config:
    """Returns a configuration with other settings in one section."""
    changed = dataclasses.replace(getattr(config, section), **changes)
    return dataclasses.replace(config, **{section: changed})


def _checkpoint(model_dir: str, config: config_lib.Config, path: str) -> str:
    """Returns `path`, or else the best checkpoint of a task's run, or the newest."""
    best = checkpointer.best_path(model_dir) if config.task.name else None
    return path or best or checkpointer.newest_path(model_dir)


def _build(
    config: config_lib.Config, task: dict[str, Any], path: str
) -> task_model.TaskModel:
    settings = task["head_settings"]
    num_labels, num_classes = len(task["labels"]), settings.get("num_classes")
    if num_classes is not None and num_classes != num_labels:
        raise ValueError(
            f"{path} must name each class; received {num_labels} labels for "
            f"{num_classes} classes. Copy it again, or fine-tune again"
        )
    try:
        return task_model.build_task_model(
            config.model,
            task["kind"],
            config.train.seed,
            scaled_weights.serving_form(config.train.compute_dtype),
            **settings,
        )
    except TypeError as error:  # an argument that the head does not take
        raise ValueError(
            f"{path} must hold head_settings that {task['kind']} takes; received "
            f"{settings!r}: {error}. Copy it again, or fine-tune again"
        ) from error
