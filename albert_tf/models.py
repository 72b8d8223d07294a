"""Encoder and heads put together."""

from collections.abc import Callable
from typing import NamedTuple

import tensorflow as tf
import tf_keras

from albert_tf import config as config_lib
from albert_tf import distribution, encoder, heads, layers


class PretrainingOutputs(NamedTuple):
    """What the pre-training model computes for a batch.

    encoder: the encoder's outputs.
    mlm: the scores of the vocabulary at the masked positions.
    pair_logits: float32 [B, 2].
    """

    encoder: encoder.EncoderOutputs
    mlm: heads.MaskedLmScores
    pair_logits: tf.Tensor


class PretrainingModel(tf_keras.Model):
    """ALBERT with its two pre-training heads (paper, section 3.1).

    The attributes' names are the checkpoint's ABI.
    """

    def __init__(
        self,
        config: config_lib.ModelConfig,
        seed: int,
        compute: layers.Compute = layers.PLAIN,
    ):
        super().__init__(name="albert")
        initializer = layers.TruncatedNormal(config.initializer_range, seed)
        self.compute = compute
        self.encoder = encoder.Encoder(config, initializer.child("encoder"), compute)
        self.masked_lm = heads.MaskedLmHead(
            config, initializer.child("masked_lm"), compute
        )
        self.sentence_order = heads.SentencePairHead(
            initializer.child("sentence_order")
        )

    def call(self, features, dropout_seed=None) -> PretrainingOutputs:
        """Runs encoder and heads.

        Args:
          features: dict of int32 tensors `input_ids`, `input_mask`, `segment_ids`
            [B, S] and `masked_lm_positions` [B, P].
          dropout_seed: int32 [2] of the step and the replica, or None.
        """
        outputs = self.encoder(
            features["input_ids"],
            features["input_mask"],
            features["segment_ids"],
            dropout_seed=dropout_seed,
        )
        mlm = self.masked_lm(
            outputs.sequence_output,
            features["masked_lm_positions"],
            self.encoder.embeddings.word_embeddings,
        )
        pair_logits = self.sentence_order(outputs.pooled_output)
        return PretrainingOutputs(outputs, mlm, pair_logits)


def build_pretraining_model(
    config: config_lib.ModelConfig,
    seed: int,
    compute: layers.Compute = layers.PLAIN,
) -> PretrainingModel:
    """The model with all its variables made, drawn from `seed`."""
    model = PretrainingModel(config, seed, compute)
    ids = tf.zeros([1, 2], tf.int32)
    model(
        {
            "input_ids": ids,
            "input_mask": ids,
            "segment_ids": ids,
            "masked_lm_positions": ids,
        }
    )
    return model


def make_encode(model: PretrainingModel) -> Callable:
    """The encoder for many calls, the weights of its blocks cast once for all of them.

    Where those change afterwards, it must be made anew.

    Returns:
      A function (input_ids, input_mask, segment_ids), int32 [B, S] each, that gives
      `sequence_output` float32 [B, S, H] and `pooled_output` float32 [B, H]. It is
      traced, and with islands compiled, once for each shape.
    """
    cast = model.encoder.cast_blocks()  # eagerly, so that the graph has it as an input

    @tf.function
    def encode(input_ids, input_mask, segment_ids):
        known = cast.copy()  # what the graph itself casts must not outlive it
        outputs = model.encoder(input_ids, input_mask, segment_ids, cast=known)
        return outputs.sequence_output, outputs.pooled_output

    return encode


def compute_form(run: config_lib.TrainConfig) -> layers.Compute:
    """How a run computes on the devices of this machine."""
    return layers.Compute(
        run.compute_dtype,
        distribution.uses_islands(run.jit_compile),
        run.remat,
    )


def serving_form(dtype: str) -> layers.Compute:
    """How an exported model computes, whatever it is served on.

    In bfloat16 its activation function and its softmax have float32 inside only where
    oneDNN fuses them, on CPUs.
    """
    return layers.Compute(dtype, fused=True)
