"""Warm starts: the weights, and nothing else, of another run.

Two tables may differ in their rows. Rows of the vocabulary are matched by the text of
the pieces, rows of positions by number; rows without a counterpart keep their initial
values. Everything else must fit exactly.
"""

import contextlib
import dataclasses
import os
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from albert_tf.checkpoints import checkpointer
from albert_tf.core import checkpoint_prefix, config_io, files, other_formats
from albert_tf.core import config as config_lib
from albert_tf.data import schema
from albert_tf.model import pretraining_model
from albert_tf.tokenization import tokenizer as tokenizer_lib

_SUFFIX = "/.ATTRIBUTES/VARIABLE_VALUE"
_NUM_EXAMPLES = 5
# Settings that decide which variables exist, rather than their shapes.
_DECIDED_BY = {
    "encoder/blocks/": (
        "model.sharing",
        "model.num_groups",
        "model.num_inner_groups",
        "model.num_layers",
    ),
    "encoder/embedding_projection/": ("model.embedding_size", "model.hidden_size"),
}
_SIZES = ("embedding_size", "hidden_size", "intermediate_size", "type_vocab_size")
# Differences in these are reported with the rows of tables.
_SAID_OF_ROWS = ("vocab_size", "max_positions")


class _Rows(NamedTuple):
    """Row `there[i]` of a table in the checkpoint is row `here[i]` of the model's."""

    there: np.ndarray  # int64 [rows taken]
    here: np.ndarray  # int64 [rows taken]


class _Misfit(NamedTuple):
    """A variable whose shape differs there and here; None if it is absent."""

    name: str
    there: list[int] | None
    here: list[int] | None


def restore_weights(
    model: pretraining_model.PretrainingModel,
    init_checkpoint: str,
    vocab: bytes,
    weights: str = config_lib.WEIGHTS[0],
) -> list[str]:
    """Assigns the weights of another run to `model`.

    Nothing is assigned before everything is found to fit, but damage of a checkpoint
    may show only after half of it is read.

    Args:
      model: with all variables initialized; they may be distributed.
      init_checkpoint: a run's directory, for its newest checkpoint, or a checkpoint's
        prefix such as RUN/model.ckpt-500; local or remote. The run's vocabulary must
        be beside the checkpoint or one level up. So should its config.json, which has
        the settings that no shape shows.
      vocab: the SentencePiece model whose ids `model` will receive.
      weights: as in `checkpointer.weights_part`.

    Returns:
      Lines for the log: what was restored, what is new, and what is omitted.

    Raises:
      ValueError: the checkpoint is absent or damaged, does not fit the model, or has no
        vocabulary beside it.
    """
    path = checkpoint_path(init_checkpoint)
    with naming_damage(path):
        reader = tf.train.load_checkpoint(path)
        part = checkpointer.weights_part(path, weights)
        stored = _stored_shapes(reader, part)
    words = model.encoder.embeddings.word_embeddings  # [V, E]
    positions = model.encoder.embeddings.position_embeddings  # [max_positions, E]
    output_bias = model.masked_lm.output_bias  # [V]
    tables = {id(table) for table in (words, positions, output_bias)}
    pairs = _pair(model, stored, tables, path)
    num_rows = {
        id(variable): stored[name][0]
        for name, variable in pairs
        if id(variable) in tables
    }

    lines = [f"warm start: {len(pairs)} variables restored from {path}"]
    if part == checkpointer.AVERAGE:
        lines.append("they are the average of the weights (train.ema_decay)")
    lines += _setting_lines(path, model.encoder.config)
    pieces, more = _match_pieces(path, vocab, num_rows[id(words)], words.shape[0])
    lines += more
    numbers, more = _match_positions(num_rows[id(positions)], positions.shape[0])
    lines += more
    lines.append("weights only: optimizer and step start from zero")

    rows = {id(words): pieces, id(output_bias): pieces, id(positions): numbers}
    for name, variable in pairs:
        with naming_damage(path):
            value = reader.get_tensor(f"{part}/{name}{_SUFFIX}")
        if id(variable) in rows:
            there, here = rows[id(variable)]
            table = np.array(variable.numpy())
            table[here] = value[there]
            value = table
        variable.assign(value)
    return lines


