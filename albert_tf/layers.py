"""The layers of the encoder: embeddings, attention, feed-forward, and their block.

Shapes: B batch, S sequence, E embedding, H hidden, N heads, D head size. Matrix
products run in the dtype of the activations that come in; softmax and layer norm in
float32; weights are kept in float32.

Dropout is stateless. A layer is given `dropout_seed` (int32 [2]) for the step, the
replica and the depth at hand, and draws from that alone; None means no dropout.
"""

import zlib

import tensorflow as tf
import tf_keras

# What the original adds to the score of a padded position.
MASKED_SCORE = -10000.0


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


def gelu(inputs):
    """The tanh form of GELU (Hendrycks and Gimpel, 2016), as the original has it."""
    return tf.nn.gelu(inputs, approximate=True)


class Layer(tf_keras.layers.Layer):
    """The base of all layers here: float32 weights, inputs never cast unasked."""

    def __init__(self, name: str):
        super().__init__(name=name, dtype=tf.float32, autocast=False)


class Dense(Layer):
    """`inputs @ kernel + bias` over the last axis."""

    def __init__(self, units: int, initializer: TruncatedNormal, name: str):
        super().__init__(name)
        self.units = units
        self.initializer = initializer

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

    def call(self, inputs):
        """Maps float [..., inputs] to [..., units] of the same dtype."""
        dtype = inputs.dtype
        # One product of matrices: over a batch of them the kernel's gradient would be
        # made once a sequence and then summed.
        rows = tf.reshape(inputs, [-1, inputs.shape[-1]])  # [all but the last, inputs]
        rows = tf.matmul(rows, tf.cast(self.kernel, dtype))
        rows = tf.nn.bias_add(rows, tf.cast(self.bias, dtype))
        shape = tf.concat([tf.shape(inputs)[:-1], [self.units]], axis=0)
        return tf.ensure_shape(
            tf.reshape(rows, shape), [*inputs.shape[:-1], self.units]
        )


class LayerNorm(Layer):
    """Layer normalisation over the last axis, computed in float32 (Ba et al., 2016)."""

    def __init__(self, epsilon: float, name: str = "layer_norm"):
        super().__init__(name)
        self.epsilon = epsilon

    def build(self, input_shape):
        """Makes `gamma` and `beta`, both [size of the last axis]."""
        shape = [input_shape[-1]]
        self.gamma = self.add_weight(name="gamma", shape=shape, initializer="ones")
        self.beta = self.add_weight(name="beta", shape=shape, initializer="zeros")
        super().build(input_shape)

    def call(self, inputs):
        """Maps float [..., size] to the same shape and dtype."""
        hidden = tf.cast(inputs, tf.float32)
        mean, variance = tf.nn.moments(hidden, axes=[-1], keepdims=True)
        normed = tf.nn.batch_normalization(
            hidden, mean, variance, self.beta, self.gamma, self.epsilon
        )
        return tf.cast(normed, inputs.dtype)


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


class SelfAttention(Layer):
    """Multi-head self-attention (Vaswani et al., 2017) with its output projection."""

    def __init__(
        self,
        hidden_size: int,
        num_heads: int,
        dropout_rate: float,
        initializer: TruncatedNormal,
        name: str = "attention",
    ):
        super().__init__(name)
        if hidden_size % num_heads:
            raise ValueError(
                "hidden_size must be a multiple of num_heads; received "
                f"{hidden_size} and {num_heads}"
            )
        self.num_heads = num_heads
        self.head_size = hidden_size // num_heads
        self.dropout_rate = dropout_rate
        self.query, self.key, self.value, self.output_projection = (
            Dense(hidden_size, initializer.child(part), name=part)
            for part in ("query", "key", "value", "output")
        )

    def call(self, hidden, attention_bias, dropout_seed=None):
        """Lets every position attend to every other.

        Args:
          hidden: float [B, S, H].
          attention_bias: float32 [B, 1, 1, S], added to the scores.
          dropout_seed: int32 [2] or None.

        Returns:
          float [B, S, H] of the dtype of `hidden`.
        """
        query = self._split_heads(self.query(hidden))
        key = self._split_heads(self.key(hidden))
        value = self._split_heads(self.value(hidden))
        scores = tf.matmul(query, key, transpose_b=True)  # [B, N, S, S]
        scores = tf.cast(scores, tf.float32) * self.head_size**-0.5
        probabilities = tf.nn.softmax(scores + attention_bias)
        probabilities = dropout(probabilities, self.dropout_rate, dropout_seed)
        context = tf.matmul(tf.cast(probabilities, hidden.dtype), value)
        context = tf.transpose(context, [0, 2, 1, 3])  # [B, S, N, D]
        return self.output_projection(tf.reshape(context, tf.shape(hidden)))

    def _split_heads(self, hidden):
        batch_size, length = tf.unstack(tf.shape(hidden)[:2])
        shape = [batch_size, length, self.num_heads, self.head_size]
        return tf.transpose(tf.reshape(hidden, shape), [0, 2, 1, 3])  # [B, N, S, D]


class FeedForward(Layer):
    """Two dense layers with GELU between them."""

    def __init__(
        self,
        intermediate_size: int,
        hidden_size: int,
        initializer: TruncatedNormal,
        name: str = "feed_forward",
    ):
        super().__init__(name)
        self.intermediate = Dense(
            intermediate_size, initializer.child("intermediate"), name="intermediate"
        )
        self.output_projection = Dense(
            hidden_size, initializer.child("output"), name="output"
        )

    def call(self, hidden):
        """Maps float [B, S, H] to float [B, S, H]."""
        return self.output_projection(gelu(self.intermediate(hidden)))


class TransformerEncoderBlock(Layer):
    """Attention and feed-forward, each followed by a residual and a layer norm."""

    def __init__(
        self,
        hidden_size: int,
        num_heads: int,
        intermediate_size: int,
        hidden_dropout_rate: float,
        attention_dropout_rate: float,
        layer_norm_epsilon: float,
        initializer: TruncatedNormal,
        name: str,
    ):
        super().__init__(name)
        self.dropout_rate = hidden_dropout_rate
        self.attention = SelfAttention(
            hidden_size,
            num_heads,
            attention_dropout_rate,
            initializer.child("attention"),
        )
        self.attention_layer_norm = LayerNorm(
            layer_norm_epsilon, name="attention_layer_norm"
        )
        self.feed_forward = FeedForward(
            intermediate_size, hidden_size, initializer.child("feed_forward")
        )
        self.output_layer_norm = LayerNorm(layer_norm_epsilon, name="output_layer_norm")

    def call(self, hidden, attention_bias, dropout_seed=None):
        """One layer of the encoder.

        Args:
          hidden: float [B, S, H].
          attention_bias: float32 [B, 1, 1, S].
          dropout_seed: int32 [2] for this application of the block, or None.

        Returns:
          float [B, S, H] of the dtype of `hidden`.
        """
        attended = self.attention(hidden, attention_bias, fold_in(dropout_seed, 0))
        attended = dropout(attended, self.dropout_rate, fold_in(dropout_seed, 1))
        hidden = self.attention_layer_norm(hidden + attended)
        expanded = self.feed_forward(hidden)
        expanded = dropout(expanded, self.dropout_rate, fold_in(dropout_seed, 2))
        return self.output_layer_norm(hidden + expanded)
