"""Initial weights and dropout masks that follow from explicit seeds."""

import zlib

import tensorflow as tf
import tf_keras


class TruncatedNormal(tf_keras.initializers.Initializer):
    """Truncated normal distribution drawn from its own seed, not a global generator.

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
          **unused_kwargs: other arguments that Keras passes, such as a layout.
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


def fold_in(seed, number: int):
    """Derives the int32 [2] seed of part `number` from `seed`; None from None."""
    if seed is None:
        return None
    return tf.random.experimental.stateless_fold_in(seed, number, alg="philox")


def dropout(inputs, rate: float, dropout_seed):
    """Zeroes a fraction `rate` of `inputs` and scales up the rest; same shape."""
    if dropout_seed is None or rate == 0.0:
        return inputs
    return tf.nn.experimental.stateless_dropout(
        inputs, rate, seed=dropout_seed, rng_alg="philox"
    )
