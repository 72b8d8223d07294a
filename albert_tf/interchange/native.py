"""Run directories of pre-training and fine-tuning: the native format."""

import dataclasses
import os
from collections.abc import Collection, Iterator, Mapping

import numpy as np
import tensorflow as tf

from albert_tf.checkpoints import checkpointer as checkpointer_lib
from albert_tf.checkpoints import run_vocab
from albert_tf.checkpoints import untrained as untrained_lib
from albert_tf.core import config as config_lib
from albert_tf.core import config_io, files, task_config
from albert_tf.data import schema
from albert_tf.finetuning import results_reader, run_dir
from albert_tf.interchange import (
    io,
    portable,
    weight_files,
    weight_map,
    weight_names,
)
from albert_tf.model import pretraining_model, task_model
from albert_tf.optim import optimizers
from albert_tf.tasks import registry
from albert_tf.training import loops, objectives

# The task of a fine-tuned model from another library, which reads a user's own files.
_TASK_OF_KIND = {
    "classification": "table",
    "regression": "table",
    "token_classification": "conll",
    "span": "squad1",
    "answerable_span": "squad2",
    "multiple_choice": "race",
}
_CONVERTED = "converted"


def read(
    path: str, options: portable.ReadOptions, report: weight_map.ConversionReport
) -> portable.PortableModel:
    """Reads a run: the newest checkpoint of a pre-training, the best of a fine-tuning.

    Args:
      path: the run directory.
      options: which weights.
      report: gets a line with the checkpoint.

    Raises:
      ValueError: there is no run, or it is damaged.
    """
    folder = results_reader.best_folder(path)
    config_path = os.path.join(folder, schema.CONFIG_FILE)
    if not files.exists(config_path):
        raise ValueError(
            f"{path} must be a directory that albert_tf.pretrain, albert_tf.finetune "
            f"or albert_tf.convert wrote; there is no {config_path}"
        )
    config = config_io.read(config_path)
    run_vocab.check(folder)
    vocab = io.read_vocab(
        os.path.join(folder, schema.VOCAB_FILE), config.model.vocab_size
    )
    found = _checkpoint(folder, config, config_path)
    head, moments = None, None
    model: tf.Module
    if config.task.name:
        described = run_dir.read_task(folder)
        settings = dict(described["head_settings"])
        # Only a head with a score for each class has labels.
        has_classes = settings.pop("num_classes", None) is not None
        labels = tuple(described["labels"]) if has_classes else ()
        dropout_rate = settings.pop("dropout_rate", 0.0)
        head = portable.TaskHeadConfig(
            described["kind"], labels, dropout_rate, settings
        )
        model = _task_model(config, head)
        checkpointer_lib.restore_parts(found, options.weights, model=model)
    else:
        model = pretraining_model.build_pretraining_model(
            config.model, config.train.seed
        )
        checkpointer_lib.restore_parts(found, options.weights, model=model)
        if checkpointer_lib.has_part(found, "optimizer"):
            adam = _optimizer(config, model)
            checkpointer_lib.restore_parts(found, optimizer=adam)
            moments = _moments_of(adam, model)
    report.say(f"read {found}")
    if checkpointer_lib.weights_part(found, options.weights) == (
        checkpointer_lib.AVERAGE
    ):
        report.say("  its averaged weights are taken (train.ema_decay)")
    weights = {name: variable.numpy() for name, variable in variables(model, head)}
    if head is None:
        _omit_untrained(weights, untrained_lib.of_run(folder, config), report)
    return portable.PortableModel(
        config=config.model,
        weights=weights,
        lower_case=config.data.lower_case,
        vocab=vocab,
        head=head,
        moments=moments,
        step=checkpointer_lib.step_of(found),
    )


def _omit_untrained(
    weights: dict[str, np.ndarray],
    untrained: Collection[str],
    report: weight_map.ConversionReport,
) -> None:
    names = [name for name in weights if portable.part_of(name) in untrained]
    for name in names:
        del weights[name]
    if names:
        report.say(f"  omitted, never trained: {weight_map.listed(names)}")


def _checkpoint(folder: str, config: config_lib.Config, config_path: str) -> str:
    """Returns the prefix of the checkpoint to read, which is large enough to hold it.

    Raises:
      ValueError: there is none, or it is too small.
    """
    best = checkpointer_lib.best_path(folder) if config.task.name else None
    found = best or checkpointer_lib.newest_path(folder)
    if paths := weight_files.of_checkpoint(found):  # else restoring it says so
        weight_files.require_size(config.model, config_path, paths)
    return found


def write(
    model: portable.PortableModel,
    folder: str,
    recipe: config_lib.Config,
    report: weight_map.ConversionReport,
) -> None:
    """Writes a run directory for pre-training, fine-tuning and export.

    Weights that the model lacks are initialized randomly, and reported.

    Args:
      model: what to write.
      folder: an empty one.
      recipe: the settings that the model does not have.
      report: gets a line for weights that were initialized.

    Raises:
      ValueError: there is no vocabulary, or a setting of the recipe does not fit.
    """
    length = min(recipe.data.max_seq_length, model.config.max_positions)
    lower_case = model.lower_case
    if lower_case is None:
        lower_case = recipe.data.lower_case
        report.say(
            f"  the format does not say whether texts are lower-cased: data.lower_case="
            f"{str(lower_case).lower()} is taken, which --set changes"
        )
    config = dataclasses.replace(
        recipe,
        model=model.config,
        data=dataclasses.replace(
            recipe.data, lower_case=lower_case, max_seq_length=length
        ),
    )
    if model.head is not None:
        _write_task(model, model.head, folder, config, report)
    else:
        _write_pretraining(model, folder, config, report)


