"""The layers of the encoder: embeddings, attention, feed-forward, and their block.

Shapes: B batch, S sequence, E embedding, H hidden, N heads, D head size; rows are
B * S. Weights are kept in float32. Matrix products run in the dtype of the activations
that come in; softmax, activation function and layer norm in float32, but see `Compute`.

Dropout is stateless. A layer is given `dropout_seed` (int32 [2]) for the step, the
replica and the depth at hand, and draws from that alone; None means no dropout.
"""

import abc
import zlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import tensorflow as tf
import tf_keras

from albert_tf import config as config_lib
from albert_tf import islands, pointwise

# What the original adds to the score of a padded position.
MASKED_SCORE = -10000.0


class Compute(NamedTuple):
    """How a model computes what its configuration says.

    dtype: of activations and matrix products.
    islands: whether what lies between the products is compiled by itself, which is the
      fastest form on a CPU where shapes are static.
    remat: what the backward pass computes again instead of keeping: "none",
      "attention", or each "block".
    fused: whether activation function and softmax are computed in `dtype` too, and not
      in float32. For serving: on CPUs oneDNN then makes each one operation with the
      product before it, with float32 inside. Elsewhere each step is rounded to `dtype`.
    """

    dtype: str = "float32"
    islands: bool = False
    remat: str = "none"
    fused: bool = False


PLAIN = Compute()


# A variable, a tensor or an array: what can be read in the place of a variable.
Weight = Any


class CastOnce:
    """Gives variables as tensors in the dtype of the products, each cast once.

    One lives as long as one pass through a model. There a shared variable would
    otherwise be read and cast at every layer, and each layer's gradient cast back.

    Attributes:
      stream_scale: what the hidden values between the blocks are multiplied by, so that
        `pointwise.ONEDNN_EPSILON` is to them what the model's epsilon is to its own.
        1 where the weights are the model's.
    """

    def __init__(
        self,
        dtype,
        known: Mapping[int, Weight] | None = None,
        stream_scale: float = 1.0,
    ):
        """Takes what is known already.

        Args:
          dtype: of the products.
          known: by ids of variables, what is to be read in their place.
          stream_scale: as the attribute.
        """
        self._dtype = dtype
        self._known = known or {}
        self._tensors: dict[int, tf.Tensor] = {}
        self.stream_scale = stream_scale

    def __call__(self, variable: tf.Variable) -> tf.Tensor:
        """`variable` as a tensor: matrices in the dtype, vectors in float32."""
        key = id(variable)
        if key not in self._tensors:
            dtype = self._dtype if len(variable.shape) > 1 else tf.float32
            weight = tf.convert_to_tensor(self._known.get(key, variable))
            self._tensors[key] = tf.cast(weight, dtype)
        return self._tensors[key]

    def weights_to_save(self, variables: Iterable[tf.Variable]) -> list[tf.Variable]:
        """What is read of `variables`, or in their place."""
        kept = [one for one in variables if id(one) not in self._known]
        copies = [one for one in self._known.values() if isinstance(one, tf.Variable)]
        return kept + copies

    def copy(self) -> "CastOnce":
        """One that knows what this one was made with, and learns by itself."""
        return CastOnce(self._dtype, self._known, self.stream_scale)

    def knowing(self, variables, tensors: Iterable[tf.Tensor]) -> "CastOnce":
        """One that gives `tensors` for `variables`."""
        known = {
            id(variable): tensor
            for variable, tensor in zip(variables, tensors, strict=True)
        }
        return CastOnce(self._dtype, known, self.stream_scale)


def apply(layer: "Layer", recompute: bool, cast: CastOnce, hidden, **arguments):
    """`layer(hidden, cast=cast, **arguments)`, for `hidden` float [B, S, H].

    With `recompute` nothing but `hidden` and the weights is kept for the backward
    pass, which computes the layer again (Chen et al., "Training deep nets with
    sublinear memory cost", 2016).
    """
    # A layer that is not built yet has no weights to hand over.
    if not (recompute and layer.built):
        return layer(hidden, cast=cast, **arguments)
    variables = layer.trainable_variables

    def run(hidden, *tensors):
        return layer(hidden, cast=cast.knowing(variables, tensors), **arguments)

    return tf.recompute_grad(run)(hidden, *map(cast, variables))


