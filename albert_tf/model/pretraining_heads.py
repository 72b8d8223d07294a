"""The pre-training heads: masked language model and sentence pair."""

from typing import NamedTuple

import tensorflow as tf

from albert_tf.core import config as config_lib
from albert_tf.model import compute as compute_lib
from albert_tf.model import layers, stateless_random


class MaskedLmScores(NamedTuple):
    """Scores of the vocabulary, to which the loss adds the bias.

    scores: [B, P, V] in the dtype of the products.
    bias: float32 [V].
    """

    scores: tf.Tensor
    bias: tf.Tensor

    @property
    def logits(self):
        """float32 [B, P, V]."""
        return tf.cast(self.scores, tf.float32) + self.bias


class MaskedLmHead(layers.Layer):
    """Scores of the vocabulary at given positions, with tied embeddings.

    Dense to E, activation function, layer norm, then the word embeddings transposed,
    plus a bias.
    """

    def __init__(
        self,
        config: config_lib.ModelConfig,
        initializer: stateless_random.TruncatedNormal,
        compute: compute_lib.Compute = compute_lib.DEFAULT,
        name: str = "masked_lm",
    ):
        super().__init__(name, compute)
        self.vocab_size = config.vocab_size
        self.transform = layers.Dense(
            config.embedding_size,
            initializer.child("transform"),
            "transform",
            config.activation,
        )
        self.layer_norm = layers.LayerNorm(config.layer_norm_epsilon)

    def build(self, input_shape):
        """Creates `output_bias` [V]."""
        self.output_bias = self.add_weight(
            name="output_bias", shape=[self.vocab_size], initializer="zeros"
        )
        super().build(input_shape)

    def call(self, sequence_output, positions, word_embeddings) -> MaskedLmScores:
        """Computes a score for every piece of the vocabulary.

        Args:
          sequence_output: float32 [B, S, H].
          positions: int32 [B, P].
          word_embeddings: float32 [V, E].
        """
        gathered = tf.gather(sequence_output, positions, batch_dims=1)  # [B, P, H]
        return self.scores_of(gathered, word_embeddings)

    def scores_of(self, gathered, word_embeddings) -> MaskedLmScores:
        """Computes the scores from the encoder's output at the positions.

        Args:
          gathered: float32 [B, P, H].
          word_embeddings: float32 [V, E].
        """
        hidden = tf.cast(gathered, self.compute.dtype)
        hidden = self.layer_norm(self.transform(hidden))  # [B, P, E]
        table = tf.cast(word_embeddings, hidden.dtype)
        rows = tf.reshape(hidden, [-1, hidden.shape[-1]])  # [B * P, E]
        scores = tf.matmul(rows, table, transpose_b=True)  # [B * P, V]
        shape = [*layers.shape_of(gathered)[:2], self.vocab_size]
        return MaskedLmScores(
            tf.reshape(scores, shape), tf.convert_to_tensor(self.output_bias)
        )


class SentencePairHead(layers.Layer):
    """Two classes from the pooled output: in order, or swapped."""

    def __init__(
        self,
        initializer: stateless_random.TruncatedNormal,
        name: str = "sentence_order",
    ):
        super().__init__(name)
        self.output_projection = layers.Dense(
            2, initializer.child("output"), name="output"
        )

    def call(self, pooled_output):
        """Maps float32 [B, H] to logits float32 [B, 2]."""
        return self.output_projection(pooled_output)
