"""The order of a stream's shards, and where in it a step begins."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.data import shard_order

SIZES = [3, 5, 2, 7, 4, 1, 6, 8, 9, 3, 2, 5, 4, 6, 7, 1, 2, 3, 4, 5]


def _shards(order, group):
    return order.shards(tf.constant(group, tf.int64)).numpy().tolist()


def test_each_epoch_reads_every_shard_once_in_groups_of_at_most_eight():
    order = shard_order.ShardOrder(SIZES, seed=7)
    assert order.num_groups == 3
    epochs = []
    for epoch in range(3):
        groups = [_shards(order, 3 * epoch + place) for place in range(3)]
        assert sorted(map(len, groups)) == [6, 7, 7]
        epochs.append(sum(groups, []))
        assert sorted(epochs[-1]) == list(range(20))
    assert epochs[0] != epochs[1] != epochs[2]


def test_the_order_follows_from_the_seed():
    first, again, other = (
        _shards(shard_order.ShardOrder(SIZES, seed), 0) for seed in (7, 7, 8)
    )
    assert first == again != other


def test_every_number_of_records_read_is_located():
    order = shard_order.ShardOrder(SIZES, seed=7)
    expected = []
    for group in range(7):
        num_records = int(np.array(SIZES)[_shards(order, group)].sum())
        expected += [(group, place) for place in range(num_records)]
    found = [order.locate(num_read) for num_read in range(len(expected))]
    assert found == expected
    assert order.locate(10**9 * sum(SIZES)) == (3 * 10**9, 0)


def test_shards_without_records_are_refused():
    with pytest.raises(ValueError, match="each stream must have records"):
        shard_order.ShardOrder([0, 0], seed=1)
