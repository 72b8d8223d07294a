"""Models to train in one's own loop, and the batches of records."""

import os
from collections.abc import Iterable
from typing import Any

import tensorflow as tf

from albert_tf.api import arguments
from albert_tf.core import config as config_lib
from albert_tf.core import config_io
from albert_tf.data import input_pipeline
from albert_tf.data import manifest as manifest_lib
from albert_tf.devices import strategies
from albert_tf.model import pretraining_model
from albert_tf.training import objectives


def load_config(
    path: str | os.PathLike[str] = "", overrides: Iterable[str] = ()
) -> config_lib.Config:
    """Loads a recipe.

    Args:
      path: a recipe such as "configs/small.py", or a config.json; empty means the
        defaults, ALBERT base.
      overrides: settings such as "model.num_layers=2".

    Raises:
      ValueError: there is no such recipe, or a setting is unknown or wrong.
    """
    path = arguments.path_of(path, "path", may_be_empty=True)
    overrides = arguments.settings_of(overrides)
    with arguments.named(config="path", set="overrides"):
        return config_io.load(path, overrides)


def build_model(config: config_lib.Config) -> pretraining_model.PretrainingModel:
    """Builds the pre-training model of a recipe with all its variables.

    It is a `tf_keras.Model`; `model.encoder` is its encoder. `model.scores(batch)`
    takes any batch of `read_batches`, and `model(batch)`, which also returns each
    layer, those of records made with `data.pack_sequences=0`. The weights are drawn
    from `train.seed`.

    Raises:
      ValueError: the recipe is something else.
    """
    arguments.require_config(config)
    return pretraining_model.build_pretraining_model(
        config.model, config.train.seed, pretraining_model.compute_form(config.train)
    )


def read_batches(
    data_dir: str | os.PathLike[str],
    config: config_lib.Config,
    first_step: int = 0,
    context: Any = None,
) -> tf.data.Dataset:
    """Returns the batches of a run with this recipe: infinite, shuffled, masked.

    Args:
      data_dir: records of data_prep.create_pretraining_data, such as "records/128".
      config: the recipe; `train.batch_size` rows a batch. Not of its stages.
      first_step: the step from which on: those before it are left out.
      context: a `tf.distribute.InputContext`, for the part of this host, whose batches
        are each of one replica; None for whole batches.

    Raises:
      ValueError: there are no records, or they do not suit the recipe.
    """
    data_dir = arguments.path_of(data_dir, "data_dir")
    arguments.require_config(config)
    manifest = manifest_lib.read_manifest(data_dir, "data_dir")
    with arguments.named(set="the override"):
        manifest_lib.check_manifest(data_dir, manifest, config)
    input_fn = input_pipeline.train_input_fn(data_dir, manifest, config, first_step)
    if context is not None:
        return input_fn(context)
    return strategies.whole_dataset(input_fn)


def compute_loss(
    model: pretraining_model.PretrainingModel,
    batch: dict[str, tf.Tensor],
    config: config_lib.Config,
    dropout_seed=None,
) -> tf.Tensor:
    """Returns the loss of a batch: nats per masked token, plus nats per pair.

    Args:
      model: from `build_model`.
      batch: of `read_batches`.
      config: the recipe; `data.pair_loss` says which pairs count.
      dropout_seed: int32 [2], another one at each step; None for no dropout.

    Raises:
      ValueError: the recipe is something else.
    """
    arguments.require_config(config)
    objective = objectives.PretrainingObjective(config.data.pair_loss)
    sums = objective.batch_sums(model, batch, dropout_seed)
    return objective.mean(sums, objective.weights(batch))