def _write_pretraining(
    model: portable.PortableModel,
    folder: str,
    config: config_lib.Config,
    report: weight_map.ConversionReport,
) -> None:
    if config.task.name:
        raise ValueError(
            "a model without a head becomes a run of pre-training, whose recipe has no "
            f"task.name; --config has {config.task.name!r}. Give that recipe to "
            "albert_tf.finetune afterwards"
        )
    network = pretraining_model.build_pretraining_model(config.model, config.train.seed)
    missing = _assign(network, model, report)
    untrained_lib.write(folder, {portable.part_of(name) for name in missing})
    parts: dict[str, object] = {"model": network}
    if model.moments is None:
        report.say(
            "  weights only, without an optimizer's slots: other runs start from them "
            "by --init_checkpoint; as --model_dir this one cannot be resumed"
        )
    else:
        parts |= _training_state(network, model.moments, model.step, config)
    run_vocab.write(folder, model.vocab_for("a run"))
    _save(folder, parts, model.step)
    files.write_bytes(
        os.path.join(folder, schema.CONFIG_FILE), config_io.to_json(config).encode()
    )


def _training_state(
    network, moments: portable.Moments, step: int, config: config_lib.Config
) -> dict[str, object]:
    """The parts of a checkpoint from which training resumes."""
    adam = _optimizer(config, network)
    _assign_moments(adam, network, moments)
    adam.iterations.assign(step)
    objective = objectives.PretrainingObjective(config.data.pair_loss)
    state = loops.TrainState(objective, config.train.num_streams or 1)
    state.row_step.assign(step)
    return {"optimizer": adam, "loop": state}


def _write_task(
    model: portable.PortableModel,
    head: portable.TaskHeadConfig,
    folder: str,
    config: config_lib.Config,
    report: weight_map.ConversionReport,
) -> None:
    own = dict(head.settings)  # num_starts and num_ends, also settings of the task
    if head.kind in task_config.TABLE_KINDS:
        own["kind"] = head.kind
    # At most the model's positions; a question or option takes at most half of them.
    length = min(config.task.max_seq_length, model.config.max_positions)
    settings = dataclasses.replace(
        config.task,
        name=_TASK_OF_KIND[head.kind],
        classifier_dropout_rate=head.dropout_rate,
        max_seq_length=length,
        max_query_length=min(config.task.max_query_length, length // 2),
        max_option_length=min(config.task.max_option_length, length // 2),
        **own,
    )
    config = dataclasses.replace(config, task=settings)
    task = registry.create(settings, head.labels)
    network = _task_model(config, head)
    _assign(network, model, report)
    if model.moments is not None:
        report.say("  omitted: the optimizer's slots, with which no fine-tuning begins")
    run_dir.write(config, model.vocab_for("a run"), task, _CONVERTED, "", folder)
    _save(folder, {"model": network}, model.step)
    report.say(
        f'the task is "{settings.name}": fine-tuning, evaluation and export treat the '
        "directory as a run of it"
    )


def _save(folder: str, parts: Mapping[str, object], step: int) -> None:
    checkpointer = checkpointer_lib.Checkpointer(folder, 1, parts, is_chief=True)
    checkpointer.save(step, wait=True)


# ---- Networks ----


def _task_model(
    config: config_lib.Config, head: portable.TaskHeadConfig
) -> task_model.TaskModel:
    settings = dict(head.settings)
    if head.kind in ("classification", "token_classification"):
        settings["num_classes"] = len(head.labels)
    if head.kind != "span":
        settings["dropout_rate"] = head.dropout_rate
    return task_model.build_task_model(
        config.model, head.kind, config.train.seed, **settings
    )


def _optimizer(config: config_lib.Config, model) -> optimizers.AdamW:
    adam = optimizers.create(config.optimizer, config.train.num_steps)
    adam.build(model.trainable_variables)
    return adam


def variables(
    model, head: portable.TaskHeadConfig | None
) -> Iterator[tuple[str, tf.Variable]]:
    """Weights by name; those that blocks share, under the name of each block."""
    last = (portable.HEAD,) if head else (portable.MASKED_LM, portable.SENTENCE_ORDER)
    parts = (portable.ENCODER, portable.POOLER, *last)
    for name in weight_names.shapes_of(model.encoder.config, parts, head):
        yield name, by_path(model, name)


def by_path(model, name: str) -> tf.Variable:
    """The variable at the end of a path of attributes and indices."""
    value = model
    for part in name.split("/"):
        value = value[int(part)] if part.isdigit() else getattr(value, part)
    return value


def _assign(
    network, model: portable.PortableModel, report: weight_map.ConversionReport
) -> list[str]:
    """Assigns a network its weights; reports and returns those that are missing."""
    missing = []
    for name, variable in variables(network, model.head):
        if name in model.weights:
            variable.assign(model.weights[name])
        else:
            missing.append(name)
    if missing:
        report.say(
            "  initialized randomly, since the other format has none: "
            f"{weight_map.listed(missing)}. Heads among them answer nothing"
        )
    return missing


def _moments_of(adam: optimizers.AdamW, network) -> portable.Moments:
    first, second = {}, {}
    for name, slots in _slots(adam, network):
        first[name], second[name] = (slot.numpy() for slot in slots)
    return portable.Moments(first, second)


def _assign_moments(adam: optimizers.AdamW, network, moments: portable.Moments) -> None:
    for name, slots in _slots(adam, network):
        if name in moments.first:
            slots.m.assign(moments.first[name])
            slots.v.assign(moments.second[name])


def _slots(adam: optimizers.AdamW, network) -> Iterator[tuple[str, optimizers.Slots]]:
    """The optimizer's slots by the names of the weights of a pre-training."""
    for name, variable in variables(network, None):
        yield name, adam.slots_of(variable)
