"""The transformer block: self-attention and feed-forward.

Shapes: B batch, S sequence, H hidden, N heads, D head size, F feed-forward size. For
dtypes and dropout see `layers`.
"""

import abc

import tensorflow as tf

from albert_tf.core import config as config_lib
from albert_tf.model import compute as compute_lib
from albert_tf.model import (
    elementwise_ops,
    layers,
    query_parts,
    stateless_random,
    xla_fused_ops,
)


class BlockPart(layers.Layer):
    """Base of a block's two parts: projection to H, residual sum, layer norm.

    Layers share a whole part, with its layer norm, or none of it.
    """

    def __init__(
        self,
        config: config_lib.ModelConfig,
        initializer: stateless_random.TruncatedNormal,
        name: str,
        compute: compute_lib.Compute,
    ):
        super().__init__(name, compute)
        self.config = config
        self.output_projection = layers.Dense(
            config.hidden_size, initializer.child("output"), "output", compute=compute
        )
        self.layer_norm = layers.LayerNorm(config.layer_norm_epsilon, compute=compute)

    @property
    @abc.abstractmethod
    def input_projections(self) -> tuple[layers.Dense, ...]:
        """The dense layers that read the hidden states."""

    def project_add_norm(
        self, hidden, inner, dropout_seed, weights: compute_lib.WeightCache
    ):
        """Projects float [B, S, inner] to H, adds `hidden`, and normalizes."""
        rate = self.config.hidden_dropout_rate
        drops = dropout_seed is not None and rate > 0.0
        # As rows, so that no reshape separates the product from the sum.
        inner = layers.as_rows(inner)
        projected = self.output_projection(inner, weights=weights, add_bias=drops)
        bias = weights(self.output_projection.bias)
        if drops:
            projected = stateless_random.dropout(projected, rate, dropout_seed)
            bias = tf.zeros_like(bias)  # added before dropout
        return self.layer_norm(projected, residual=hidden, bias=bias, weights=weights)


class SelfAttention(BlockPart):
    """Multi-head self-attention (Vaswani et al., 2017), up to its layer norm."""

    def __init__(
        self,
        config: config_lib.ModelConfig,
        initializer: stateless_random.TruncatedNormal,
        name: str = "attention",
        compute: compute_lib.Compute = compute_lib.DEFAULT,
    ):
        super().__init__(config, initializer, name, compute)
        self.query, self.key, self.value = (
            layers.Dense(
                config.hidden_size, initializer.child(part), part, compute=compute
            )
            for part in ("query", "key", "value")
        )

    def call(
        self,
        hidden,
        attention_bias,
        dropout_seed=None,
        weights: compute_lib.WeightCache | None = None,
        positions=None,
        sequence_numbers=None,
        sequence_length=None,
    ):
        """Computes attention from all positions, or from some, to all.

        Args:
          hidden: float [B, S, H].
          attention_bias: float32 [B, 1, 1, S], added to the scores; unused with
            `sequence_numbers` or `sequence_length`.
          dropout_seed: int32 [2] or None.
          weights: gives the variables as tensors.
          positions: int32 [B, P], where the result is needed; None means everywhere,
            and then P is S below.
          sequence_numbers: int32 [B, S]: each position sees those with its number. None
            means that rows are not packed, or by `sequence_length`.
          sequence_length: int32 []: each position sees the sequence of this length that
            it is in, see `encoder.Packing`. `positions` must be equally many of each
            sequence of a row, in the order of the sequences.

        Returns:
          float [B, P, H] of the dtype of `hidden`.
        """
        weights = weights or compute_lib.WeightCache(hidden.dtype)
        queried, query_length = hidden, sequence_length
        if positions is not None:
            queried = tf.gather(hidden, positions, batch_dims=1)  # [B, P, H]
            if sequence_length is not None:
                num_sequences = layers.shape_of(hidden)[1] // sequence_length
                query_length = layers.shape_of(queried)[1] // num_sequences
        # With sequences of one length, B is their number in all rows from here on.
        query, key, value = (
            self._split_heads(project(inputs, weights=weights), length)
            for project, inputs, length in (
                (self.query, queried, query_length),
                (self.key, hidden, sequence_length),
                (self.value, hidden, sequence_length),
            )
        )
        numbers = sequence_numbers
        if numbers is not None and positions is not None:
            numbers = tf.gather(numbers, positions, batch_dims=1)  # [B, P]

        def attend(query, query_numbers, key, value, seed):
            scores = tf.matmul(query, key, transpose_b=True)  # [B, N, P, S]
            probabilities = self._softmax(
                scores, attention_bias, query_numbers, sequence_numbers
            )
            probabilities = stateless_random.dropout(
                probabilities, self.config.attention_dropout_rate, seed
            )
            return tf.matmul(probabilities, value)  # [B, N, P, D]

        if sequence_length is not None:
            attention_bias = tf.zeros([1, 1, 1, 1])  # there is no padding in sequences
        seed = stateless_random.fold_in(dropout_seed, 0)
        arguments = query, numbers, key, value, seed
        queries_at_once = self.compute.queries_at_once
        if query_parts.has_parts(query, queries_at_once):
            context = query_parts.attend(attend, *arguments, queries_at_once)
        else:
            context = attend(*arguments)
        context = tf.transpose(context, [0, 2, 1, 3])  # [B, P, N, D]
        if sequence_length is not None:
            context = _join(context, queried)
        context = tf.reshape(context, layers.shape_of(queried))
        return self.project_add_norm(
            queried, context, stateless_random.fold_in(dropout_seed, 1), weights
        )

    @property
    def input_projections(self) -> tuple[layers.Dense, ...]:
        """The dense layers that read the hidden states."""
        return self.query, self.key, self.value

    def _softmax(self, scores, attention_bias, query_numbers, key_numbers):
        """Returns the probabilities [B, N, P, S] of float [B, N, P, S]."""
        head_size = self.config.hidden_size // self.config.num_heads
        scale = head_size**-0.5
        fuses = self.fuses(scores)
        if key_numbers is not None:
            if fuses:
                return xla_fused_ops.packed_softmax(
                    scores, query_numbers, key_numbers, scale
                )
            attention_bias = elementwise_ops.packed_bias(query_numbers, key_numbers)
        elif fuses:
            return xla_fused_ops.softmax(scores, attention_bias, scale)
        return elementwise_ops.softmax(
            scores, attention_bias, scale, self.compute.elementwise_dtype
        )

    def _split_heads(self, projected, sequence_length):
        """Returns [B, N, S, D] of float [B, S, H], or of each sequence in it."""
        head_size = self.config.hidden_size // self.config.num_heads
        number, length = layers.shape_of(projected)[:2]
        if sequence_length is not None:
            in_row = length // sequence_length
            projected = projected[:, : in_row * sequence_length]  # without padding
            number, length = number * in_row, sequence_length
        shape = [number, length, self.config.num_heads, head_size]
        return tf.transpose(tf.reshape(projected, shape), [0, 2, 1, 3])


