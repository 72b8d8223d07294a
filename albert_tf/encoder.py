"""The encoder: factorized embeddings and one block, or more, over the depth."""

from typing import NamedTuple

import numpy as np
import tensorflow as tf

from albert_tf import config as config_lib
from albert_tf import layers, pointwise


class EncoderOutputs(NamedTuple):
    """What the encoder computes for a batch.

    embedding_output: float32 [B, S, E], before the projection to H.
    all_layers: tensors float32 [B, S, H], one a block application: L of them, times
      `num_inner_groups`.
    sequence_output: float32 [B, S, H], the last of them.
    pooled_output: float32 [B, H], tanh of a dense layer on the first token.
    """

    embedding_output: tf.Tensor
    all_layers: tuple[tf.Tensor, ...]
    sequence_output: tf.Tensor
    pooled_output: tf.Tensor


class Encoder(layers.Layer):
    """Embeddings, then one block, or several, applied over the depth (section 3.1).

    Where everything is shared, a single `TransformerEncoderBlock` object is applied at
    every layer. `blocks` holds each block once, in the order of their first use.
    """

    def __init__(
        self,
        config: config_lib.ModelConfig,
        initializer: layers.TruncatedNormal,
        compute: layers.Compute = layers.PLAIN,
        name: str = "encoder",
    ):
        super().__init__(name, compute)
        self.config = config
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
        self.blocks, self._block_at_depth = _make_blocks(config, initializer, compute)
        self.pooler = layers.Dense(
            config.hidden_size, initializer.child("pooler"), name="pooler"
        )

    def call(
        self,
        input_ids,
        input_mask,
        segment_ids,
        dropout_seed=None,
        cast: layers.CastOnce | None = None,
    ) -> EncoderOutputs:
        """Encodes a batch.

        Args:
          input_ids: int32 [B, S], S at most `max_positions`.
          input_mask: int32 [B, S], 1 at tokens, 0 at padding.
          segment_ids: int32 [B, S].
          dropout_seed: int32 [2] of the step and the replica, or None.
          cast: what gives the weights as tensors, where they are not to be read anew.
        """
        cast = cast or layers.CastOnce(tf.as_dtype(self.compute.dtype))
        embedded = self.embeddings(
            input_ids, segment_ids, layers.fold_in(dropout_seed, 0)
        )
        hidden = tf.cast(embedded, self.compute.dtype)
        if self.embedding_projection is not None:
            hidden = self.embedding_projection(hidden, cast=cast)  # [B, S, H]
        scale = cast.stream_scale
        if scale != 1.0:
            hidden = tf.cast(tf.cast(hidden, tf.float32) * scale, hidden.dtype)
        padding = 1.0 - tf.cast(input_mask, tf.float32)
        attention_bias = padding[:, None, None, :] * layers.MASKED_SCORE
        all_layers = []
        for depth, block in enumerate(self._block_at_depth):
            hidden = layers.apply(
                self.blocks[block],
                self.compute.remat == "block",
                cast,
                hidden,
                attention_bias=attention_bias,
                # Each application draws its own mask, though the block is the same.
                dropout_seed=layers.fold_in(dropout_seed, 1 + depth),
            )
            output = tf.cast(hidden, tf.float32)
            all_layers.append(output if scale == 1.0 else output / scale)
        sequence_output = all_layers[-1]
        pooled_output = tf.tanh(self.pooler(sequence_output[:, 0]))  # [B, H]
        return EncoderOutputs(
            embedded, tuple(all_layers), sequence_output, pooled_output
        )

    def cast_blocks(self) -> layers.CastOnce:
        """The weights of the blocks as they are now, to be cast no more.

        In the fused form they are those of a stream that is scaled: the same function
        but for rounding, with layer norms that are one operation each. Where nothing is
        to be cast or scaled, weights are read as ever.
        """
        dtype = tf.as_dtype(self.compute.dtype)
        if self.compute.fused:
            ratio = pointwise.ONEDNN_EPSILON / self.config.layer_norm_epsilon
            scale = ratio**0.5
            return layers.CastOnce(dtype, self._scaled_weights(dtype, scale), scale)
        known: dict[int, layers.Weight] = {}
        if dtype != tf.float32:
            for block in self.blocks:
                for variable in block.variables:
                    if len(variable.shape) > 1:
                        known[id(variable)] = tf.cast(variable, dtype)
        return layers.CastOnce(dtype, known)

    def _scaled_weights(
        self, dtype: tf.DType, scale: float
    ) -> dict[int, layers.Weight]:
        """The blocks' weights for a stream of hidden values times `scale`, by id.

        What reads the stream is divided by it, what is added to it is multiplied.
        Matrices are variables of `dtype`, so that a SavedModel keeps them beside its
        graph; vectors are constants of the graph, or nothing would be fused.
        """
        scaled: dict[int, layers.Weight] = {}

        def add(variable: tf.Variable, factor: float) -> None:
            if id(variable) not in scaled:  # blocks may have a part in common
                weight = variable.numpy() * np.float32(factor)
                if weight.ndim > 1:
                    name = variable.name.partition(":")[0]
                    weight = tf.Variable(
                        tf.cast(weight, dtype), trainable=False, name=f"{name}_scaled"
                    )
                scaled[id(variable)] = weight

        for block in self.blocks:
            for part in (block.attention, block.feed_forward):
                for reader in part.readers:
                    add(reader.kernel, 1 / scale)
                    add(reader.bias, 1.0)
                for adder in (part.output_projection, part.layer_norm):
                    for variable in adder.variables:
                        add(variable, scale)
        return scaled

    @property
    def block_at_depth(self) -> tuple[int, ...]:
        """For each block that is applied, in order, its place in `blocks`."""
        return tuple(self._block_at_depth)


