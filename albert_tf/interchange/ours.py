"""Our own folders: of a pre-training, or of a fine-tuning."""

import dataclasses
import os
from collections.abc import Iterator, Mapping

import tensorflow as tf

from albert_tf import (
    checkpoint,
    files,
    models,
    objectives,
    optimizer,
    schema,
    task_config,
    task_folder,
    task_models,
    task_runs,
    train_loop,
)
from albert_tf import config as config_lib
from albert_tf.interchange import folders, names, portable, tables
from albert_tf.tasks import catalog

# The task that a head of another library becomes: one's own files.
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
    path: str, options: portable.ReadOptions, report: tables.Report
) -> portable.Portable:
    """Reads a run: the newest checkpoint of a pre-training, the best of a fine-tuning.

    Args:
      path: the folder.
      options: has nothing to add here.
      report: is told what was read.

    Raises:
      ValueError: it holds no run, or is damaged.
    """
    del options
    folder = task_runs.best_folder(path)
    config_path = os.path.join(folder, schema.CONFIG_FILE)
    if not files.exists(config_path):
        raise ValueError(
            f"{path} must be a folder that albert_tf.pretrain, albert_tf.finetune or "
            f"albert_tf.convert wrote; there is no {config_path}"
        )
    try:
        config = config_lib.from_json(files.read_bytes(config_path).decode())
    except ValueError as error:
        raise ValueError(f"{config_path}: {error}") from error
    vocab = folders.read_vocab(
        os.path.join(folder, schema.VOCAB_FILE), config.model.vocab_size
    )
    head, moments = None, None
    model: tf.Module
    if config.task.name:
        described = task_folder.read_task(folder)
        settings = dict(described["head_settings"])
        # Only where the head has a score for each class are they its labels.
        has_classes = settings.pop("num_classes", None) is not None
        labels = tuple(described["labels"]) if has_classes else ()
        dropout_rate = settings.pop("dropout_rate", 0.0)
        head = portable.TaskHead(described["kind"], labels, dropout_rate, settings)
        model = _task_model(config, head)
        found = checkpoint.best_path(folder) or checkpoint.newest_path(folder)
        checkpoint.restore_parts(found, model=model)
    else:
        model = models.build_pretraining_model(config.model, config.train.seed)
        adam = _optimizer(config, model)
        found = checkpoint.newest_path(folder)
        checkpoint.restore_parts(found, model=model, optimizer=adam)
        moments = _moments_of(adam, model)
    report.say(f"read {found}")
    weights = {name: variable.numpy() for name, variable in variables(model, head)}
    return portable.Portable(
        config=config.model,
        weights=weights,
        lower_case=config.data.lower_case,
        vocab=vocab,
        head=head,
        moments=moments,
        step=checkpoint.step_of(found),
    )


def write(
    model: portable.Portable,
    folder: str,
    recipe: config_lib.Config,
    report: tables.Report,
) -> None:
    """Writes a folder that pre-training, fine-tuning and export take.

    Weights that the model lacks are drawn, and the report says so.

    Args:
      model: what to write.
      folder: an empty one.
      recipe: gives the settings that the model does not.
      report: is told what was drawn.

    Raises:
      ValueError: there is no vocabulary, or a setting of the recipe does not fit.
    """
    length = min(recipe.data.max_seq_length, model.config.max_positions)
    config = dataclasses.replace(
        recipe,
        model=model.config,
        data=dataclasses.replace(
            recipe.data, lower_case=model.lower_case, max_seq_length=length
        ),
    )
    if model.head is not None:
        _write_task(model, model.head, folder, config, report)
    else:
        _write_pretraining(model, folder, config, report)


def _write_pretraining(
    model: portable.Portable,
    folder: str,
    config: config_lib.Config,
    report: tables.Report,
) -> None:
    vocab = _vocab(model)
    network = models.build_pretraining_model(config.model, config.train.seed)
    _assign(network, model, report)
    adam = _optimizer(config, network)
    if model.moments is not None:
        _assign_moments(adam, network, model.moments)
        adam.iterations.assign(model.step)
    objective = objectives.PretrainingObjective(config.data.pair_loss)
    state = train_loop.LoopState(objective, config.train.num_streams or 1)
    state.row_step.assign(model.step)
    parts = {"model": network, "optimizer": adam, "loop": state}
    files.write_bytes(os.path.join(folder, schema.VOCAB_FILE), vocab)
    _save(folder, parts, model.step)
    files.write_bytes(
        os.path.join(folder, schema.CONFIG_FILE), config_lib.to_json(config).encode()
    )


