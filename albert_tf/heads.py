"""The pre-training heads: masked language model and sentence pair."""

import tensorflow as tf

from albert_tf import layers


class MaskedLmHead(layers.Layer):
    """Scores of the vocabulary at chosen positions, with tied embeddings.

    Dense to E, GELU, layer norm, then the word embeddings transposed, plus a bias.
    """

    def __init__(
        self,
        vocab_size: int,
        embedding_size: int,
        layer_norm_epsilon: float,
        initializer: layers.TruncatedNormal,
        compute_dtype: str = "float32",
        name: str = "masked_lm",
    ):
        super().__init__(name)
        self.vocab_size = vocab_size
        self.activation_dtype = tf.as_dtype(compute_dtype)
        self.transform = layers.Dense(
            embedding_size, initializer.child("transform"), name="transform"
        )
        self.layer_norm = layers.LayerNorm(layer_norm_epsilon)

    def build(self, input_shape):
        """Makes `output_bias` [V]."""
        self.output_bias = self.add_weight(
            name="output_bias", shape=[self.vocab_size], initializer="zeros"
        )
        super().build(input_shape)

    def call(self, sequence_output, positions, word_embeddings):
        """Scores every piece of the vocabulary.

        Args:
          sequence_output: float32 [B, S, H].
          positions: int32 [B, P].
          word_embeddings: float32 [V, E].

        Returns:
          float32 [B, P, V], logits.
        """
        gathered = tf.gather(sequence_output, positions, batch_dims=1)  # [B, P, H]
        hidden = tf.cast(gathered, self.activation_dtype)
        hidden = self.layer_norm(layers.gelu(self.transform(hidden)))  # [B, P, E]
        table = tf.cast(word_embeddings, hidden.dtype)
        rows = tf.reshape(hidden, [-1, hidden.shape[-1]])  # [B * P, E]
        logits = tf.cast(tf.matmul(rows, table, transpose_b=True), tf.float32)
        shape = tf.concat([tf.shape(positions), [self.vocab_size]], axis=0)
        return tf.reshape(logits + self.output_bias, shape)  # [B, P, V]


class SentencePairHead(layers.Layer):
    """Two classes on the pooled output: in order, or swapped."""

    def __init__(
        self, initializer: layers.TruncatedNormal, name: str = "sentence_order"
    ):
        super().__init__(name)
        self.output_projection = layers.Dense(
            2, initializer.child("output"), name="output"
        )

    def call(self, pooled_output):
        """Maps float32 [B, H] to logits float32 [B, 2]."""
        return self.output_projection(pooled_output)
