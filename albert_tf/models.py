"""Encoder and heads put together."""

from typing import NamedTuple

import tensorflow as tf
import tf_keras

from albert_tf import config as config_lib
from albert_tf import encoder, heads, layers


class PretrainingOutputs(NamedTuple):
    """What the pre-training model computes for a batch.

    encoder: the encoder's outputs.
    mlm_logits: float32 [B, P, V].
    pair_logits: float32 [B, 2].
    """

    encoder: encoder.EncoderOutputs
    mlm_logits: tf.Tensor
    pair_logits: tf.Tensor


class PretrainingModel(tf_keras.Model):
    """ALBERT with its two pre-training heads (paper, section 3.1).

    The attributes' names are the checkpoint's ABI.
    """

    def __init__(
        self, config: config_lib.ModelConfig, seed: int, compute_dtype: str = "float32"
    ):
        super().__init__(name="albert")
        initializer = layers.TruncatedNormal(config.initializer_range, seed)
        self.encoder = encoder.Encoder(
            config, initializer.child("encoder"), compute_dtype
        )
        self.masked_lm = heads.MaskedLmHead(
            config.vocab_size,
            config.embedding_size,
            config.layer_norm_epsilon,
            initializer.child("masked_lm"),
            compute_dtype,
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
        mlm_logits = self.masked_lm(
            outputs.sequence_output,
            features["masked_lm_positions"],
            self.encoder.embeddings.word_embeddings,
        )
        pair_logits = self.sentence_order(outputs.pooled_output)
        return PretrainingOutputs(outputs, mlm_logits, pair_logits)


def build_pretraining_model(
    config: config_lib.ModelConfig, seed: int, compute_dtype: str = "float32"
) -> PretrainingModel:
    """The model with all its variables made, drawn from `seed`."""
    model = PretrainingModel(config, seed, compute_dtype)
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
