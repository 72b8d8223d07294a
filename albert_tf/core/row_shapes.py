"""Rows of a batch: one sequence each, or several packed ones."""

from typing import NamedTuple

# Special tokens, and one of text.
_SHORTEST = 3
_TOKENS_PER_SEQUENCE = 32
_LEAST_SEQUENCES = 8


class RowShape(NamedTuple):
    """The static shape of a row.

    Attributes:
      length: tokens, padding included: S of the shapes.
      num_predictions: masked tokens, padding included: P of the shapes.
      num_sequences: most sequences of a packed row; 0 if rows are not packed.
    """

    length: int
    num_predictions: int
    num_sequences: int = 0


def packed(
    max_seq_length: int, pack_sequences: int, masked_lm_rate: float, most_masked: int
) -> RowShape:
    """Returns the shape of rows that have room for `pack_sequences` full sequences.

    Of shorter ones there may be twice as many, one for each 32 tokens, or 8: whichever
    is most.

    Each sequence is masked as if it were alone, so that roundings of their numbers of
    masked tokens add up: each by up to half a token, or one if it is very short.

    Args:
      max_seq_length: most tokens of a sequence.
      pack_sequences: as in `config.DataConfig`, above 0.
      masked_lm_rate: as in `config.DataConfig`.
      most_masked: most masked tokens of a sequence.
    """
    length = max_seq_length * pack_sequences
    num_sequences = max(
        _LEAST_SEQUENCES, length // _TOKENS_PER_SEQUENCE, 2 * pack_sequences
    )
    rounding = max(0.5, 1.0 - _SHORTEST * masked_lm_rate)
    num_masked = int(length * masked_lm_rate + num_sequences * rounding)
    return RowShape(length, min(num_masked, num_sequences * most_masked), num_sequences)
