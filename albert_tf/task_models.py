"""The encoder with the head of a task.

Variables of the encoder are named as in pre-training, so that a pre-training
checkpoint restores into a task's model.
"""

from collections.abc import Callable
from typing import Any

import tensorflow as tf
import tf_keras

from albert_tf import config as config_lib
from albert_tf import encoder, layers, task_heads

# The kinds of task, and the head of each.
HEADS: dict[str, Callable[..., task_heads.TaskHead]] = {
    "classification": task_heads.ClassifierHead,
    "regression": task_heads.RegressionHead,
    "token_classification": task_heads.TokenClassifierHead,
    "span": task_heads.SpanHead,
    "answerable_span": task_heads.AnswerableSpanHead,
    "multiple_choice": task_heads.MultipleChoiceHead,
}


class TaskModel(tf_keras.Model):
    """ALBERT with one task's head (ALBERT paper, section 4.1).

    The attributes' names are the checkpoint's ABI; `encoder` is that of
    `models.PretrainingModel`.
    """

    def __init__(
        self,
        config: config_lib.ModelConfig,
        kind: str,
        seed: int,
        compute: layers.Compute,
        head_settings: dict[str, Any],
    ):
        if kind not in HEADS:
            raise ValueError(
                f"kind must be one of {', '.join(HEADS)}; received {kind!r}"
            )
        super().__init__(name="albert")
        self.kind = kind
        self.compute = compute
        initializer = layers.TruncatedNormal(config.initializer_range, seed)
        self.encoder = encoder.Encoder(config, initializer.child("encoder"), compute)
        self.head = HEADS[kind](initializer=initializer.child(kind), **head_settings)
        # Without a gradient, neither decay nor anything else may change it.
        self.encoder.pooler.trainable = self.head.reads_pooled_output

    def call(self, features, dropout_seed=None):
        """Computes what the loss of the task is made of.

        Args:
          features: dict of int32 tensors `input_ids`, `input_mask`, `segment_ids`
            [B, S] ([B, C, S] for choices), and what the head asks for besides.
          dropout_seed: int32 [2] of the step and the replica, or None.

        Returns:
          What the head returns: a named tuple of `task_heads`.

        Raises:
          ValueError: `input_ids` has another rank.
        """
        encoded = self._encode(features, layers.fold_in(dropout_seed, 0))
        head_seed = layers.fold_in(dropout_seed, 1)
        return self.head(encoded, features, dropout_seed=head_seed)

    def infer(self, features, cast: layers.CastOnce | None = None):
        """Computes what answers are read from; takes what `call` takes, but no labels.

        Only for "answerable_span" does it return something else than `call`.

        Args:
          features: as `call` takes them.
          cast: as the encoder takes it.
        """
        return self.head.infer(self._encode(features, None, cast), features)

    def _encode(
        self, features, dropout_seed, cast: layers.CastOnce | None = None
    ) -> encoder.EncoderOutputs:
        """Runs the encoder on the texts, the choices one after another."""
        texts = []
        for name in ("input_ids", "input_mask", "segment_ids"):
            ids = tf.convert_to_tensor(features[name])
            if ids.shape.rank != self.head.input_rank:
                axes = {2: "[B, S]", 3: "[B, C, S]"}[self.head.input_rank]
                raise ValueError(
                    f"{name} must have the axes {axes} for the head {self.head.name}; "
                    f"received the shape {ids.shape}. Add or drop the axis of choices, "
                    "or build another kind of model"
                )
            texts.append(tf.reshape(ids, [-1, tf.shape(ids)[-1]]))  # [B * C, S]
        return self.encoder(*texts, dropout_seed=dropout_seed, cast=cast)


def build_task_model(
    config: config_lib.ModelConfig,
    kind: str,
    seed: int,
    compute: layers.Compute = layers.PLAIN,
    **head_settings,
) -> TaskModel:
    """The model of a task with all its variables made, drawn from `seed`.

    Args:
      config: sizes of the encoder.
      kind: a key of `HEADS`.
      seed: what the weights are drawn from.
      compute: how the encoder computes; heads are plain float32.
      **head_settings: arguments of that head but `initializer` and `name`: such as
        `num_classes=3, dropout_rate=0.1` for "classification".

    Raises:
      ValueError: `kind` is unknown, or a setting lies outside its range.
    """
    model = TaskModel(config, kind, seed, compute, head_settings)
    ids = tf.zeros([1] * (model.head.input_rank - 1) + [2], tf.int32)
    model(
        {
            "input_ids": ids,
            "input_mask": ids,
            "segment_ids": ids,
            # Read by "answerable_span" alone.
            "p_mask": tf.zeros([1, 2], tf.int32),
            "start_positions": tf.zeros([1], tf.int32),
        }
    )
    return model
