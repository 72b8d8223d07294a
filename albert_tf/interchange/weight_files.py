"""Files of weights, compared with a configuration before anything is built of it.

A configuration from elsewhere may describe a model of any size. It is believed only as
far as its files hold the weights.
"""

import glob
import math
from collections.abc import Iterable, Mapping, Sequence

from albert_tf.core import config as config_lib
from albert_tf.core import files
from albert_tf.model import costs

# No format that is read keeps a weight in less.
_LEAST_BYTES = 2


def require_size(
    config: config_lib.ModelConfig,
    config_path: str,
    paths: Sequence[str],
    num_left_out: int = 0,
) -> None:
    """Checks that files are large enough for the encoder of a configuration.

    Args:
      config: the sizes.
      config_path: where they are from, for errors.
      paths: of all files that hold the weights.
      num_left_out: weights of the encoder that the files need not hold.

    Raises:
      ValueError: they are too small; names the sizes.
    """
    num_weights = costs.count_parameters(config).encoder_without_pooler - num_left_out
    needed, found = num_weights * _LEAST_BYTES, total_size(paths)
    if found < needed:
        raise ValueError(
            f"{config_path} describes an encoder of {num_weights:,} weights, which "
            f"need {needed:,} bytes or more; {paths[0] if paths else 'no file'} holds "
            f"{found:,}. Give the configuration that belongs to the weights, or copy "
            "them again"
        )


def require_stored(
    shapes: Iterable[tuple[Sequence[int], int]], path: str, num_bytes: int
) -> None:
    """Checks that arrays fit into the file that lists them, before one is read.

    Args:
      shapes: the shape of each array, and the bytes of an element.
      path: of the file, for errors.
      num_bytes: its size.

    Raises:
      ValueError: they do not.
    """
    needed = sum(math.prod(shape) * size for shape, size in shapes)
    if needed > num_bytes:
        raise ValueError(
            f"{path} is damaged or cut off: its arrays need {needed:,} bytes, and "
            f"there are {num_bytes:,}; copy it again"
        )


def total_size(paths: Iterable[str]) -> int:
    """Returns the bytes of some files."""
    return sum(map(files.size, paths))


def of_checkpoint(prefix: str) -> list[str]:
    """Returns the paths of the data of a TensorFlow checkpoint."""
    escaped = prefix if files.is_remote(prefix) else glob.escape(prefix)
    return files.glob(f"{escaped}.data-*")


def lacking(
    expected: Iterable[Sequence[int]], found: Mapping[tuple[int, ...], int]
) -> list[tuple[int, ...]]:
    """Returns the shapes of arrays that a file does not hold.

    Args:
      expected: the shape of each array.
      found: how many arrays of each shape there are.
    """
    left = dict(found)
    missing = []
    for shape in map(tuple, expected):
        if left.get(shape, 0):
            left[shape] -= 1
        else:
            missing.append(shape)
    return missing
