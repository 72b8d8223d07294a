"""The encoder's basic layers: dense, layer norm and embeddings.

Shapes: B batch, S sequence, E embedding, H hidden, V vocabulary; rows are B * S.
Weights are kept in float32. Matrix products run in the dtype of the incoming
activations; softmax, activation function and layer norm in float32, see `Compute`.

Dropout is stateless. A layer is given `dropout_seed` (int32 [2]) for the current step,
replica and depth, and draws from that alone; None means no dropout.
"""

from collections.abc import Callable

import tensorflow as tf
import tf_keras

from albert_tf.model import compute as compute_lib
from albert_tf.model import elementwise_ops, stateless_random, xla_fused_ops


def shape_of(tensor) -> list:
    """Returns the shape: integers where static, scalar tensors elsewhere."""
    dynamic = tf.shape(tensor)
    return [
        dynamic[axis] if size is None else size
        for axis, size in enumerate(tensor.shape.as_list())
    ]


def as_rows(tensor):
    """Reshapes float [..., size] to the matrix [product of the others, size]."""
    return (
        tensor if tensor.shape.rank == 2 else tf.reshape(tensor, [-1, tensor.shape[-1]])
    )


class Layer(tf_keras.layers.Layer):
    """Base of all layers: float32 weights, and no automatic casts of inputs."""

    def __init__(self, name: str, compute: compute_lib.Compute = compute_lib.DEFAULT):
        super().__init__(name=name, dtype=tf.float32, autocast=False)
        self.compute = compute

    def fuse(self, function: Callable, *inputs, **settings):
        """Returns `function(*inputs, **settings)`, compiled by XLA if `fuses`."""
        if self.fuses(inputs[0]):
            function = xla_fused_ops.compiled(function, **settings)
            return function(*inputs)
        return function(*inputs, **settings)

    def fuses(self, tensor) -> bool:
        """Returns whether to compile operations on `tensor`, whose shape is static.

        XLA compiles again for each shape.
        """
        return self.compute.fuse_elementwise and tensor.shape.is_fully_defined()


class Dense(Layer):
    """`inputs @ kernel + bias` over the last axis, and an activation function."""

    def __init__(
        self,
        units: int,
        initializer: stateless_random.TruncatedNormal,
        name: str,
        activation: str | None = None,
        compute: compute_lib.Compute = compute_lib.DEFAULT,
    ):
        super().__init__(name, compute)
        self.units = units
        self.initializer = initializer
        self.activation = activation

    def build(self, input_shape):
        """Creates `kernel` [inputs, units] and `bias` [units]."""
        self.kernel = self.add_weight(
            name="kernel",
            shape=[input_shape[-1], self.units],
            initializer=self.initializer.child("kernel"),
        )
        self.bias = self.add_weight(
            name="bias", shape=[self.units], initializer="zeros"
        )
        super().build(input_shape)

    def call(
        self,
        inputs,
        weights: compute_lib.WeightCache | None = None,
        add_bias: bool = True,
    ):
        """Maps float [..., inputs] to [..., units] of the same dtype.

        Without `add_bias` it is the product alone: the caller adds the bias, fused with
        the next operation.
        """
        weights = weights or compute_lib.WeightCache(inputs.dtype)
        # One product of matrices: with a batch of them the kernel's gradient would be
        # computed for each sequence and then summed.
        rows = as_rows(inputs)  # [all but the last, inputs]
        rows = tf.matmul(rows, weights(self.kernel))
        if add_bias and self.activation:
            rows = self.fuse(
                elementwise_ops.biased_activation,
                rows,
                weights(self.bias),
                activation=self.activation,
                dtype=self.compute.elementwise_dtype,
            )
        elif add_bias:
            rows = tf.nn.bias_add(rows, tf.cast(weights(self.bias), rows.dtype))
        if inputs.shape.rank == 2:
            return rows
        return tf.reshape(rows, [*shape_of(inputs)[:-1], self.units])


class LayerNorm(Layer):
    """Layer normalization over the last axis, computed in float32 (Ba et al., 2016)."""

    def __init__(
        self,
        epsilon: float,
        name: str = "layer_norm",
        compute: compute_lib.Compute = compute_lib.DEFAULT,
    ):
        super().__init__(name, compute)
        self.epsilon = epsilon

    def build(self, input_shape):
        """Creates `gamma` and `beta`, both [size of the last axis]."""
        shape = [input_shape[-1]]
        self.gamma = self.add_weight(name="gamma", shape=shape, initializer="ones")
        self.beta = self.add_weight(name="beta", shape=shape, initializer="zeros")
        super().build(input_shape)

    def call(
        self,
        inputs,
        residual=None,
        bias=None,
        weights: compute_lib.WeightCache | None = None,
    ):
        """Normalizes `inputs`, or the sum of `residual`, `inputs` and `bias`.

        Args:
          inputs: float [..., size]; or with `residual`, [rows, size].
          residual: float [..., size] of the same dtype, or None.
          bias: float32 [size]; given with `residual`.
          weights: gives the variables as tensors.

        Returns:
          Float of the dtype of `inputs`, in the shape of `residual` if there is one.
        """
        weights = weights or compute_lib.WeightCache(inputs.dtype)
        gamma, beta = weights(self.gamma), weights(self.beta)
        if residual is None:
            return elementwise_ops.normalize(inputs, gamma, beta, self.epsilon)
        rows = as_rows(residual), as_rows(inputs)
        normed = self.fuse(
            weights.add_norm, *rows, bias, gamma, beta, epsilon=self.epsilon
        )
        return tf.reshape(normed, shape_of(residual))


class Embeddings(Layer):
    """Sum of word, position and segment embeddings, normalized (paper, section 3.1)."""

    def __init__(
        self,
        vocab_size: int,
        embedding_size: int,
        max_positions: int,
        type_vocab_size: int,
        dropout_rate: float,
        layer_norm_epsilon: float,
        initializer: stateless_random.TruncatedNormal,
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
        """Creates the tables [V, E], [max_positions, E] and [type_vocab_size, E]."""
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

    def call(self, input_ids, segment_ids, dropout_seed=None, position_ids=None):
        """Embeds tokens.

        Args:
          input_ids: int32 [B, S].
          segment_ids: int32 [B, S].
          dropout_seed: int32 [2] or None.
          position_ids: int32 [B, S]; None means 0, 1, … in each row.

        Returns:
          float32 [B, S, E].
        """
        summed = tf.gather(self.word_embeddings, input_ids)  # [B, S, E]
        if position_ids is None:
            length = tf.shape(input_ids)[1]
            summed += self.position_embeddings[:length]  # [S, E], the same in each row
        else:
            summed += tf.gather(self.position_embeddings, position_ids)
        summed += tf.gather(self.token_type_embeddings, segment_ids)
        return stateless_random.dropout(
            self.layer_norm(summed), self.dropout_rate, dropout_seed
        )
