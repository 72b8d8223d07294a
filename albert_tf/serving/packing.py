"""Packs ragged tokens into the model's features, and runs it over many rows.

Shapes: R rows, S the longest of them in tokens.
"""

from collections.abc import Callable
from typing import NamedTuple

import tensorflow as tf

from albert_tf.tokenization import tokenizer as tokenizer_lib

Features = dict[str, tf.Tensor]

# Rows per call of the model, which bounds the memory for a long text.
ROWS_AT_ONCE = 16
# [CLS] and [SEP]: the length of rows if there are none.
SHORTEST = 2


class SpecialIds(NamedTuple):
    """Ids of the special pieces around texts."""

    pad: int
    cls: int
    sep: int


def special_ids(tokenizer: tokenizer_lib.Tokenizer) -> SpecialIds:
    """Returns those of a tokenizer."""
    return SpecialIds(tokenizer.pad_id, tokenizer.cls_id, tokenizer.sep_id)


def pair_lengths(first, second, room: int):
    """Returns the lengths to which pairs of texts are cut to fit together.

    As in the original, the longer loses a token until both fit, or the second if they
    are equally long.

    Args:
      first: int [R], lengths.
      second: int [R], lengths.
      room: for both, in tokens; at least 1.
    """
    smaller, larger = room // 2, room - room // 2
    kept_first = tf.where(
        second <= smaller,
        tf.minimum(first, room - second),
        tf.minimum(first, larger),
    )
    return kept_first, tf.minimum(second, room - kept_first)


def cut(rows: tf.RaggedTensor, lengths) -> tf.RaggedTensor:
    """Returns the first `lengths` int [R] values of each row of a ragged [R, None]."""
    lengths = tf.cast(lengths, tf.int64)
    places = tf.ragged.range(rows.row_lengths()).flat_values
    kept = places < tf.gather(lengths, rows.value_rowids())
    return tf.ragged.boolean_mask(rows, rows.with_flat_values(kept))


def cut_front(rows: tf.RaggedTensor, length: int) -> tf.RaggedTensor:
    """Returns the last `length` values of each row of a ragged [R, None]."""
    too_many = rows.row_lengths() - length
    places = tf.ragged.range(rows.row_lengths()).flat_values
    kept = places >= tf.gather(too_many, rows.value_rowids())
    return tf.ragged.boolean_mask(rows, rows.with_flat_values(kept))


def pack(
    first: tf.RaggedTensor,
    second: tf.RaggedTensor,
    has_second: tf.Tensor,
    special: SpecialIds,
    least_length: int = SHORTEST,
) -> Features:
    """Packs `[CLS] first [SEP]`, or `[CLS] first [SEP] second [SEP]`.

    Args:
      first: int32 ragged [R, None].
      second: int32 ragged [R, None], empty if there is none.
      has_second: bool [R].
      special: ids of the special pieces.
      least_length: the minimum of S.

    Returns:
      `input_ids`, `input_mask` and `segment_ids`, int32 [R, S].
    """
    ones = tf.ones_like(has_second, tf.int64)
    cls = _repeated(special.cls, ones)
    sep = _repeated(special.sep, ones)
    last = _repeated(special.sep, tf.cast(has_second, tf.int64))
    ids = tf.concat([cls, first, sep, second, last], 1)
    num_first = first.row_lengths() + 2
    places = tf.ragged.range(ids.row_lengths()).flat_values
    segments = places >= tf.gather(num_first, ids.value_rowids())
    segment_ids = ids.with_flat_values(tf.cast(segments, tf.int32))
    return {
        "input_ids": to_dense(ids, special.pad, least_length),
        "input_mask": to_dense(tf.ones_like(ids), 0, least_length),
        "segment_ids": to_dense(segment_ids, 0, least_length),
    }


def to_dense(rows: tf.RaggedTensor, padding: int, least_length: int) -> tf.Tensor:
    """Converts a ragged [R, None] to [R, S], with `padding` after each row."""
    dense = rows.to_tensor(padding)
    missing = tf.maximum(least_length - tf.shape(dense)[1], 0)
    return tf.pad(dense, [[0, 0], [0, missing]], constant_values=padding)


def _repeated(value: int, counts: tf.Tensor) -> tf.RaggedTensor:
    """Repeats the value `counts` int64 [R] times per row, int32 ragged [R, None]."""
    values = tf.fill([tf.reduce_sum(counts)], value)
    return tf.RaggedTensor.from_row_lengths(values, counts, validate=False)


def in_portions(
    compute: Callable[[Features], Features],
    features: Features,
    outputs: dict[str, tf.TensorSpec],
) -> Features:
    """Returns `compute(features)`, computed on `ROWS_AT_ONCE` rows at a time.

    Args:
      compute: maps tensors [r, ...] to tensors [r, ...].
      features: tensors [R, ...].
      outputs: specs of the result of `compute`; the first axis is None.
    """
    num_rows = tf.shape(features["input_ids"])[0]
    num_portions = tf.maximum(-(-num_rows // ROWS_AT_ONCE), 1)
    portion = -(-num_rows // num_portions)

    def compute_portion(number):
        # All portions have one size, so the last may repeat some rows.
        rows = tf.minimum(number * portion + tf.range(portion), num_rows - 1)
        return compute(
            {name: tf.gather(value, rows) for name, value in features.items()}
        )

    found = tf.map_fn(
        compute_portion,
        tf.range(num_portions),
        fn_output_signature=outputs,
        parallel_iterations=1,
    )
    result = {}
    for name, value in found.items():
        shape = tf.concat([[-1], tf.shape(value)[2:]], 0)
        size = tf.concat([[num_portions * portion], tf.shape(value)[2:]], 0)
        # Without rows the first axis cannot be inferred.
        shape = tf.where(tf.size(value) > 0, shape, size)
        flat = tf.reshape(value, shape)[:num_rows]
        result[name] = tf.ensure_shape(flat, outputs[name].shape)
    return result
