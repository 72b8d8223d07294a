"""Sizes of items in rows and tokens of the model, estimated from their characters.

They decide which texts share a batch, and how many may wait. The tokenizer is part of
the model's graph, and its exact counts would come too late.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from albert_tf.inference import saved_model_dir

# Of English with a vocabulary of 30,000; of other scripts there are fewer.
_CHARACTERS_PER_TOKEN = 4
_SPECIAL_TOKENS = 2


class Size(NamedTuple):
    """What an item costs.

    Attributes:
      rows: of the model: windows, or options.
      length: tokens of the longest row.
    """

    rows: int
    length: int

    @property
    def tokens(self) -> int:
        """Of all rows, padded to the longest."""
        return self.rows * self.length


class Lengths(NamedTuple):
    """What a model takes.

    Attributes:
      max_length: tokens of a row; longer texts are truncated, or cut into windows.
      stride: tokens between the beginnings of two windows.
      is_fixed: whether all rows are padded to `max_length`.
    """

    max_length: int = 512
    stride: int = 128
    is_fixed: bool = False


DEFAULT_LENGTHS = Lengths()
SizeOf = Callable[[Any], Size]


def read_lengths(saved_model: str) -> Lengths:
    """Returns the lengths of a SavedModel, by the configuration exported with it."""
    config = saved_model_dir.read_config(saved_model)
    if config is None:
        return DEFAULT_LENGTHS
    is_fixed = saved_model_dir.describe(saved_model).is_fixed_length
    if not config.task.name:
        return Lengths(config.data.max_seq_length, is_fixed=is_fixed)
    return Lengths(config.task.max_seq_length, config.task.doc_stride, is_fixed)


def size_of(signature: str, lengths: Lengths) -> SizeOf:
    """Returns the function that estimates the sizes of a signature's items.

    Args:
      signature: of the model; its items are those of `model.functions`.
      lengths: of the model.
    """

    def length_of(num_tokens: int) -> int:
        return (
            lengths.max_length
            if lengths.is_fixed
            else min(num_tokens, lengths.max_length)
        )

    def one_row(fields: Sequence[str]) -> Size:
        return Size(1, length_of(_num_tokens(fields)))

    def windows(fields: Sequence[str]) -> Size:
        num_tokens = _num_tokens(fields)
        beyond = max(0, num_tokens - lengths.max_length)
        return Size(1 + -(-beyond // lengths.stride), length_of(num_tokens))

    def options(fields: Sequence[str]) -> Size:
        context, question, *rest = fields
        longest = max(rest, key=len, default="")
        num_tokens = _num_tokens((context, question, longest))
        return Size(max(1, len(rest)), length_of(num_tokens))

    if signature in ("fill_mask", "encode"):
        return lambda item: one_row(item[:1])
    return {"answer": windows, "choose": options}.get(signature, one_row)


def _num_tokens(fields: Sequence[str]) -> int:
    num_characters = sum(map(len, fields))
    return num_characters // _CHARACTERS_PER_TOKEN + _SPECIAL_TOKENS
