"""Batches that the train step cuts to one of a few lengths.

Shapes in a graph are static, so each length has a branch of its own. Within the step
of one device this is a conditional: all other parts of the step exist once.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

# A feature int32 [B]: which of the lengths a batch has, the same for all its rows.
LENGTH_INDEX = "length_index"
# The features whose last axis is that of the tokens.
_PER_TOKEN = ("input_ids", "input_mask", "segment_ids", "p_mask", "token_label_ids")

Features = dict[str, tf.Tensor]


def at_own_length(
    compute: Callable[[Features], Any], features: Features, lengths: Sequence[int]
) -> Any:
    """Returns `compute` of the features without columns that are padding only.

    Args:
      compute: maps features to tensors whose shapes do not depend on the length.
      features: a batch padded to the last of the lengths, with `LENGTH_INDEX` if there
        are several.
      lengths: ascending; a single one, or none, means that nothing is cut.
    """
    if len(lengths) < 2:
        return compute(features)
    others = {k: v for k, v in features.items() if k != LENGTH_INDEX}

    def compute_at(length: int):
        return compute(
            {k: v[..., :length] if k in _PER_TOKEN else v for k, v in others.items()}
        )

    branches = [functools.partial(compute_at, length) for length in lengths]
    return tf.switch_case(features[LENGTH_INDEX][0], branches)
