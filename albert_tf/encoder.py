"""The ALBERT encoder: factorized embeddings and one block applied at every layer."""

from typing import NamedTuple

import tensorflow as tf

from albert_tf import config as config_lib
from albert_tf import layers


class EncoderOutputs(NamedTuple):
    """What the encoder computes for a batch.

    embedding_output: float32 [B, S, E], before the projection to H.
    all_layers: L tensors float32 [B, S, H], one a layer.
    sequence_output: float32 [B, S, H], the last of them.
    pooled_output: float32 [B, H], tanh of a dense layer on the first token.
    """

    embedding_output: tf.Tensor
    all_layers: tuple[tf.Tensor, ...]
    sequence_output: tf.Tensor
    pooled_output: tf.Tensor


class Encoder(layers.Layer):
    """Embeddings, then `num_layers` applications of `num_groups` blocks (section 3.1).

    With one group a single `TransformerEncoderBlock` object is applied at every
    layer; with G groups each block serves about L / G layers in a row.
    """

    def __init__(
        self,
        config: config_lib.ModelConfig,
        initializer: layers.TruncatedNormal,
        compute_dtype: str = "float32",
        name: str = "encoder",
    ):
        super().__init__(name)
        self.config = config
        self.activation_dtype = tf.as_dtype(compute_dtype)
        self.embeddings = layers.Embeddings(
            config.vocab_size,
            config.embedding_size,
            config.max_positions,
            config.type_vocab_size,
            config.hidden_dropout_rate,
            config.layer_norm_epsilon,
            initializer.child("embeddings"),
        )
        # BERT is E = H, with nothing to project.
        self.embedding_projection = None
        if config.embedding_size != config.hidden_size:
            self.embedding_projection = layers.Dense(
                config.hidden_size,
                initializer.child("embedding_projection"),
                name="embedding_projection",
            )
        self.blocks = [
            layers.TransformerEncoderBlock(
                config.hidden_size,
                config.num_heads,
                config.intermediate_size,
                config.hidden_dropout_rate,
                config.attention_dropout_rate,
                config.layer_norm_epsilon,
                initializer.child(f"block_{group}"),
                name=f"block_{group}",
            )
            for group in range(config.num_groups)
        ]
        self.pooler = layers.Dense(
            config.hidden_size, initializer.child("pooler"), name="pooler"
        )

    def call(
        self, input_ids, input_mask, segment_ids, dropout_seed=None
    ) -> EncoderOutputs:
        """Encodes a batch.

        Args:
          input_ids: int32 [B, S], S at most `max_positions`.
          input_mask: int32 [B, S], 1 at tokens, 0 at padding.
          segment_ids: int32 [B, S].
          dropout_seed: int32 [2] of the step and the replica, or None.
        """
        embedded = self.embeddings(
            input_ids, segment_ids, layers.fold_in(dropout_seed, 0)
        )
        hidden = tf.cast(embedded, self.activation_dtype)
        if self.embedding_projection is not None:
            hidden = self.embedding_projection(hidden)  # [B, S, H]
        padding = 1.0 - tf.cast(input_mask, tf.float32)
        attention_bias = padding[:, None, None, :] * layers.MASKED_SCORE
        all_layers = []
        for depth in range(self.config.num_layers):
            # As in the original, the depth is spread evenly over the groups.
            group = depth * self.config.num_groups // self.config.num_layers
            block = self.blocks[group]
            # Each application draws its own mask, though the block is the same.
            seed = layers.fold_in(dropout_seed, 1 + depth)
            hidden = block(hidden, attention_bias, dropout_seed=seed)
            all_layers.append(tf.cast(hidden, tf.float32))
        sequence_output = all_layers[-1]
        pooled_output = tf.tanh(self.pooler(sequence_output[:, 0]))  # [B, H]
        return EncoderOutputs(
            embedded, tuple(all_layers), sequence_output, pooled_output
        )