class TruncatedNormal(tf_keras.initializers.Initializer):
    """Truncated normal drawn from a key of its own, not from a global generator.

    `child(name)` gives an independent initializer, so that every weight of a model
    follows from one seed and the weight's place in the model.
    """

    def __init__(self, stddev: float, seed: int):
        self.stddev = stddev
        self.seed = seed

    def child(self, name: str) -> "TruncatedNormal":
        """The initializer for the part called `name`."""
        return TruncatedNormal(self.stddev, zlib.crc32(name.encode(), self.seed))

    def __call__(self, shape, dtype=None, **unused_kwargs):
        """Draws values.

        Args:
          shape: shape of the result.
          dtype: dtype of the result; float32 if None.
          **unused_kwargs: what Keras passes besides, such as a layout.
        """
        return tf.random.stateless_truncated_normal(
            shape,
            seed=[self.seed, 0],
            stddev=self.stddev,
            dtype=dtype or tf.float32,
            alg="philox",
        )

    def get_config(self):
        """The constructor's arguments."""
        return {"stddev": self.stddev, "seed": self.seed}


def fold_in(dropout_seed, number: int):
    """A new int32 [2] key for part `number` of what `dropout_seed` is for, or None."""
    if dropout_seed is None:
        return None
    return tf.random.experimental.stateless_fold_in(dropout_seed, number, alg="philox")


def dropout(inputs, rate: float, dropout_seed):
    """`inputs` with a share `rate` zeroed and the rest scaled up, same shape."""
    if dropout_seed is None or rate == 0.0:
        return inputs
    return tf.nn.experimental.stateless_dropout(
        inputs, rate, seed=dropout_seed, rng_alg="philox"
    )


def shape_of(tensor) -> list:
    """The shape: integers where they are known, scalars of the graph elsewhere."""
    dynamic = tf.shape(tensor)
    return [
        dynamic[axis] if size is None else size
        for axis, size in enumerate(tensor.shape.as_list())
    ]


def as_rows(tensor):
    """Float [..., size] as the matrix [all but the last, size]."""
    return (
        tensor if tensor.shape.rank == 2 else tf.reshape(tensor, [-1, tensor.shape[-1]])
    )


class Layer(tf_keras.layers.Layer):
    """The base of all layers here: float32 weights, inputs never cast unasked."""

    def __init__(self, name: str, compute: Compute = PLAIN):
        super().__init__(name=name, dtype=tf.float32, autocast=False)
        self.compute = compute

    def between_products(self, function: Callable, *inputs, **settings):
        """`function(*inputs, **settings)`, as an island where those are wanted."""
        if self.uses_islands(inputs[0]):
            function = islands.compiled(function, **settings)
            return function(*inputs)
        return function(*inputs, **settings)

    def inner_dtype(self, product) -> tf.DType:
        """What activation function and softmax of a `product` are computed in."""
        return product.dtype if self.compute.fused else tf.float32

    def uses_islands(self, tensor) -> bool:
        """Whether to compile what reads `tensor`: XLA does so anew for each shape."""
        return self.compute.islands and tensor.shape.is_fully_defined()


class Dense(Layer):
    """`inputs @ kernel + bias` over the last axis, and an activation function."""

    def __init__(
        self,
        units: int,
        initializer: TruncatedNormal,
        name: str,
        activation: str | None = None,
        compute: Compute = PLAIN,
    ):
        super().__init__(name, compute)
        self.units = units
        self.initializer = initializer
        self.activation = activation

    def build(self, input_shape):
        """Makes `kernel` [inputs, units] and `bias` [units]."""
        self.kernel = self.add_weight(
            name="kernel",
            shape=[input_shape[-1], self.units],
            initializer=self.initializer.child("kernel"),
        )
        self.bias = self.add_weight(
            name="bias", shape=[self.units], initializer="zeros"
        )
        super().build(input_shape)

    def call(self, inputs, cast: CastOnce | None = None, add_bias: bool = True):
        """Maps float [..., inputs] to [..., units] of the same dtype.

        Without `add_bias` it is the product alone: whoever fuses the bias with what
        comes next adds it.
        """
        cast = cast or CastOnce(inputs.dtype)
        # One product of matrices: over a batch of them the kernel's gradient would be
        # made once a sequence and then summed.
        rows = as_rows(inputs)  # [all but the last, inputs]
        rows = tf.matmul(rows, cast(self.kernel))
        if add_bias and self.activation:
            rows = self.between_products(
                pointwise.biased_activation,
                rows,
                cast(self.bias),
                activation=self.activation,
                dtype=self.inner_dtype(rows),
            )
        elif add_bias:
            rows = tf.nn.bias_add(rows, tf.cast(cast(self.bias), rows.dtype))
        if inputs.shape.rank == 2:
            return rows
        return tf.reshape(rows, [*shape_of(inputs)[:-1], self.units])


