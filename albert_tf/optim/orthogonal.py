"""The orthogonal matrix nearest to a given one, by matrix products alone."""

import tensorflow as tf

# An odd polynomial of degree 5 that brings singular values between about 0.003 and 1
# near 1 when it is applied this often (Jordan et al., 2024).
_COEFFICIENTS = (3.4445, -4.7750, 2.0315)
_NUM_ITERATIONS = 5
_EPSILON = 1e-30


def orthogonalize(matrix: tf.Tensor, dtype: str = "float32") -> tf.Tensor:
    """Brings the singular values of a matrix near 1 and keeps its singular vectors.

    Newton-Schulz iteration with the coefficients of Jordan et al. (2024), "Muon: an
    optimizer for hidden layers in neural networks". It does not converge to 1, but to
    between 0.68 and 1.14, in fewer iterations than one that does.

    Args:
      matrix: float32 [rows, columns].
      dtype: of the products. Norm and result are float32.

    Returns:
      float32 [rows, columns]; zero for a matrix of zeros.
    """
    first, third, fifth = _COEFFICIENTS
    is_tall = matrix.shape[0] > matrix.shape[1]
    scaled = matrix / (tf.norm(matrix) + _EPSILON)
    # [short, long]: the products of a matrix with itself are small.
    x = tf.cast(tf.transpose(scaled) if is_tall else scaled, dtype)
    for _ in range(_NUM_ITERATIONS):
        square = tf.matmul(x, x, transpose_b=True)  # [short, short]
        factor = third * square + fifth * tf.matmul(square, square)
        x = first * x + tf.matmul(factor, x)
    x = tf.cast(x, tf.float32)
    return tf.transpose(x) if is_tall else x


def count_flops(rows: int, columns: int) -> int:
    """Returns two for each multiply-add of the products of `orthogonalize`."""
    short, long = sorted((rows, columns))
    return 2 * _NUM_ITERATIONS * (2 * short * short * long + short**3)
