"""Turns of the sources of a stream: counted, and the same wherever one begins."""

import numpy as np
import pytest

from albert_tf.data import mixture


@pytest.mark.parametrize(
    ("weights", "pattern"),
    [
        ([1.0], [0]),
        ([2.5, 2.5], [0, 1]),
        ([3.0, 1.0], [0, 0, 1, 0]),
        ([0.5, 0.2, 0.3], [0, 2, 1, 0, 0, 2, 0, 1, 2, 0]),
    ],
)
def test_sources_take_turns_that_are_spread_evenly(weights, pattern):
    assert mixture.Mixture(weights).pattern.tolist() == pattern


@pytest.mark.parametrize("stream", [0, 1, 2])
@pytest.mark.parametrize(
    "weights", [[3.0, 1.0], [1.0, 2.0, 4.0], [0.7, 0.2, 0.1], [1.0] * 5]
)
def test_no_source_is_ahead_or_behind_by_two_records(weights, stream):
    turns = mixture.Mixture(weights, stream, part_size=5)
    shares = np.array(weights) / sum(weights)
    drawn = np.resize(turns.pattern, 840)
    counts = np.cumsum(drawn[:, None] == np.arange(len(weights)), axis=0)
    expected = np.arange(1, 841)[:, None] * shares
    assert np.abs(counts - expected).max() < (1.0 if stream == 0 else 2.0)
    for number in (0, 1, 13, 420):
        assert (
            turns.num_drawn(number)
            == np.bincount(drawn[:number], minlength=len(weights)).tolist()
        )
        np.testing.assert_array_equal(
            np.resize(turns.turns_after(number), 99),
            np.resize(drawn, 2100)[number:][:99],
        )


def test_a_batch_takes_successive_turns_over_its_streams():
    whole = mixture.Mixture([3.0, 1.0]).pattern
    for step in range(7):
        batch = [
            np.resize(mixture.Mixture([3.0, 1.0], stream, 2).turns_after(2 * step), 2)
            for stream in range(4)
        ]
        expected = np.resize(np.roll(whole, -2 * step), 8)
        np.testing.assert_array_equal(np.concatenate(batch), expected)


def test_weights_of_any_size_count_in_ten_thousandths():
    turns = mixture.Mixture([3_412_345_123.0, 812_345_111.0, 1.0])
    assert len(turns.pattern) in range(9_999, 10_003)
    counts = np.bincount(turns.pattern)
    assert counts[2] == 1  # and not 0
    assert abs(counts[0] / counts.sum() - 3_412_345_123 / 4_224_690_235) < 2e-4
