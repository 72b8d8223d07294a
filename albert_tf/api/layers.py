"""The encoder as a layer of Keras (tf_keras), with variables that can be trained.

Shapes: B batch, S sequence, H hidden.
"""

import dataclasses
import os
from typing import Any

import tensorflow as tf
import tf_keras

from albert_tf.api import arguments
from albert_tf.core import config as config_lib
from albert_tf.core import setting_types, validation
from albert_tf.model import compute as compute_lib
from albert_tf.model import encoder as encoder_lib
from albert_tf.model import features as features_lib
from albert_tf.model import stateless_random
from albert_tf.serving import load

INPUTS = ("input_ids", "input_mask", "segment_ids")


@tf_keras.saving.register_keras_serializable("albert_tf")
class EncoderLayer(tf_keras.layers.Layer):
    """ALBERT's encoder: maps ids to `sequence_output` and `pooled_output`.

    A model with it is saved and loaded like any of Keras; `import albert_tf` before
    loading registers the layer.

    Attributes:
      encoder: the encoder within, `albert_tf.model.encoder.Encoder`.
    """

    def __init__(
        self,
        config: config_lib.ModelConfig | dict[str, Any],
        seed: int = 1,
        compute_dtype: str = "float32",
        name: str = "albert",
        **kwargs,
    ):
        """Creates the layer with weights drawn from `seed`.

        Args:
          config: sizes, as the section `model` of a recipe; or its values by name.
          seed: of the initial weights.
          compute_dtype: "float32" or "bfloat16", of matrix products; weights and
            outputs are float32.
          name: of the layer.
          **kwargs: those of `tf_keras.layers.Layer`, such as `trainable`.

        Raises:
          ValueError: the configuration is something else, or has an unknown name or a
            wrong value; or there is no such compute dtype.
        """
        super().__init__(name=name, **kwargs)
        if isinstance(config, dict):
            sizes: config_lib.ModelConfig = setting_types.check(
                "", config, config_lib.ModelConfig
            )
            config = sizes
        arguments.require_compute_dtype(compute_dtype)
        validation.require(
            isinstance(config, config_lib.ModelConfig),
            "config must be the section `model` of a recipe, such as "
            "albert_tf.load_config().model, or its values by name",
            config,
        )
        self._settings = {"seed": seed, "compute_dtype": compute_dtype}
        self._model_config = config
        initializer = stateless_random.TruncatedNormal(config.initializer_range, seed)
        self.encoder = encoder_lib.Encoder(
            config, initializer.child("encoder"), compute_lib.Compute(compute_dtype)
        )

    def build(self, input_shape: Any) -> None:
        """Creates all variables."""
        ids = tf.zeros([1, 1], tf.int32)
        self.encoder(ids, ids, ids)
        super().build(input_shape)

    def __call__(self, inputs, *args, **kwargs) -> dict[str, tf.Tensor]:
        """Checks the inputs, and calls the layer.

        Raises:
          ValueError: some are missing, they are packed rows, or the rows are longer
            than the model has positions.
        """
        features_lib.require(inputs, INPUTS)
        features_lib.require_length(inputs, self._model_config.max_positions)
        return super().__call__(inputs, *args, **kwargs)

    def call(self, inputs, training: bool | None = None) -> dict[str, tf.Tensor]:
        """Encodes a batch.

        Args:
          inputs: dict of `input_ids`, `input_mask` (1 at tokens, 0 at padding) and
            `segment_ids`, int32 [B, S] each.
          training: whether to apply dropout, at the rates of the configuration, with
            new masks at each call.

        Returns:
          dict of `sequence_output` float32 [B, S, H] and `pooled_output` [B, H].
        """
        seed = None
        if training:
            seed = tf.random.uniform([2], maxval=tf.int32.max, dtype=tf.int32)
        found = self.encoder(*(inputs[name] for name in INPUTS), dropout_seed=seed)
        return {
            "sequence_output": found.sequence_output,
            "pooled_output": found.pooled_output,
        }

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        config = dataclasses.asdict(self._model_config)
        return {**super().get_config(), "config": config, **self._settings}


def load_encoder(
    path: str | os.PathLike[str],
    checkpoint: str | os.PathLike[str] = "",
    weights: str = config_lib.WEIGHTS[0],
    compute_dtype: str = "float32",
) -> EncoderLayer:
    """Loads the encoder of a run as a layer of Keras.

    Args:
      path: directory of a run of albert_tf.pretrain or albert_tf.finetune, or of a
        model that albert_tf.convert wrote as a run.
      checkpoint: as in `albert_tf.load`.
      weights: as in `albert_tf.load`.
      compute_dtype: as for `EncoderLayer`.

    Raises:
      ValueError: there is no such run or compute dtype, or its files do not match.
    """
    path = arguments.path_of(path, "path")
    arguments.require_weights(weights)
    arguments.require_compute_dtype(compute_dtype)
    arguments.require_run(path, may_be_exported=False)
    checkpoint = arguments.checkpoint_of(checkpoint)
    with arguments.named(model_dir="path"):
        loaded, _ = load.load_encoder(path, checkpoint, weights)
    layer = EncoderLayer(loaded.config, compute_dtype=compute_dtype)
    layer.build(None)
    layer.encoder.set_weights(loaded.get_weights())
    return layer
