"""Activation functions by name."""

import functools
from collections.abc import Callable

import tensorflow as tf

# By the names of `config.ACTIVATIONS`. The original's GELU is the tanh approximation
# (Hendrycks and Gimpel, 2016).
BY_NAME: dict[str, Callable] = {
    "gelu_tanh": functools.partial(tf.nn.gelu, approximate=True),
    "gelu_exact": functools.partial(tf.nn.gelu, approximate=False),
    "relu": tf.nn.relu,
}
