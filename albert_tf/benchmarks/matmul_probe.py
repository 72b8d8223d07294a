"""The rate of TensorFlow's matrix product on this machine, to compare steps with."""

import time

import tensorflow as tf

from albert_tf.benchmarks import model_cases

_ROWS, _INNER, _COLUMNS = 2048, 768, 3072
_FLOPS = 2 * _ROWS * _INNER * _COLUMNS
_NUM_REPEATS = 4


class MatrixProbe:
    """A product of [2048, 768] and [768, 3072], in each of `model_cases.DTYPES`.

    It is the largest product of a block of ALBERT base at 2048 tokens.
    """

    def __init__(self):
        left = tf.random.stateless_normal([_ROWS, _INNER], seed=[0, 0])
        right = tf.random.stateless_normal([_INNER, _COLUMNS], seed=[0, 1])
        self._factors = {
            dtype: (tf.cast(left, dtype), tf.cast(right, dtype))
            for dtype in model_cases.DTYPES
        }
        for dtype in model_cases.DTYPES:
            self.rate(dtype)  # The first call of a process is slower.

    def rate(self, dtype: str) -> float:
        """Floating-point operations a second now: the fastest of several products."""
        return _FLOPS / min(self._seconds(dtype) for _ in range(_NUM_REPEATS))

    def _seconds(self, dtype: str) -> float:
        started = time.perf_counter()
        float(tf.matmul(*self._factors[dtype])[0, 0])
        return time.perf_counter() - started
