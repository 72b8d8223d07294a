"""The encoder: factorized embeddings and one block, or more, over the depth."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import tensorflow as tf

from albert_tf.core import config as config_lib
from albert_tf.model import compute as compute_lib
from albert_tf.model import (
    elementwise_ops,
    layers,
    sharing,
    stateless_random,
    transformer,
)


class EncoderOutputs(NamedTuple):
    """Outputs of the encoder for a batch.

    embedding_output: float32 [B, S, E], before the projection to H.
    all_layers: a float32 [B, S, H] per block application: L times `num_inner_groups`.
    sequence_output: float32 [B, S, H], the last of `all_layers`.
    pooled_output: float32 [B, H], tanh of a dense layer on the first token.
    """

    embedding_output: tf.Tensor
    all_layers: tuple[tf.Tensor, ...]
    sequence_output: tf.Tensor
    pooled_output: tf.Tensor


class TextEncoder(Protocol):
    """What a task's model takes instead of its `Encoder`.

    Both methods take `input_ids`, `input_mask` and `segment_ids`, int32 [B, S] each.
    """

    def __call__(self, input_ids, input_mask, segment_ids) -> EncoderOutputs:
        """Encodes a batch."""

    def pooled_output(self, input_ids, input_mask, segment_ids) -> tf.Tensor:
        """Computes the pooled output alone, float32 [B, H]."""


class Packing(NamedTuple):
    """Where the sequences of packed rows are: by their numbers, or by their length.

    position_ids: the place of each token in its sequence, int32 [B, S].
    sequence_numbers: of the sequence of each token, from 1 on; 0 at padding; int32
      [B, S]. None with `sequence_length`.
    sequence_length: of each sequence, int32 [], or None. A row has
      S // `sequence_length` of them, one after another, and then padding. The
      probabilities of all queries are in memory, whatever `Compute.queries_at_once`.
    """

    position_ids: tf.Tensor
    sequence_numbers: tf.Tensor | None = None
    sequence_length: tf.Tensor | None = None


class Encoder(layers.Layer):
    """Embeddings, then one block, or several, applied over the depth (section 3.1).

    If everything is shared, a single `TransformerEncoderBlock` object is applied at
    every layer. `blocks` holds each block once, in order of first use.
    """

    def __init__(
        self,
        config: config_lib.ModelConfig,
        initializer: stateless_random.TruncatedNormal,
        compute: compute_lib.Compute = compute_lib.DEFAULT,
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
        # With E = H, as in BERT, there is no projection.
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
        self._has_dropout = bool(
            config.hidden_dropout_rate or config.attention_dropout_rate
        )

    def call(
        self,
        input_ids,
        input_mask,
        segment_ids,
        dropout_seed=None,
        weights: compute_lib.WeightCache | None = None,
    ) -> EncoderOutputs:
        """Encodes a batch.

        Args:
          input_ids: int32 [B, S], S at most `max_positions`.
          input_mask: int32 [B, S], 1 at tokens, 0 at padding.
          segment_ids: int32 [B, S].
          dropout_seed: int32 [2] of the step and the replica, or None.
          weights: gives the variables as tensors; by default reads each once.
        """
        weights = weights or compute_lib.WeightCache(self.compute.dtype)
        embedded, hidden = self.embed(input_ids, segment_ids, weights, dropout_seed)
        all_layers = self.apply_blocks(hidden, input_mask, weights, dropout_seed)
        return self.outputs(embedded, [tf.cast(h, tf.float32) for h in all_layers])

    def encode_at(
        self,
        input_ids,
        input_mask,
        segment_ids,
        positions,
        dropout_seed=None,
        weights: compute_lib.WeightCache | None = None,
        packing: Packing | None = None,
    ):
        """Encodes a batch at some positions only, which saves most of the last layer.

        Args:
          input_ids: int32 [B, S].
          input_mask: as in `call`; None with `packing`.
          segment_ids: as in `call`.
          positions: int32 [B, P]; with sequences of one length equally many of each, in
            the order of the sequences.
          dropout_seed: as in `call`.
          weights: as in `call`.
          packing: of packed rows; None if a row is one sequence.

        Returns:
          `sequence_output` at the positions, float32 [B, P, H].
        """
        weights = weights or compute_lib.WeightCache(self.compute.dtype)
        # Keras names the operations of `call` so.
        with tf.name_scope(self.name):
            _, hidden = self.embed(
                input_ids, segment_ids, weights, dropout_seed, packing
            )
            *_, last = self.apply_blocks(
                hidden, input_mask, weights, dropout_seed, positions, packing
            )
        return tf.cast(last, tf.float32)

    def pooled_output(self, input_ids, input_mask, segment_ids, dropout_seed=None):
        """Computes `pooled_output` of `call` alone, without most of the last layer.

        It is that of `call`, but for rounding and the masks of dropout in that layer.
        Takes what `call` takes, and returns float32 [B, H].
        """
        hidden = self.encode_at(
            input_ids,
            input_mask,
            segment_ids,
            first_positions(input_ids),
            dropout_seed,
        )  # [B, 1, H]
        with tf.name_scope(self.name):
            return self.pool(hidden[:, 0])

    def embed(
        self,
        input_ids,
        segment_ids,
        weights: compute_lib.WeightCache,
        dropout_seed=None,
        packing: Packing | None = None,
    ):
        """Returns embeddings float32 [B, S, E], and their projection [B, S, H].

        The projection has the dtype of the products. Takes what `encode_at` takes.
        """
        embedded = self.embeddings(
            input_ids,
            segment_ids,
            self._seed_of_part(dropout_seed, 0),
            packing.position_ids if packing else None,
        )
        hidden = tf.cast(embedded, self.compute.dtype)
        if self.embedding_projection is not None:
            hidden = self.embedding_projection(hidden, weights=weights)  # [B, S, H]
        return embedded, hidden

    def apply_blocks(
        self,
        hidden,
        input_mask,
        weights: compute_lib.WeightCache,
        dropout_seed=None,
        positions=None,
        packing: Packing | None = None,
    ) -> list[tf.Tensor]:
        """Applies the blocks over the depth.

        Args:
          hidden: float [B, S, H].
          input_mask: as in `encode_at`.
          weights: as in `call`.
          dropout_seed: as in `call`.
          positions: int32 [B, P], where the last block application is needed; None
            means everywhere. The others are needed everywhere, as keys and values.
          packing: as in `encode_at`.

        Returns:
          For each block application [B, S, H] of the dtype of `hidden`; the last is
          [B, P, H] with `positions`.
        """
        attention_bias = None
        if not packing:
            padding = 1.0 - tf.cast(input_mask, tf.float32)
            attention_bias = (
                padding[:, None, None, :] * elementwise_ops.MASKED_SCORE
            )  # [B, 1, 1, S]
        all_layers: list[tf.Tensor] = []
        last = len(self._block_at_depth) - 1
        for depth, block in enumerate(self._block_at_depth):
            hidden = compute_lib.maybe_recompute(
                self.blocks[block],
                self.compute.remat == "block",
                weights,
                hidden,
                attention_bias=attention_bias,
                # Each application draws its own mask, even if the block is the same.
                dropout_seed=self._seed_of_part(dropout_seed, 1 + depth),
                positions=positions if depth == last else None,
                sequence_numbers=packing.sequence_numbers if packing else None,
                sequence_length=packing.sequence_length if packing else None,
            )
            all_layers.append(hidden)
        return all_layers

    def _seed_of_part(self, dropout_seed, number: int):
        """Returns the seed of a part, int32 [2]; None without dropout.

        Each part of a block would derive seeds from it, for nothing: one in twelve
        operations of a small training.
        """
        if not self._has_dropout:
            return None
        return stateless_random.fold_in(dropout_seed, number)

    def outputs(self, embedded, all_layers: Sequence[tf.Tensor]) -> EncoderOutputs:
        """Adds the pooled output to embeddings and layers, float32 as in the result."""
        last = all_layers[-1]
        return EncoderOutputs(embedded, tuple(all_layers), last, self.pool(last[:, 0]))

    def pool(self, first):
        """Maps first tokens, float32 [..., H], to the pooled output of that shape."""
        return tf.tanh(self.pooler(first))

    @property
    def block_at_depth(self) -> tuple[int, ...]:
        """The index in `blocks` of each block application, in order."""
        return tuple(self._block_at_depth)


def first_positions(input_ids):
    """Returns the position of the first token of each row, as int32 [B, 1]."""
    return tf.zeros_like(input_ids[:, :1])


def _make_blocks(
    config: config_lib.ModelConfig,
    initializer: stateless_random.TruncatedNormal,
    compute: compute_lib.Compute,
) -> tuple[list[transformer.TransformerEncoderBlock], list[int]]:
    """Returns the distinct blocks, and the index of the one at each depth."""
    attentions: dict[int, transformer.SelfAttention] = {}
    feed_forwards: dict[int, transformer.FeedForward] = {}
    pairs = sharing.parts_at_depth(config)
    distinct = list(dict.fromkeys(pairs))
    blocks = []
    for index, (attention, feed_forward) in enumerate(distinct):
        name = f"block_{index}"
        child = initializer.child(name)
        if attention not in attentions:
            attentions[attention] = transformer.SelfAttention(
                config, child.child("attention"), compute=compute
            )
        if feed_forward not in feed_forwards:
            feed_forwards[feed_forward] = transformer.FeedForward(
                config, child.child("feed_forward"), compute=compute
            )
        blocks.append(
            transformer.TransformerEncoderBlock(
                attentions[attention], feed_forwards[feed_forward], name, compute
            )
        )
    return blocks, [distinct.index(pair) for pair in pairs]
