"""Initialization of a fine-tuning run from a pre-trained one."""

import dataclasses
import os
from collections.abc import Iterable

import tensorflow as tf

from albert_tf.checkpoints import checkpointer, run_vocab, warm_start
from albert_tf.core import config as config_lib
from albert_tf.core import config_io, files
from albert_tf.data import schema
from albert_tf.finetuning import hyperparameters, results_reader
from albert_tf.model import task_model
from albert_tf.tokenization import tokenizer as tokenizer_lib


@dataclasses.dataclass(frozen=True)
class PretrainedRun:
    """The run whose weights fine-tuning starts from: pre-trained, or fine-tuned.

    Attributes:
      path: the prefix of its checkpoint.
      config: its configuration.
      vocab: its SentencePiece model.
      weights: which of its weights, as in `checkpointer.weights_part`.
    """

    path: str
    config: config_lib.Config
    vocab: bytes
    weights: str = config_lib.WEIGHTS[0]


def read_pretrained_run(
    init_checkpoint: str, weights: str = config_lib.WEIGHTS[0]
) -> PretrainedRun:
    """Finds checkpoint, configuration and vocabulary of a run.

    Args:
      init_checkpoint: a run directory, or the prefix of a checkpoint. For a directory,
        it is the newest checkpoint in pre-training, and the best one (of the best seed)
        in fine-tuning.
      weights: as in `checkpointer.weights_part`.

    Raises:
      ValueError: one of them is missing or damaged.
    """
    init_checkpoint = results_reader.best_folder(init_checkpoint)
    path = warm_start.checkpoint_path(init_checkpoint)
    found = {}
    for name in (schema.CONFIG_FILE, schema.VOCAB_FILE):
        beside = warm_start.find_beside(path, name)
        if beside is None:
            raise ValueError(
                f"--init_checkpoint must be of a run whose {name} is beside the "
                f"checkpoint or one level up; there is none for {path}"
            )
        found[name] = beside
    config_path = found[schema.CONFIG_FILE]
    config = config_io.read(config_path)
    if config.task.name and path != init_checkpoint:
        path = checkpointer.best_path(os.path.dirname(path)) or path
    run_vocab.check(os.path.dirname(found[schema.VOCAB_FILE]))
    vocab = files.read_bytes(found[schema.VOCAB_FILE])
    return PretrainedRun(path, config, vocab, weights)


def merge(
    recipe: config_lib.Config, pretrained: PretrainedRun, given: Iterable[str] = ()
) -> config_lib.Config:
    """Returns the recipe with the model, text and data settings of the run.

    Args:
      recipe: of a task. Its text and data settings are not used.
      pretrained: the run that fine-tuning starts from.
      given: the settings that --set gave, such as "data.lower_case".

    Raises:
      ValueError: a model setting of the recipe, or any setting of `given`, differs from
        the run's; or `given` has one of pre-training alone, or the model has fewer
        positions than the task needs.
    """
    for key in given:
        _check_given(key, recipe, pretrained)
    defaults, model = config_lib.ModelConfig(), pretrained.config.model
    rates = {
        name: getattr(recipe.model, name) for name in hyperparameters.MODEL_SETTINGS
    }
    for field in dataclasses.fields(model):
        ours, theirs = getattr(recipe.model, field.name), getattr(model, field.name)
        is_set = ours != getattr(defaults, field.name)
        if field.name not in rates and is_set and ours != theirs:
            raise ValueError(
                f"model.{field.name} is that of --init_checkpoint, {theirs}; received "
                f"{ours}. Omit it: only the dropout rates may differ"
            )
    if recipe.task.max_seq_length > model.max_positions:
        raise ValueError(
            "task.max_seq_length must not be larger than model.max_positions of "
            f"--init_checkpoint; received {recipe.task.max_seq_length} and "
            f"{model.max_positions}. Pass --set "
            f"task.max_seq_length={model.max_positions}"
        )
    return dataclasses.replace(
        recipe,
        model=dataclasses.replace(model, **rates),
        text=pretrained.config.text,
        data=pretrained.config.data,
    )


def _check_given(
    key: str, recipe: config_lib.Config, pretrained: PretrainedRun
) -> None:
    """Raises ValueError if a setting was given that would be ignored."""
    if key in hyperparameters.PRETRAINING_SETTINGS:
        raise ValueError(f"{key} is a setting of pre-training alone; omit it")
    if not hyperparameters.is_of_run(key):
        return
    section, _, name = key.partition(".")
    ours, theirs = (
        getattr(getattr(config, section), name)
        for config in (recipe, pretrained.config)
    )
    if ours == theirs:
        return
    advice = "Omit it"
    if name == "max_seq_length":
        advice = f"For the length of the task's rows --set task.max_seq_length={ours}"
    elif section == "model":
        advice += ": only the dropout rates may differ"
    raise ValueError(
        f"{key} is that of --init_checkpoint, {theirs}; received {ours}. {advice}"
    )


def make_tokenizer(pretrained: PretrainedRun) -> tokenizer_lib.Tokenizer:
    """Creates the tokenizer of the run.

    Raises:
      ValueError: vocabulary and model differ in size.
    """
    tokenizer = tokenizer_lib.Tokenizer(
        pretrained.vocab, pretrained.config.data.lower_case
    )
    expected = pretrained.config.model.vocab_size
    if tokenizer.vocab_size != expected:
        raise ValueError(
            f"the {schema.VOCAB_FILE} of {pretrained.path} has "
            f"{tokenizer.vocab_size} pieces, but its model has {expected}; restore the "
            "file of that run"
        )
    return tokenizer


def restore_encoder(
    model: task_model.TaskModel, pretrained: PretrainedRun
) -> list[str]:
    """Restores the encoder; the head keeps its random weights.

    Returns:
      A line for the log.

    Raises:
      ValueError: the checkpoint is damaged or does not fit.
    """
    # Without the heads and the optimizer.
    encoder = tf.train.Checkpoint(encoder=model.encoder)
    checkpointer.restore_parts(pretrained.path, pretrained.weights, model=encoder)
    return [
        f"{len(model.encoder.variables)} variables of the encoder restored from "
        f"{pretrained.path}; the head is new"
    ]
