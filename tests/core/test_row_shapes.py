"""Rows have room for the masked tokens of whatever sequences share them."""

import numpy as np
import pytest

from albert_tf.core import config, row_shapes
from albert_tf.data import masking


def test_a_row_of_one_sequence_has_its_shape():
    row = config.DataConfig(max_seq_length=128).row
    assert row == row_shapes.RowShape(128, 19, 0)


def test_a_packed_row_has_room_for_roundings():
    row = config.DataConfig(max_seq_length=128, pack_sequences=4).row
    # 0.15 * 512 + 16 * 0.55 = 85.6
    assert row == row_shapes.RowShape(512, 85, 16)
    row = config.DataConfig(max_seq_length=32, pack_sequences=2).row
    assert row == row_shapes.RowShape(64, 14, 8)
    capped = config.DataConfig(
        max_seq_length=128, pack_sequences=1, max_predictions_per_seq=2
    ).row
    assert capped == row_shapes.RowShape(128, 16, 8)


def test_a_row_has_room_for_as_many_full_sequences_as_it_says():
    for length, pack in ((8, 64), (32, 8), (128, 1), (512, 4)):
        row = config.DataConfig(max_seq_length=length, pack_sequences=pack).row
        assert row.length == length * pack
        assert row.num_sequences >= 2 * pack


def test_a_row_is_no_longer_than_a_record_may_be():
    config.DataConfig(max_seq_length=1023, pack_sequences=64)
    with pytest.raises(ValueError, match="must be at most 65535"):
        config.DataConfig(max_seq_length=1024, pack_sequences=64)


@pytest.mark.parametrize("rate", [0.01, 0.15, 0.3, 0.9])
@pytest.mark.parametrize(("length", "pack"), [(32, 2), (128, 1), (100, 3), (16, 8)])
def test_no_sequences_that_fit_have_more_masked_tokens(rate, length, pack):
    data = config.DataConfig(
        max_seq_length=length, pack_sequences=pack, masked_lm_rate=rate
    )
    budgets = masking.make_params(
        1, "shorter", rate, data.num_predictions, length, 4, np.array([7]), 0.8, 0.1
    ).budgets
    row = data.row
    # most[n, t]: masked tokens of n sequences of t tokens in all, at most.
    most = np.full((row.num_sequences + 1, row.length + 1), -1)
    most[0, 0] = 0
    for count in range(1, row.num_sequences + 1):
        for size in range(3, length + 1):
            before = most[count - 1, : row.length + 1 - size]
            reached = np.where(before < 0, -1, before + budgets[size])
            most[count, size:] = np.maximum(most[count, size:], reached)
    assert 0 <= row.num_predictions - most.max() < row.num_sequences
