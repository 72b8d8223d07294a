"""Settings of the computation: dtypes, fusion, recomputation; weights of one pass."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import tensorflow as tf
import tf_keras

from albert_tf.model import elementwise_ops


class Compute(NamedTuple):
    """Settings that change how a model computes, but not what.

    dtype: of activations and matrix products.
    fuse_elementwise: whether XLA compiles the operations between matrix products,
      which is the fastest choice on a CPU where shapes are static.
    remat: what the backward pass recomputes instead of keeping: "none", "attention",
      or each "block".
    elementwise_dtype: of activation function and softmax. Layer norms and losses are
      computed in float32 in any case.
    queries_at_once: queries of attention whose probabilities are in memory at a time;
      0 means all. The backward pass computes them again.
    """

    dtype: str = "float32"
    fuse_elementwise: bool = False
    remat: str = "none"
    elementwise_dtype: str = "float32"
    queries_at_once: int = 0


DEFAULT = Compute()


# A variable, a tensor or an array: whatever can be read instead of a variable.
Weight = Any


class WeightCache:
    """Converts variables to tensors in the dtype of the products, each once.

    One lives as long as one pass through a model, where a shared variable would
    otherwise be read and cast at every layer, and each layer's gradient cast back.

    Attributes:
      add_norm: computes residual sum and layer norm from these weights; a function
        like `elementwise_ops.add_norm`.
    """

    def __init__(
        self,
        dtype,
        replacements: Mapping[int, Weight] | None = None,
        add_norm: Callable = elementwise_ops.add_norm,
    ):
        """Creates an empty cache.

        Args:
          dtype: of the products.
          replacements: weights that are read instead of variables, by the variables'
            ids.
          add_norm: as the attribute.
        """
        self.add_norm = add_norm
        self._dtype = dtype
        self._replacements = replacements or {}
        self._tensors: dict[int, tf.Tensor] = {}

    def __call__(self, variable: tf.Variable) -> tf.Tensor:
        """`variable` as a tensor: matrices in the dtype, vectors in float32."""
        key = id(variable)
        if key not in self._tensors:
            dtype = self._dtype if len(variable.shape) > 1 else tf.float32
            weight = tf.convert_to_tensor(self._replacements.get(key, variable))
            self._tensors[key] = tf.cast(weight, dtype)
        return self._tensors[key]

    def replacing(self, variables, tensors: Iterable[tf.Tensor]) -> "WeightCache":
        """Returns a cache that gives `tensors` for `variables`."""
        replacements = {
            id(variable): tensor
            for variable, tensor in zip(variables, tensors, strict=True)
        }
        return WeightCache(self._dtype, replacements, self.add_norm)


def maybe_recompute(
    layer: tf_keras.layers.Layer,
    recompute: bool,
    weights: WeightCache,
    hidden,
    **arguments,
):
    """Returns `layer(hidden, weights=weights, **arguments)`.

    With `recompute` only `hidden` float [B, S, H] and the weights are kept for the
    backward pass, which computes the layer again (Chen et al., "Training deep nets
    with sublinear memory cost", 2016).
    """
    # A layer that is not built yet has no weights to pass on.
    if not (recompute and layer.built):
        return layer(hidden, weights=weights, **arguments)
    # Also those that are not trained: the recomputation must not read variables.
    variables = layer.weights

    def run(hidden, *tensors):
        return layer(hidden, weights=weights.replacing(variables, tensors), **arguments)

    return _recomputed(run)(hidden, *map(weights, variables))


def _recomputed(function: Callable) -> Callable:
    """Returns `function` with a backward pass that computes it again.

    `tf.recompute_grad` saves no memory in a program that XLA compiles as a whole: what
    makes its recomputation wait is folded, and then both computations are merged into
    one, whose activations are kept.

    Args:
      function: of tensors of any shapes, the first of them float; returns one float
        tensor. It reads no variable.
    """

    @tf.custom_gradient
    def run(first, *others):
        def gradients(upstream):
            # After a gather these are slices with their indices.
            upstream = tf.convert_to_tensor(upstream)
            # Without it, compilers may find that this was computed before.
            again = first + tf.cast(zero_after(upstream), first.dtype)
            with tf.GradientTape(watch_accessed_variables=False) as tape:
                tape.watch((again, *others))
                result = function(again, *others)
            return tape.gradient(result, (again, *others), upstream)

        # A tape outside is to keep nothing of the first computation.
        return function(*map(tf.stop_gradient, (first, *others))), gradients

    return run


def zero_after(tensor: tf.Tensor) -> tf.Tensor:
    """Returns bool [], always False, that is known only when `tensor` is.

    Nothing is both no number and finite; XLA does not fold that, here and for TPUs.

    Args:
      tensor: float, of any shape and a known rank; it may be empty.
    """
    corner = tensor[(slice(1),) * tensor.shape.rank]
    element = tf.reduce_max(corner)
    return tf.math.is_nan(element) & tf.math.is_finite(element)