def _join(context, queried):
    """Returns [sequences, their length, N, D] as [B, P, H] like `queried`, padded."""
    num_rows, length, size = layers.shape_of(queried)
    rows = tf.reshape(context, [num_rows, -1, size])  # [B, P without padding, H]
    return tf.pad(rows, [[0, 0], [0, length - tf.shape(rows)[1]], [0, 0]])


class FeedForward(BlockPart):
    """Two dense layers around an activation function, up to the layer norm."""

    def __init__(
        self,
        config: config_lib.ModelConfig,
        initializer: stateless_random.TruncatedNormal,
        name: str = "feed_forward",
        compute: compute_lib.Compute = compute_lib.DEFAULT,
    ):
        super().__init__(config, initializer, name, compute)
        self.intermediate = layers.Dense(
            config.intermediate_size,
            initializer.child("intermediate"),
            "intermediate",
            config.activation,
            compute,
        )

    @property
    def input_projections(self) -> tuple[layers.Dense, ...]:
        """The dense layers that read the hidden states."""
        return (self.intermediate,)

    def call(
        self, hidden, dropout_seed=None, weights: compute_lib.WeightCache | None = None
    ):
        """Maps float [B, S, H] to the same shape and dtype.

        Args:
          hidden: float [B, S, H].
          dropout_seed: int32 [2] or None.
          weights: gives the variables as tensors.
        """
        weights = weights or compute_lib.WeightCache(hidden.dtype)
        expanded = self.intermediate(hidden, weights=weights)  # [B, S, F]
        return self.project_add_norm(hidden, expanded, dropout_seed, weights)


class TransformerEncoderBlock(layers.Layer):
    """Attention and feed-forward: one layer of the encoder (paper, section 3.1).

    Its two parts are arguments, since blocks may share them.
    """

    def __init__(
        self,
        attention: SelfAttention,
        feed_forward: FeedForward,
        name: str,
        compute: compute_lib.Compute = compute_lib.DEFAULT,
    ):
        super().__init__(name, compute)
        self.attention = attention
        self.feed_forward = feed_forward

    def call(
        self,
        hidden,
        attention_bias,
        dropout_seed=None,
        weights: compute_lib.WeightCache | None = None,
        positions=None,
        sequence_numbers=None,
        sequence_length=None,
    ):
        """Applies attention and feed-forward.

        Args:
          hidden: float [B, S, H].
          attention_bias: float32 [B, 1, 1, S].
          dropout_seed: int32 [2] for this application of the block, or None.
          weights: gives the variables as tensors.
          positions: int32 [B, P], where the result is needed; None means everywhere,
            and then P is S.
          sequence_numbers: int32 [B, S] of packed rows, or None.
          sequence_length: int32 [] of packed rows, or None; see `SelfAttention`.

        Returns:
          float [B, P, H] of the dtype of `hidden`.
        """
        weights = weights or compute_lib.WeightCache(hidden.dtype)
        hidden = compute_lib.maybe_recompute(
            self.attention,
            self.compute.remat == "attention",
            weights,
            hidden,
            attention_bias=attention_bias,
            dropout_seed=stateless_random.fold_in(dropout_seed, 0),
            positions=positions,
            sequence_numbers=sequence_numbers,
            sequence_length=sequence_length,
        )
        return self.feed_forward(
            hidden, stateless_random.fold_in(dropout_seed, 1), weights
        )