def checkpoint_path(init_checkpoint: str, flag: str = "--init_checkpoint") -> str:
    """Returns the prefix of the checkpoint that a flag names.

    Args:
      init_checkpoint: the flag's value, as in `restore_weights`.
      flag: its name, for errors.

    Raises:
      ValueError: there is none.
    """
    rule = (
        f"{flag} must be the directory of a run, or the prefix of a checkpoint such "
        "as RUN/model.ckpt-500"
    )
    with naming_damage(init_checkpoint):
        if files.is_folder(init_checkpoint):
            other_formats.refuse_exported(init_checkpoint)
            path = tf.train.latest_checkpoint(init_checkpoint)
            if path is None:
                named = os.path.join(init_checkpoint, schema.CHECKPOINT_FILE)
                if files.exists(named):
                    files.read_bytes(named)  # TensorFlow returns None in an outage
                raise ValueError(f"{rule}; {init_checkpoint} holds no checkpoint")
            return path
        if not checkpoint_prefix.exists(init_checkpoint):
            missing = checkpoint_prefix.say_missing(init_checkpoint)
            raise ValueError(f"{rule}; {missing}")
    return init_checkpoint


@contextlib.contextmanager
def naming_damage(path: str) -> Iterator[None]:
    """Raises TensorFlow's errors for damaged files as one line."""
    try:
        yield
    except (tf.errors.OpError, IndexError, MemoryError, UnicodeDecodeError) as error:
        # A damaged index may ask for more memory than any machine has.
        if checkpointer.is_unreachable(error):
            raise
        reason = str(error).strip().split("\n")[0]
        raise ValueError(
            f"the checkpoint {path} cannot be read: {reason}. It is damaged, or parts "
            "of it are missing; give another one, or copy it again"
        ) from error


# ---- Matching variables ----


def _stored_shapes(reader, part: str) -> dict[str, list[int]]:
    """Returns name and shape of each variable of a part of a checkpoint."""
    return {
        key.removeprefix(f"{part}/").removesuffix(_SUFFIX): list(shape)
        for key, shape in reader.get_variable_to_shape_map().items()
        if key.startswith(f"{part}/") and key.endswith(_SUFFIX)
    }


def _named_variables(
    model: pretraining_model.PretrainingModel,
) -> list[tuple[Any, list[str]]]:
    """Returns each variable once, with all its names: a shared one has several.

    A checkpoint uses one of these names; TensorFlow chooses it.
    """
    view = tf.train.TrackableView(model)
    found: dict[int, tuple[Any, list[str]]] = {}
    todo = [("", model)]
    while todo:
        name, owner = todo.pop()
        if isinstance(owner, tf.Variable):
            found.setdefault(id(owner), (owner, []))[1].append(name.strip("/"))
            continue
        children = view.children(owner).items()
        todo += [(f"{name}/{child}", value) for child, value in children]
    return [(variable, sorted(names)) for variable, names in found.values()]


def _pair(
    model: pretraining_model.PretrainingModel,
    stored: dict[str, list[int]],
    tables: set[int],
    path: str,
) -> list[tuple[str, Any]]:
    """Returns pairs of a name in the checkpoint and its variable in the model.

    Args:
      model: its variables are matched.
      stored: names and shapes in the checkpoint.
      tables: ids of the variables that may have any number of rows.
      path: of the checkpoint, for errors.
    """
    unclaimed = dict(stored)
    pairs, misfits = [], []
    for variable, names in _named_variables(model):
        here = variable.shape.as_list()
        # With two of its names in the checkpoint, one variable here was two there, and
        # the second remains unmatched.
        name = next((name for name in names if name in stored), None)
        if name is None:
            misfits.append(_Misfit(names[0], None, here))
            continue
        there = unclaimed.pop(name)
        pairs.append((name, variable))
        free_axes = 1 if id(variable) in tables else 0
        if len(there) != len(here) or there[free_axes:] != here[free_axes:]:
            misfits.append(_Misfit(name, there, here))
    misfits += [_Misfit(name, there, None) for name, there in unclaimed.items()]
    if misfits:
        raise ValueError(_explain(sorted(misfits), model.encoder.config, path))
    return pairs


def _explain(misfits: list[_Misfit], config: config_lib.ModelConfig, path: str) -> str:
    shown = [
        f"{name} is {_shown(there)} there and {_shown(here)} here"
        for name, there, here in misfits[:_NUM_EXAMPLES]
    ]
    if len(misfits) > _NUM_EXAMPLES:
        shown.append(f"and {len(misfits) - _NUM_EXAMPLES} more")
    likely = _likely_settings(misfits, config)
    if likely:
        fix = (
            f"Likely a setting differs: {', '.join(likely)}. Give those of that run, "
            "or another checkpoint"
        )
    else:
        fix = "It is of another kind of model; give one of albert_tf.pretrain"
    return f"the checkpoint {path} does not fit the model: {'; '.join(shown)}. {fix}"


def _shown(shape: list[int] | None) -> str:
    return "absent" if shape is None else str(shape)


