"""Hyperparameters of fine-tuning by the sizes of model and data.

The recipes hold the ALBERT paper's, for hidden sizes of 768 and more. A smaller model
learns little with them. With `task.hyperparameters` "auto" it gets those that
follow here; the rule and its measurements are in docs/finetuning.md.
"""

import dataclasses
from typing import Any

from albert_tf.core import config as config_lib

# The smallest hidden size that the paper's hyperparameters are for.
PAPER_HIDDEN_SIZE = 768
# Peak of the learning rate at a hidden size of 256 and less; inversely proportional to
# its square above.
SMALL_RATE = 1e-4
_SMALL_HIDDEN_SIZE = 256
# Examples to train on: `_MOST_EXAMPLES`, but at least `_LEAST_PASSES` and at most
# `_PASSES` passes over the training rows.
_PASSES, _LEAST_PASSES = 10, 3
_MOST_EXAMPLES = 100_000
_LEAST_STEPS = 300
_WARMUP_SHARE = 0.1
_NUM_EVALUATIONS = 10

# What "auto" chooses; a run that resumes keeps its own.
CHOSEN = (
    "optimizer.learning_rate",
    "optimizer.warmup_steps",
    "optimizer.bias_correction",
    "train.num_steps",
    "train.eval_every_steps",
    "train.save_every_steps",
    "task.max_seq_length",
    "task.max_query_length",
    "task.doc_stride",
    "task.max_option_length",
)

# The model settings that are the recipe's.
MODEL_SETTINGS = ("hidden_dropout_rate", "attention_dropout_rate")
# The sections whose other settings are those of the run that fine-tuning starts from.
_RUN_SECTIONS = ("model", "text", "data")
# The training settings that only pre-training has: of its records and evaluations.
PRETRAINING_SETTINGS = (
    "train.num_streams",
    "train.on_no_progress",
    "train.eval_batches",
    "train.probe_pairs",
    "train.shuffle_buffer",
    "train.records",
)


def is_of_run(key: str) -> bool:
    """Returns whether a setting is that of the run that fine-tuning starts from.

    Args:
      key: such as "data.lower_case".
    """
    section, _, name = key.partition(".")
    return section in _RUN_SECTIONS and name not in MODEL_SETTINGS


def is_auto(config: config_lib.Config) -> bool:
    """Returns whether hyperparameters are to be chosen."""
    return config.task.hyperparameters == "auto"


def fit_model(
    recipe: config_lib.Config,
    pretrained: config_lib.Config,
    recorded: config_lib.Config | None,
) -> config_lib.Config:
    """Returns a recipe whose lengths fit a model, or the choice of an earlier command.

    Args:
      recipe: of "auto".
      pretrained: of the run that fine-tuning starts from.
      recorded: of the run to resume, or of another of its seeds, if there is one. Then
        all that is chosen is known, and the result is not "auto" any more.
    """
    if recorded is not None:
        values = {key: _get(recorded, key) for key in CHOSEN}
        return _resolved(_with(recipe, values))
    longest, task = pretrained.model.max_positions, recipe.task
    if task.max_seq_length <= longest:
        return recipe
    return _with(
        recipe,
        {
            "task.max_seq_length": longest,
            "task.max_query_length": min(task.max_query_length, longest // 4),
            "task.doc_stride": min(task.doc_stride, longest // 2),
            "task.max_option_length": min(task.max_option_length, 3 * longest // 8),
        },
    )


def fit_data(config: config_lib.Config, num_items: int) -> config_lib.Config:
    """Returns a recipe with the hyperparameters for its model and data.

    Args:
      config: from `fit_model`, "auto", with the model that fine-tuning starts from.
      num_items: number of rows to train on: examples, or windows over texts.
    """
    hidden_size = config.model.hidden_size
    if hidden_size >= PAPER_HIDDEN_SIZE:
        return _resolved(config)
    width = max(1.0, hidden_size / _SMALL_HIDDEN_SIZE)
    config = _with(
        config,
        {
            "optimizer.learning_rate": float(f"{SMALL_RATE / width**2:.2g}"),
            "optimizer.bias_correction": True,
            "train.num_steps": _num_steps(num_items, config.train.batch_size),
        },
    )
    num_steps = config.train.num_steps
    every = -(-num_steps // _NUM_EVALUATIONS)
    config = _with(
        config,
        {
            "optimizer.warmup_steps": round(_WARMUP_SHARE * num_steps),
            "train.eval_every_steps": every,
            "train.save_every_steps": every,
        },
    )
    return _resolved(config)


def describe(
    recipe: config_lib.Config, chosen: config_lib.Config, num_items: int
) -> str:
    """Returns a line with what was chosen, and why.

    Args:
      recipe: as given.
      chosen: from `fit_data`.
      num_items: as given to it.
    """
    changes = [
        f"{key}={_shown(_get(chosen, key))} (recipe: {_shown(_get(recipe, key))})"
        for key in CHOSEN
        if _get(chosen, key) != _get(recipe, key)
    ]
    hidden_size = chosen.model.hidden_size
    if hidden_size >= PAPER_HIDDEN_SIZE:
        reason = f"of the recipe, for hidden sizes from {PAPER_HIDDEN_SIZE} on"
    else:
        reason = f"for hidden size {hidden_size} and {num_items:,} training rows"
    text = f"hyperparameters {reason}"
    return f"{text}: {', '.join(changes)}" if changes else text


def _num_steps(num_items: int, batch_size: int) -> int:
    seen = max(min(_PASSES * num_items, _MOST_EXAMPLES), _LEAST_PASSES * num_items)
    return max(_LEAST_STEPS, -(-seen // batch_size))


def _shown(value: bool | float) -> str:
    return str(value).lower() if isinstance(value, bool) else f"{value:g}"


def _get(config: config_lib.Config, key: str) -> Any:
    section, _, name = key.partition(".")
    return getattr(getattr(config, section), name)


def _with(config: config_lib.Config, values: dict[str, Any]) -> config_lib.Config:
    """Returns a recipe with other values, but for settings that were given."""
    sections: dict[str, dict[str, Any]] = {}
    for key, value in values.items():
        if key not in config.task.given_settings:
            section, _, name = key.partition(".")
            sections.setdefault(section, {})[name] = value
    return dataclasses.replace(
        config,
        **{
            section: dataclasses.replace(getattr(config, section), **changed)
            for section, changed in sections.items()
        },
    )


def _resolved(config: config_lib.Config) -> config_lib.Config:
    """Returns a recipe whose hyperparameters are as they stand."""
    task = dataclasses.replace(config.task, hyperparameters="given", given_settings=())
    return dataclasses.replace(config, task=task)
