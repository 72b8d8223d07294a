"""Accuracies by paradigm and phenomenon, with intervals."""

import numpy as np
import pytest

from albert_tf.probing import accuracy, suites


def pairs_of(*names):
    return [suites.Pair(name, name[0], "good", "bad") for name in names]


def test_accuracies_are_means_over_pairs_then_over_paradigms():
    pairs = pairs_of("a1", "a1", "a1", "a1", "a2", "b1", "b1")
    found = accuracy.compute(
        pairs, [-1, -1, -5, -2, -1, -3, -3], [-2, -2, -4, -3, -9, -3, -1]
    )
    shares = {name: one.accuracy for name, one in found.paradigms.items()}
    # Three of four, one of one, and half of a tie.
    assert shares == {"a1": 0.75, "a2": 1.0, "b1": 0.25}
    assert {name: one.accuracy for name, one in found.phenomena.items()} == {
        "a": 0.875,
        "b": 0.25,
    }
    assert found.overall.accuracy == pytest.approx((0.75 + 1.0 + 0.25) / 3)
    assert found.mean_over_phenomena == pytest.approx((0.875 + 0.25) / 2)
    assert (found.overall.num_pairs, found.overall.num_ties) == (7, 1)
    assert found.paradigms["b1"].num_ties == 1
    assert found.phenomenon_of == {"a1": "a", "a2": "a", "b1": "b"}


def test_intervals_are_wilsons():
    # Newcombe, "Two-sided confidence intervals for the single proportion" (1998),
    # table I, method 3.
    for right, number, low, high in (
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ):
        found = accuracy.interval(right / number, number)
        assert found == pytest.approx((low, high), abs=5e-5)


def test_the_interval_of_a_mean_of_equal_paradigms_is_that_of_all_pairs():
    pairs = pairs_of(*["a1"] * 40, *["a2"] * 40, *["b1"] * 40)
    good = [1] * 30 + [-1] * 10 + [1] * 30 + [-1] * 10 + [1] * 30 + [-1] * 10
    found = accuracy.compute(pairs, good, [0] * 120).overall
    assert (found.low, found.high) == pytest.approx(accuracy.interval(0.75, 120))
    # A paradigm of one pair makes the mean uncertain, whatever the others have.
    one = accuracy.compute(pairs_of("a1", *["a2"] * 400), [1] * 401, [0] * 401)
    assert one.overall.low == pytest.approx(accuracy.interval(1.0, 3.99)[0], abs=1e-3)


def test_the_interval_of_a_mean_holds_the_true_one_though_its_paradigms_differ():
    rng = np.random.default_rng(4)
    sizes = {"a0": 10, **{f"a{number}": 1000 for number in range(1, 10)}}
    pairs = pairs_of(*(name for name, size in sizes.items() for _ in range(size)))
    num_held = 0
    for _ in range(100):
        # One half of the first, all of the others: 0.95.
        good = [*rng.integers(0, 2, 10).tolist(), *[1] * 9000]
        found = accuracy.compute(pairs, good, [0.5] * len(pairs)).overall
        num_held += found.low <= 0.95 <= found.high
    assert num_held >= 89  # as few in 0.5% of such trials, if it is held in 95 of 100