def _write_task(
    model: portable.Portable,
    head: portable.TaskHead,
    folder: str,
    config: config_lib.Config,
    report: tables.Report,
) -> None:
    own = dict(head.settings)  # num_starts and num_ends, which are the task's too
    if head.kind in task_config.TABLE_KINDS:
        own["kind"] = head.kind
    # No longer than the model's positions, and a question leaves half of that.
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
    task = catalog.create(settings, head.labels)
    network = _task_model(config, head)
    _assign(network, model, report)
    task_folder.write(config, _vocab(model), task, _CONVERTED, "", folder)
    _save(folder, {"model": network}, model.step)
    report.say(
        f'the task is "{settings.name}": fine-tuning, evaluation and export take the '
        "folder as one of that"
    )


def _save(folder: str, parts: Mapping[str, object], step: int) -> None:
    checkpointer = checkpoint.Checkpointer(folder, 1, parts, writes=True)
    checkpointer.save(step, wait=True)


def _vocab(model: portable.Portable) -> bytes:
    if model.vocab is None:
        raise ValueError(
            "a run needs its vocabulary, and none was found beside the model: pass "
            "--vocab_model=FILE, the SentencePiece model that belongs to it"
        )
    return model.vocab


# ---- Networks ----


def _task_model(
    config: config_lib.Config, head: portable.TaskHead
) -> task_models.TaskModel:
    settings = dict(head.settings)
    if head.kind in ("classification", "token_classification"):
        settings["num_classes"] = len(head.labels)
    if head.kind != "span":
        settings["dropout_rate"] = head.dropout_rate
    return task_models.build_task_model(
        config.model, head.kind, config.train.seed, **settings
    )


def _optimizer(config: config_lib.Config, model) -> optimizer.AdamW:
    adam = optimizer.create(config.optimizer, config.train.num_steps)
    adam.build(model.trainable_variables)
    return adam


def variables(
    model, head: portable.TaskHead | None
) -> Iterator[tuple[str, tf.Variable]]:
    """Our weights by name, those that blocks share under the name of each block."""
    last = (portable.HEAD,) if head else (portable.MASKED_LM, portable.SENTENCE_ORDER)
    parts = (portable.ENCODER, portable.POOLER, *last)
    for name in names.shapes_of(model.encoder.config, parts, head):
        yield name, by_path(model, name)


def by_path(model, name: str) -> tf.Variable:
    """The variable at the end of a path of attributes and indices."""
    value = model
    for part in name.split("/"):
        value = value[int(part)] if part.isdigit() else getattr(value, part)
    return value


def _assign(network, model: portable.Portable, report: tables.Report) -> None:
    """Gives a network its weights, and says which were not there."""
    drawn = []
    for name, variable in variables(network, model.head):
        if name in model.weights:
            variable.assign(model.weights[name])
        else:
            drawn.append(name)
    if drawn:
        report.say(
            f"  drawn anew, since the other format has none: {tables.listed(drawn)}"
        )


def _moments_of(adam: optimizer.AdamW, network) -> portable.Moments:
    first, second = {}, {}
    for name, slots in _slots(adam, network):
        first[name], second[name] = (slot.numpy() for slot in slots)
    return portable.Moments(first, second)


def _assign_moments(adam: optimizer.AdamW, network, moments: portable.Moments) -> None:
    for name, slots in _slots(adam, network):
        if name in moments.first:
            slots.first.assign(moments.first[name])
            slots.second.assign(moments.second[name])


def _slots(adam: optimizer.AdamW, network) -> Iterator[tuple[str, optimizer.Slots]]:
    """The optimizer's slots by the names of the weights of a pre-training."""
    for name, variable in variables(network, None):
        yield name, adam.slots_of(variable)