class LayerNorm(Layer):
    """Layer normalisation over the last axis, computed in float32 (Ba et al., 2016)."""

    def __init__(
        self,
        epsilon: float,
        name: str = "layer_norm",
        compute: Compute = PLAIN,
    ):
        super().__init__(name, compute)
        self.epsilon = epsilon

    def build(self, input_shape):
        """Makes `gamma` and `beta`, both [size of the last axis]."""
        shape = [input_shape[-1]]
        self.gamma = self.add_weight(name="gamma", shape=shape, initializer="ones")
        self.beta = self.add_weight(name="beta", shape=shape, initializer="zeros")
        super().build(input_shape)

    def call(self, inputs, residual=None, bias=None, cast: CastOnce | None = None):
        """Normalises `inputs`, or the sum of `residual`, `inputs` and `bias`.

        Args:
          inputs: float [..., size]; with `residual` perhaps its rows, [rows, size].
          residual: float [..., size] of the same dtype, or None.
          bias: float32 [size]; goes with `residual`.
          cast: what gives the weights as tensors.

        Returns:
          Float of the dtype of `inputs`, shaped as `residual` where there is one.
        """
        cast = cast or CastOnce(inputs.dtype)
        gamma, beta = cast(self.gamma), cast(self.beta)
        if residual is None:
            return pointwise.normalize(inputs, gamma, beta, self.epsilon)
        is_scaled = cast.stream_scale != 1.0
        epsilon = pointwise.ONEDNN_EPSILON if is_scaled else self.epsilon
        rows = as_rows(residual), as_rows(inputs)
        normed = self.between_products(
            pointwise.normalize_sum, *rows, bias, gamma, beta, epsilon=epsilon
        )
        return tf.reshape(normed, shape_of(residual))


class Embeddings(Layer):
    """Sum of word, position and segment embeddings, normalised (paper, section 3.1)."""

    def __init__(
        self,
        vocab_size: int,
        embedding_size: int,
        max_positions: int,
        type_vocab_size: int,
        dropout_rate: float,
        layer_norm_epsilon: float,
        initializer: TruncatedNormal,
        name: str = "embeddings",
    ):
        super().__init__(name)
        self.vocab_size = vocab_size
        self.embedding_size = embedding_size
        self.max_positions = max_positions
        self.type_vocab_size = type_vocab_size
        self.dropout_rate = dropout_rate
        self.initializer = initializer
        self.layer_norm = LayerNorm(layer_norm_epsilon)

    def build(self, input_shape):
        """Makes the three tables: [V, E], [max_positions, E], [type_vocab_size, E]."""
        for name, rows in (
            ("word_embeddings", self.vocab_size),
            ("position_embeddings", self.max_positions),
            ("token_type_embeddings", self.type_vocab_size),
        ):
            table = self.add_weight(
                name=name,
                shape=[rows, self.embedding_size],
                initializer=self.initializer.child(name),
            )
            setattr(self, name, table)
        super().build(input_shape)

    def call(self, input_ids, segment_ids, dropout_seed=None):
        """Looks the tokens up.

        Args:
          input_ids: int32 [B, S].
          segment_ids: int32 [B, S].
          dropout_seed: int32 [2] or None.

        Returns:
          float32 [B, S, E].
        """
        length = tf.shape(input_ids)[1]
        summed = tf.gather(self.word_embeddings, input_ids)  # [B, S, E]
        summed += self.position_embeddings[:length]  # [S, E], the same for each row
        summed += tf.gather(self.token_type_embeddings, segment_ids)
        return dropout(self.layer_norm(summed), self.dropout_rate, dropout_seed)


class BlockPart(Layer):
    """What both parts of a block have: projection to H, residual, layer norm.

    A part, with its layer norm, is what layers share or do not share.
    """

    def __init__(
        self,
        config: config_lib.ModelConfig,
        initializer: TruncatedNormal,
        name: str,
        compute: Compute,
    ):
        super().__init__(name, compute)
        self.config = config
        self.output_projection = Dense(
            config.hidden_size, initializer.child("output"), "output", compute=compute
        )
        self.layer_norm = LayerNorm(config.layer_norm_epsilon, compute=compute)

    @property
    @abc.abstractmethod
    def readers(self) -> tuple[Dense, ...]:
        """The layers that read what comes in."""

    def add_to_residual(self, hidden, inner, dropout_seed, cast: CastOnce):
        """Projects float [B, S, inner] to H, adds `hidden`, and normalises."""
        rate = self.config.hidden_dropout_rate
        drops = dropout_seed is not None and rate > 0.0
        # As rows, so that nothing stands between the product and what is added to it.
        inner = as_rows(inner)
        projected = self.output_projection(inner, cast=cast, add_bias=drops)
        bias = cast(self.output_projection.bias)
        if drops:
            projected = dropout(projected, rate, dropout_seed)
            bias = tf.zeros_like(bias)  # it is in, and was dropped with the rest
        return self.layer_norm(projected, residual=hidden, bias=bias, cast=cast)