def parts_at_depth(config: config_lib.ModelConfig) -> list[tuple[int, int]]:
    """Which attention and which feed-forward each block that is applied consists of.

    Args:
      config: its sharing, groups and inner groups.

    Returns:
      For each application, in order, the numbers of the two parts. Equal pairs are one
      block.
    """
    pairs = []
    for layer in range(config.num_layers):
        # Differs from the original: its division of floats rounds, so that layer 1 of
        # 49 in 49 groups gets the block of layer 0.
        group = layer * config.num_groups // config.num_layers
        for inner in range(config.num_inner_groups):
            shared = group * config.num_inner_groups + inner
            own = layer * config.num_inner_groups + inner
            pairs.append(
                (
                    shared if config.sharing in ("all", "attention") else own,
                    shared if config.sharing in ("all", "feed_forward") else own,
                )
            )
    return pairs


def _make_blocks(
    config: config_lib.ModelConfig,
    initializer: layers.TruncatedNormal,
    compute: layers.Compute,
) -> tuple[list[layers.TransformerEncoderBlock], list[int]]:
    """The blocks, each once, and for each depth the index of the one applied there."""
    attentions: dict[int, layers.SelfAttention] = {}
    feed_forwards: dict[int, layers.FeedForward] = {}
    pairs = parts_at_depth(config)
    distinct = list(dict.fromkeys(pairs))
    blocks = []
    for index, (attention, feed_forward) in enumerate(distinct):
        name = f"block_{index}"
        child = initializer.child(name)
        if attention not in attentions:
            attentions[attention] = layers.SelfAttention(
                config, child.child("attention"), compute=compute
            )
        if feed_forward not in feed_forwards:
            feed_forwards[feed_forward] = layers.FeedForward(
                config, child.child("feed_forward"), compute=compute
            )
        blocks.append(
            layers.TransformerEncoderBlock(
                attentions[attention], feed_forwards[feed_forward], name, compute
            )
        )
    return blocks, [distinct.index(pair) for pair in pairs]
