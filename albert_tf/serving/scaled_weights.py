"""The encoder of exported models, with weights scaled for oneDNN's layer norm.

TensorFlow replaces a layer norm by one operation of oneDNN if gamma and beta are
constants and the axis is counted from the front. That operation always uses its own
epsilon (measured in TensorFlow 2.20), which is not the model's. But a layer norm does
not change if its input is multiplied by s and its epsilon by s**2. So here the hidden
states between the blocks are s times those of the model, with s such that oneDNN's
epsilon is right, and the blocks' weights are scaled to match: the same function except
for rounding.
"""

from collections.abc import Iterable

import numpy as np
import tensorflow as tf

from albert_tf.model import compute as compute_lib
from albert_tf.model import elementwise_ops
from albert_tf.model import encoder as encoder_lib

# The epsilon of oneDNN's layer norm.
ONEDNN_EPSILON = 1e-3


def serving_form(dtype: str) -> compute_lib.Compute:
    """Returns how an exported model computes, whatever it is served on.

    With bfloat16, activation function and softmax are float32 inside only where oneDNN
    fuses them with the product before them, on CPUs. Elsewhere each step is rounded.
    """
    return compute_lib.Compute(dtype, elementwise_dtype=dtype)


def add_norm(residual, inputs, bias, gamma, beta, epsilon: float):
    """Computes `elementwise_ops.add_norm` in the form that oneDNN replaces.

    Args:
      residual: float [rows, size], scaled.
      inputs: float [rows, size], scaled.
      bias: float32 [size], scaled.
      gamma: float32 [size], scaled.
      beta: float32 [size], scaled.
      epsilon: of the model; unused, because the scale replaces it by `ONEDNN_EPSILON`.
    """
    del epsilon
    return elementwise_ops.add_norm(
        residual, inputs, bias, gamma, beta, ONEDNN_EPSILON, axis=1
    )


class ScaledEncoder:
    """An encoder with the weights of its blocks scaled, and cast, once for all calls.

    It has the weights that the encoder had when it was constructed.

    Attributes:
      is_in_graph: whether it computes in the graph that calls it.
    """

    is_in_graph = True

    def __init__(self, encoder: encoder_lib.Encoder):
        self._encoder = encoder
        self._dtype = tf.as_dtype(encoder.compute.dtype)
        self._scale = (ONEDNN_EPSILON / encoder.config.layer_norm_epsilon) ** 0.5
        self._scaled = _scaled_weights(encoder, self._dtype, self._scale)

    def __call__(
        self, input_ids, input_mask, segment_ids
    ) -> encoder_lib.EncoderOutputs:
        """Encodes a batch, as `Encoder.call` does, without dropout."""
        weights = self._weights()
        embedded, hidden = self._embed(input_ids, segment_ids, weights)
        layers = self._encoder.apply_blocks(hidden, input_mask, weights)
        layers = [tf.cast(layer, tf.float32) / self._scale for layer in layers]
        return self._encoder.outputs(embedded, layers)

    def encode_at(self, input_ids, input_mask, segment_ids, positions):
        """Encodes a batch at some positions only, as `Encoder.encode_at` does."""
        weights = self._weights()
        _, hidden = self._embed(input_ids, segment_ids, weights)
        *_, last = self._encoder.apply_blocks(
            hidden, input_mask, weights, positions=positions
        )
        return tf.cast(last, tf.float32) / self._scale

    def pooled_output(self, input_ids, input_mask, segment_ids):
        """Computes the pooled output alone, as `Encoder.pooled_output` does."""
        first = encoder_lib.first_positions(input_ids)
        hidden = self.encode_at(input_ids, input_mask, segment_ids, first)  # [B, 1, H]
        return self._encoder.pool(hidden[:, 0])

    def _weights(self) -> compute_lib.WeightCache:
        # One cache a call: tensors of a graph must not outlive it.
        return compute_lib.WeightCache(self._dtype, self._scaled, add_norm)

    def _embed(self, input_ids, segment_ids, weights: compute_lib.WeightCache):
        """Returns embeddings as `Encoder.embed` does, their projection scaled."""
        embedded, hidden = self._encoder.embed(input_ids, segment_ids, weights)
        scaled = tf.cast(tf.cast(hidden, tf.float32) * self._scale, hidden.dtype)
        return embedded, scaled

    def variables_to_save(self, variables: Iterable[tf.Variable]) -> list[tf.Variable]:
        """Returns those of `variables` that are read, and those read instead."""
        kept = [one for one in variables if id(one) not in self._scaled]
        copies = [one for one in self._scaled.values() if isinstance(one, tf.Variable)]
        return kept + copies


def _scaled_weights(
    encoder: encoder_lib.Encoder, dtype: tf.DType, scale: float
) -> dict[int, compute_lib.Weight]:
    """Returns the blocks' weights for hidden states times `scale`, by variables' ids.

    Weights that read the hidden states are divided by it, those that are added to them
    are multiplied. Matrices are variables of `dtype`, so that a SavedModel stores them
    beside its graph; vectors are constants of the graph, or nothing would be fused.
    """
    scaled: dict[int, compute_lib.Weight] = {}

    def add(variable: tf.Variable, factor: float) -> None:
        if id(variable) not in scaled:  # blocks may share parts
            weight = variable.numpy() * np.float32(factor)
            if weight.ndim > 1:
                name = variable.name.partition(":")[0]
                weight = tf.Variable(
                    tf.cast(weight, dtype), trainable=False, name=f"{name}_scaled"
                )
            scaled[id(variable)] = weight

    for block in encoder.blocks:
        for part in (block.attention, block.feed_forward):
            for projection in part.input_projections:
                add(projection.kernel, 1 / scale)
                add(projection.bias, 1.0)
            for layer in (part.output_projection, part.layer_norm):
                for variable in layer.variables:
                    add(variable, scale)
    return scaled