class SelfAttention(BlockPart):
    """Multi-head self-attention (Vaswani et al., 2017), up to its layer norm."""

    def __init__(
        self,
        config: config_lib.ModelConfig,
        initializer: TruncatedNormal,
        name: str = "attention",
        compute: Compute = PLAIN,
    ):
        super().__init__(config, initializer, name, compute)
        self.query, self.key, self.value = (
            Dense(config.hidden_size, initializer.child(part), part, compute=compute)
            for part in ("query", "key", "value")
        )

    def call(
        self, hidden, attention_bias, dropout_seed=None, cast: CastOnce | None = None
    ):
        """Lets every position attend to every other.

        Args:
          hidden: float [B, S, H].
          attention_bias: float32 [B, 1, 1, S], added to the scores.
          dropout_seed: int32 [2] or None.
          cast: what gives the weights as tensors.

        Returns:
          float [B, S, H] of the dtype of `hidden`.
        """
        cast = cast or CastOnce(hidden.dtype)
        query, key, value = (
            self._split_heads(project(hidden, cast=cast))
            for project in (self.query, self.key, self.value)
        )
        scores = tf.matmul(query, key, transpose_b=True)  # [B, N, S, S]
        scale = query.shape[-1] ** -0.5
        if self.uses_islands(scores):
            probabilities = islands.softmax(scores, attention_bias, scale)
        else:
            probabilities = pointwise.softmax(
                scores, attention_bias, scale, self.inner_dtype(scores)
            )
        probabilities = dropout(
            probabilities,
            self.config.attention_dropout_rate,
            fold_in(dropout_seed, 0),
        )
        context = tf.matmul(probabilities, value)  # [B, N, S, D]
        context = tf.transpose(context, [0, 2, 1, 3])  # [B, S, N, D]
        context = tf.reshape(context, shape_of(hidden))
        return self.add_to_residual(hidden, context, fold_in(dropout_seed, 1), cast)

    @property
    def readers(self) -> tuple[Dense, ...]:
        """The layers that read what comes in."""
        return self.query, self.key, self.value

    def _split_heads(self, projected):
        head_size = self.config.hidden_size // self.config.num_heads
        shape = [*shape_of(projected)[:2], self.config.num_heads, head_size]
        return tf.transpose(tf.reshape(projected, shape), [0, 2, 1, 3])  # [B, N, S, D]


class FeedForward(BlockPart):
    """Two dense layers with an activation function between, up to the layer norm."""

    def __init__(
        self,
        config: config_lib.ModelConfig,
        initializer: TruncatedNormal,
        name: str = "feed_forward",
        compute: Compute = PLAIN,
    ):
        super().__init__(config, initializer, name, compute)
        self.intermediate = Dense(
            config.intermediate_size,
            initializer.child("intermediate"),
            "intermediate",
            config.activation,
            compute,
        )

    @property
    def readers(self) -> tuple[Dense, ...]:
        """The layers that read what comes in."""
        return (self.intermediate,)

    def call(self, hidden, dropout_seed=None, cast: CastOnce | None = None):
        """Maps float [B, S, H] to the same shape and dtype.

        Args:
          hidden: float [B, S, H].
          dropout_seed: int32 [2] or None.
          cast: what gives the weights as tensors.
        """
        cast = cast or CastOnce(hidden.dtype)
        expanded = self.intermediate(hidden, cast=cast)  # [B, S, intermediate_size]
        return self.add_to_residual(hidden, expanded, dropout_seed, cast)


class TransformerEncoderBlock(Layer):
    """Attention and feed-forward: one layer of the encoder (paper, section 3.1).

    Its two parts are given, since blocks may have one in common.
    """

    def __init__(
        self,
        attention: SelfAttention,
        feed_forward: FeedForward,
        name: str,
        compute: Compute = PLAIN,
    ):
        super().__init__(name, compute)
        self.attention = attention
        self.feed_forward = feed_forward

    def call(
        self, hidden, attention_bias, dropout_seed=None, cast: CastOnce | None = None
    ):
        """One layer of the encoder.

        Args:
          hidden: float [B, S, H].
          attention_bias: float32 [B, 1, 1, S].
          dropout_seed: int32 [2] for this application of the block, or None.
          cast: what gives the weights as tensors.

        Returns:
          float [B, S, H] of the dtype of `hidden`.
        """
        cast = cast or CastOnce(hidden.dtype)
        hidden = apply(
            self.attention,
            self.compute.remat == "attention",
            cast,
            hidden,
            attention_bias=attention_bias,
            dropout_seed=fold_in(dropout_seed, 0),
        )
        return self.feed_forward(hidden, fold_in(dropout_seed, 1), cast)
