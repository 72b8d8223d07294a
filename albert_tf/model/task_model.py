"""The task model: the encoder with the head of a task.

Variables of the encoder are named as in pre-training, so that a pre-training
checkpoint restores into a task's model.
"""

from collections.abc import Callable
from typing import Any

import tensorflow as tf
import tf_keras

from albert_tf.core import config as config_lib
from albert_tf.model import compute as compute_lib
from albert_tf.model import encoder, stateless_random, task_heads

# The head of each kind of task.
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
    `pretraining_model.PretrainingModel`.
    """

    def __init__(
        self,
        config: config_lib.ModelConfig,
        kind: str,
        seed: int,
        compute: compute_lib.Compute,
        head_settings: dict[str, Any],
    ):
        if kind not in HEADS:
            raise ValueError(
                f"kind must be one of {', '.join(HEADS)}; received {kind!r}"
            )
        super().__init__(name="albert")
        self.kind = kind
        self.compute = compute
        initializer = stateless_random.TruncatedNormal(config.initializer_range, seed)
        self.encoder = encoder.Encoder(config, initializer.child("encoder"), compute)
        self.head = HEADS[kind](initializer=initializer.child(kind), **head_settings)
        # An unused pooler has no gradient; weight decay must not change it either.
        self.encoder.pooler.trainable = self.head.reads_pooled_output

    def call(self, features, dropout_seed=None):
        """Computes the outputs that the loss of the task needs.

        Args:
          features: dict of int32 tensors `input_ids`, `input_mask`, `segment_ids`
            [B, S] ([B, C, S] for choices), and further features that the head needs.
          dropout_seed: int32 [2] of the step and the replica, or None.

        Returns:
          The head's result: a named tuple of `task_heads`.

        Raises:
          ValueError: `input_ids` has another rank.
        """
        seed = stateless_random.fold_in(dropout_seed, 0)
        encoded = self._encode(self.encoder, features, dropout_seed=seed)
        head_seed = stateless_random.fold_in(dropout_seed, 1)
        return self.head(encoded, features, dropout_seed=head_seed)

    def infer(self, features, text_encoder: encoder.TextEncoder | None = None):
        """Computes the outputs from which answers are read.

        Only for "answerable_span" do they differ from those of `call`.

        Args:
          features: as in `call`, without labels.
          text_encoder: used instead of `encoder`, for example with its weights in
            another form.
        """
        encoded = self._encode(text_encoder or self.encoder, features)
        return self.head.infer(encoded, features)

    def _encode(self, text_encoder, features, **options):
        """Returns the output that the head reads, and computes no more."""
        texts = self._texts(features)
        if self.head.reads_pooled_output:
            return text_encoder.pooled_output(*texts, **options)
        return text_encoder(*texts, **options).sequence_output

    def _texts(self, features) -> list[tf.Tensor]:
        """The inputs of the encoder, with the choices one after another."""
        texts = []
        for name in ("input_ids", "input_mask", "segment_ids"):
            ids = tf.convert_to_tensor(features[name])
            if ids.shape.rank != self.head.input_rank:
                axes = {2: "[B, S]", 3: "[B, C, S]"}[self.head.input_rank]
                raise ValueError(
                    f"{name} must have the axes {axes} for the head {self.head.name}; "
                    f"received the shape {ids.shape}. Add or remove the axis of "
                    "choices, or build another kind of model"
                )
            texts.append(tf.reshape(ids, [-1, tf.shape(ids)[-1]]))  # [B * C, S]
        return texts


def build_task_model(
    config: config_lib.ModelConfig,
    kind: str,
    seed: int,
    compute: compute_lib.Compute = compute_lib.DEFAULT,
    **head_settings,
) -> TaskModel:
    """Builds the model of a task with all its variables, drawn from `seed`.

    Args:
      config: sizes of the encoder.
      kind: a key of `HEADS`.
      seed: of the weights.
      compute: how the encoder computes; heads always compute in float32.
      **head_settings: arguments of that head except `initializer` and `name`: such as
        `num_classes=3, dropout_rate=0.1` for "classification".

    Raises:
      ValueError: `kind` is unknown, or a setting is outside its range.
    """
    model = TaskModel(config, kind, seed, compute, head_settings)
    ids = tf.zeros([1] * (model.head.input_rank - 1) + [2], tf.int32)
    model(
        {
            "input_ids": ids,
            "input_mask": ids,
            "segment_ids": ids,
            # Read only by "answerable_span".
            "p_mask": tf.zeros([1, 2], tf.int32),
            "start_positions": tf.zeros([1], tf.int32),
        }
    )
    return model