def _likely_settings(
    misfits: list[_Misfit], config: config_lib.ModelConfig
) -> list[str]:
    """Returns the settings that may explain the misfits, each once."""
    likely: list[str] = []
    for name, there, here in misfits:
        if there is None or here is None:
            places = [place for place in _DECIDED_BY if name.startswith(place)]
            likely += [key for place in places for key in _DECIDED_BY[place]]
        else:
            differing = [b for a, b in zip(there, here, strict=False) if a != b]
            likely += [
                f"model.{key}" for key in _SIZES if getattr(config, key) in differing
            ]
    return list(dict.fromkeys(likely))


# ---- Rows of tables ----


def _match_pieces(
    path: str, vocab: bytes, num_there: int, num_here: int
) -> tuple[_Rows, list[str]]:
    """Returns the rows of pieces in both vocabularies, and a line if they differ.

    Args:
      path: of the checkpoint.
      vocab: the new vocabulary.
      num_there: V of the checkpoint.
      num_here: V of the model.
    """
    vocab_path = find_beside(path, schema.VOCAB_FILE)
    if vocab_path is None:
        raise ValueError(
            "the vocabulary of a checkpoint must be beside it or one level up, because "
            f"it says which piece each row is; {path} has no {schema.VOCAB_FILE}. Copy "
            "there the one that its records were made with"
        )
    with tf.io.gfile.GFile(vocab_path, "rb") as file:
        old_vocab = file.read()
    there = _pieces(old_vocab, num_there, vocab_path, f"the checkpoint {path}")
    here = _pieces(vocab, num_here, "the new vocabulary", "model.vocab_size")
    row_there = {piece: row for row, piece in enumerate(there)}
    taken = [row for row, piece in enumerate(here) if piece in row_there]
    rows = _Rows(
        np.array([row_there[here[row]] for row in taken], np.int64),
        np.array(taken, np.int64),
    )
    if old_vocab == vocab:
        return rows, []
    new = [piece for piece in here if piece not in row_there]
    examples = f" (such as {' '.join(new[:_NUM_EXAMPLES])})" if new else ""
    return rows, [
        f"another vocabulary: {len(taken):,} pieces found, {len(new):,} new"
        f"{examples}, {len(there) - len(taken):,} old ones dropped"
    ]


def _pieces(vocab: bytes, num_rows: int, name: str, owner: str) -> list[str]:
    try:
        tokenizer = tokenizer_lib.Tokenizer(vocab)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error
    if tokenizer.vocab_size != num_rows:
        raise ValueError(
            f"a vocabulary must have as many pieces as its model has rows: {name} has "
            f"{tokenizer.vocab_size}, {owner} {num_rows}. Give the one of that model"
        )
    return tokenizer.pieces(range(num_rows))


def _match_positions(num_there: int, num_here: int) -> tuple[_Rows, list[str]]:
    """Returns the positions that both have, and a line if one has more."""
    taken = np.arange(min(num_there, num_here))
    lines = []
    if num_here > num_there:
        lines = [f"positions {num_there} to {num_here - 1} are new"]
    elif num_here < num_there:
        lines = [
            f"positions {num_here} to {num_there - 1} of the checkpoint are omitted"
        ]
    return _Rows(taken, taken), lines


# ---- The other run ----


def _setting_lines(path: str, config: config_lib.ModelConfig) -> list[str]:
    """Returns lines about settings of the model that differ, except those of tables.

    Raises:
      ValueError: the number of heads differs. No shape shows it, and with another
        number the weights are worthless.
    """
    config_path = find_beside(path, schema.CONFIG_FILE)
    if config_path is None:
        return [
            f"no {schema.CONFIG_FILE} beside the checkpoint: model.num_heads, and "
            "other settings that no shape shows, were not compared"
        ]
    before = config_io.read(config_path).model
    if before.num_heads != config.num_heads:
        raise ValueError(
            "model.num_heads must be that of the run whose weights are restored, "
            f"{before.num_heads} in {config_path}; received {config.num_heads}"
        )
    differing = [
        f"model.{field.name} was {there} and is {here}"
        for field in dataclasses.fields(config)
        if field.name not in _SAID_OF_ROWS
        and (there := getattr(before, field.name))
        != (here := getattr(config, field.name))
    ]
    return [f"other settings: {', '.join(differing)}"] if differing else []


def find_beside(path: str, name: str) -> str | None:
    """Returns the path of file `name` beside a checkpoint or one level up, or None."""
    # A relative path may start within the run, and then has no parent.
    whole = path if files.is_remote(path) else os.path.abspath(path)
    folder = os.path.dirname(whole)
    for place in (folder, os.path.dirname(folder)):
        candidate = os.path.join(place, name)
        if tf.io.gfile.exists(candidate):
            return candidate
    return None
