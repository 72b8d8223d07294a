"""The pre-training model: encoder and heads."""

from collections.abc import Callable
from typing import NamedTuple

import tensorflow as tf
import tf_keras

from albert_tf.core import config as config_lib
from albert_tf.devices import strategies
from albert_tf.model import compute as compute_lib
from albert_tf.model import encoder, pretraining_heads, stateless_random
from albert_tf.model import features as features_lib

_OF_CALL = ("input_ids", "input_mask", "segment_ids", "masked_lm_positions")
_OF_PACKED = (
    *("input_ids", "segment_ids", "masked_lm_positions"),
    *features_lib.OF_PACKED,
)


class PretrainingScores(NamedTuple):
    """What the losses of pre-training read.

    mlm: scores of the vocabulary at the masked positions.
    pair_logits: float32 [B, 2]; of packed rows [B, sequences of a row, 2].
    """

    mlm: pretraining_heads.MaskedLmScores
    pair_logits: tf.Tensor


class PretrainingOutputs(NamedTuple):
    """Outputs of the pre-training model for a batch.

    encoder: the encoder's outputs.
    mlm: as in `PretrainingScores`.
    pair_logits: as in `PretrainingScores`.
    """

    encoder: encoder.EncoderOutputs
    mlm: pretraining_heads.MaskedLmScores
    pair_logits: tf.Tensor


class PretrainingModel(tf_keras.Model):
    """ALBERT with its two pre-training heads (paper, section 3.1).

    The attributes' names are the checkpoint's ABI.
    """

    def __init__(
        self,
        config: config_lib.ModelConfig,
        seed: int,
        compute: compute_lib.Compute = compute_lib.DEFAULT,
    ):
        super().__init__(name="albert")
        initializer = stateless_random.TruncatedNormal(config.initializer_range, seed)
        self.compute = compute
        self.encoder = encoder.Encoder(config, initializer.child("encoder"), compute)
        self.masked_lm = pretraining_heads.MaskedLmHead(
            config, initializer.child("masked_lm"), compute
        )
        self.sentence_order = pretraining_heads.SentencePairHead(
            initializer.child("sentence_order")
        )

    def __call__(self, features, *args, **kwargs) -> PretrainingOutputs:
        """Checks the features, and calls the model.

        Raises:
          ValueError: some are missing, or rows are packed; `scores` takes packed rows.
        """
        # Keras would add all arguments of `call` to an error.
        features_lib.require(features, _OF_CALL)
        features_lib.require_length(features, self.encoder.config.max_positions)
        return super().__call__(features, *args, **kwargs)

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

    def scores(self, features, dropout_seed=None) -> PretrainingScores:
        """Computes what the losses read, and no more.

        The heads read the first token and the masked ones, so the last block is applied
        there only: `costs.forward_flops` counts what that saves. The scores are those
        of `call`, but for rounding and the masks of dropout in the last block.

        Args:
          features: as in `call`; or packed rows, see `schema.model_features`.
          dropout_seed: as in `call`.

        Raises:
          ValueError: features are missing.
        """
        is_packed, packing = features_lib.is_packed(features), None
        features_lib.require(features, _OF_PACKED if is_packed else _OF_CALL)
        features_lib.require_length(features, self.encoder.config.max_positions)
        masked = features["masked_lm_positions"]
        if is_packed:
            first = features["first_positions"]
            packing = encoder.Packing(
                features["position_ids"], features["sequence_numbers"]
            )
        else:
            first = tf.zeros_like(masked[:, :1])
        num_first = first.shape[1]
        # Keras names the operations of `call` so.
        with tf.name_scope(self.name):
            hidden = self.encoder.encode_at(
                features["input_ids"],
                features.get("input_mask"),
                features["segment_ids"],
                tf.concat([first, masked], axis=1),
                dropout_seed,
                packing=packing,
            )  # [B, first and masked, H]
            table = self.encoder.embeddings.word_embeddings
            mlm = self.masked_lm.scores_of(hidden[:, num_first:], table)
            hidden = hidden[:, :num_first] if packing else hidden[:, 0]
            pair_logits = self.sentence_order(self.encoder.pool(hidden))
        return PretrainingScores(mlm, pair_logits)


def build_pretraining_model(
    config: config_lib.ModelConfig,
    seed: int,
    compute: compute_lib.Compute = compute_lib.DEFAULT,
) -> PretrainingModel:
    """Builds the model with all its variables, drawn from `seed`."""
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
    """Returns the encoder for many calls, with the weights of its blocks cast once.

    If the weights change afterwards, it must be made again.

    Returns:
      A function (input_ids, input_mask, segment_ids), int32 [B, S] each, that gives
      `sequence_output` float32 [B, S, H] and `pooled_output` float32 [B, H]. It is
      traced, and with `fuse_elementwise` compiled, once for each shape.
    """
    replacements = cast_blocks(model)

    @tf.function(autograph=False)
    def encode(input_ids, input_mask, segment_ids):
        weights = compute_lib.WeightCache(model.compute.dtype, replacements)
        outputs = model.encoder(input_ids, input_mask, segment_ids, weights=weights)
        return outputs.sequence_output, outputs.pooled_output

    return encode


def cast_blocks(model: PretrainingModel) -> dict[int, compute_lib.Weight]:
    """Returns the blocks' matrices in the dtype of the products, by variables' ids.

    Cast eagerly, so that they are inputs of a graph; none if the dtype is theirs.
    """
    dtype = tf.as_dtype(model.compute.dtype)
    if dtype == tf.float32:
        return {}
    return {
        id(variable): tf.cast(variable, dtype)
        for block in model.encoder.blocks
        for variable in block.variables
        if len(variable.shape) > 1
    }


def compute_form(run: config_lib.TrainConfig) -> compute_lib.Compute:
    """Returns how a run computes on the devices of this machine."""
    return compute_lib.Compute(
        run.compute_dtype,
        strategies.fuses_elementwise(run.jit_compile),
        run.remat,
        queries_at_once=run.queries_at_once,
    )
