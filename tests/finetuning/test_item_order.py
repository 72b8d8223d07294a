"""The order of items, by length or not, and the lengths that batches are padded to."""

import itertools

import numpy as np
import pytest

from albert_tf.finetuning import item_order

CANDIDATES = (16, 32, 48, 64)


@pytest.mark.parametrize(
    ("num_lengths", "expected"),
    [(1, (64,)), (2, (16, 64)), (4, (16, 32, 48, 64)), (8, (16, 32, 48, 64))],
)
def test_lengths_are_chosen_that_cost_the_fewest_tokens(num_lengths, expected):
    # Padded to (16, 64) they cost 3 * 16 + 3 * 64 = 240 tokens, to (32, 64) 256.
    lengths = np.array([64, 3, 16, 5, 17, 40])
    assert item_order.choose_lengths(lengths, CANDIDATES, num_lengths) == expected


def test_a_length_that_saves_nothing_is_not_chosen():
    lengths = np.array([20, 30, 60])
    assert item_order.choose_lengths(lengths, CANDIDATES, 4) == (32, 64)


@pytest.mark.parametrize("num_lengths", [2, 3, 4])
def test_no_other_lengths_cost_fewer_tokens(num_lengths):
    rng = np.random.default_rng(num_lengths)
    candidates = [*range(16, 160, 16), 151]
    for _ in range(20):
        lengths = np.minimum(rng.geometric(0.03, 50), 151)

        def cost(chosen, lengths=lengths):
            return np.take(chosen, np.searchsorted(chosen, lengths)).sum()

        found = item_order.choose_lengths(lengths, candidates, num_lengths)
        others = itertools.combinations(candidates[:-1], num_lengths - 1)
        assert cost(found) == min(cost((*other, 151)) for other in others)


def _batches(order, steps):
    return [order.take(step).tolist() for step in steps]


def test_without_lengths_the_order_is_that_of_the_seed_and_the_epoch():
    order = item_order.ItemOrder(5, 3, 7)
    first, second = (np.random.default_rng([7, n]).permutation(5) for n in (0, 1))
    expected = [*first, *second[:4]]
    assert np.concatenate(_batches(order, range(3))).tolist() == expected


LENGTHS = np.random.default_rng(0).integers(5, 90, 203)


def _by_length():
    return item_order.ItemOrder(203, 2, 5, LENGTHS)


def test_an_epoch_by_length_takes_each_item_once():
    taken = np.concatenate(_batches(_by_length(), range(406))).reshape(4, 203)
    assert (np.sort(taken) == np.arange(203)).all()
    assert len({tuple(epoch) for epoch in taken.tolist()}) == 4


def test_an_order_by_length_continues_where_it_stopped():
    order = _by_length()
    whole = _batches(order, range(300))
    assert _batches(_by_length(), range(170, 300)) == whole[170:]
    assert _batches(order, range(90, 110)) == whole[90:110]


def test_batches_of_a_pool_have_neighbouring_lengths():
    order = item_order.ItemOrder(8, 2, 3, np.array([5, 1, 8, 3, 2, 7, 6, 4]))
    batches = _batches(order, range(4))
    assert sorted(sorted(batch) for batch in batches) == [
        [0, 6],
        [1, 4],
        [2, 5],
        [3, 7],
    ]


def test_batches_of_a_pool_do_not_come_in_the_order_of_their_lengths():
    means = [LENGTHS[batch].mean() for batch in _batches(_by_length(), range(101))]
    correlation = np.corrcoef(means, np.arange(101))[0, 1]
    assert abs(correlation) < 0.3
    within = np.mean([np.ptp(LENGTHS[b]) for b in _batches(_by_length(), range(101))])
    plain = item_order.ItemOrder(203, 2, 5)
    assert within < 0.1 * np.mean(
        [np.ptp(LENGTHS[b]) for b in _batches(plain, range(101))]
    )


def test_items_are_sorted_within_pools_of_at_most_fifty_batches():
    # 101 whole batches are three pools of 34, 34 and 33.
    taken = np.concatenate(_batches(_by_length(), range(101)))
    drawn = np.random.default_rng([5, 0]).permutation(203)
    for begin, end in ((0, 68), (68, 136), (136, 202)):
        assert sorted(taken[begin:end]) == sorted(drawn[begin:end])
    assert sorted(taken[:34]) != sorted(drawn[:34])


def test_a_batch_that_spans_two_epochs_stays_as_it_is():
    order = item_order.ItemOrder(5, 4, 7, np.arange(5))
    first, second = (np.random.default_rng([7, n]).permutation(5) for n in (0, 1))
    assert order.take(1).tolist() == [first[4], *second[:3]]


def test_fewer_items_than_a_batch_come_in_each_epoch_once():
    order = item_order.ItemOrder(3, 8, 7, np.arange(3))
    taken = np.concatenate(_batches(order, range(3))).reshape(8, 3)
    assert (np.sort(taken) == np.arange(3)).all()
