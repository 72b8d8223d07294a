"""The order of a stream's records, and where in it a step begins."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.data import shard_order

SIZES = [3, 5, 2, 7, 4, 1, 6, 8, 9, 3, 2, 5, 4, 6, 7, 1, 2, 3, 4, 5]


def _pieces(order, group):
    """The pieces of a group as (shard, first record, number of records)."""
    pieces = order.pieces(tf.constant(group, tf.int64))
    return list(zip(*(values.numpy().tolist() for values in pieces), strict=True))


def _shards(order, group):
    return [shard for shard, _, _ in _pieces(order, group)]


def test_each_epoch_reads_every_shard_once_in_groups_of_at_most_eight():
    order = shard_order.ShardOrder(SIZES, seed=7)
    assert order.num_groups == 3
    epochs = []
    for epoch in range(3):
        groups = [_pieces(order, 3 * epoch + place) for place in range(3)]
        assert sorted(map(len, groups)) == [6, 7, 7]
        epochs.append(sum(groups, []))
        whole = [(shard, 0, size) for shard, size in enumerate(SIZES)]
        assert sorted(epochs[-1]) == whole
    assert epochs[0] != epochs[1] != epochs[2]


def test_the_order_follows_from_the_seed():
    first, again, other = (
        _shards(shard_order.ShardOrder(SIZES, seed), 0) for seed in (7, 7, 8)
    )
    assert first == again != other


def test_a_shard_across_a_border_is_read_by_both_streams_each_its_part():
    # In the order 0, 2, 1 of the shards the border is in the middle of the second.
    one, two = (shard_order.ShardOrder([4, 4, 4], 1, number, 2) for number in (0, 1))
    for epoch in range(4):
        assert sorted(_pieces(one, epoch)) == [(0, 0, 4), (2, 0, 2)]
        assert sorted(_pieces(two, epoch)) == [(1, 0, 4), (2, 2, 2)]


def test_borders_move_by_a_record_if_records_cannot_be_divided():
    one, two = (shard_order.ShardOrder([3, 4], 1, number, 2) for number in (0, 1))
    for epoch in (0, 2):
        assert sorted(_pieces(one, epoch)) == [(0, 0, 3), (1, 0, 0)]
        assert sorted(_pieces(two, epoch)) == [(1, 0, 4)]
    for epoch in (1, 3):
        assert sorted(_pieces(one, epoch)) == [(0, 0, 3), (1, 0, 1)]
        assert sorted(_pieces(two, epoch)) == [(1, 1, 3)]


def test_streams_of_equally_many_records_read_every_nth_shard():
    sizes = [3, 5, 2, 4, 5, 2, 0, 4, 6, 1, 0, 0]
    assert [sum(sizes[number::2]) for number in (0, 1)] == [16, 16]
    for number in (0, 1):
        order = shard_order.ShardOrder(sizes, 7, number, 2)
        alone = shard_order.ShardOrder(sizes[number::2], 7)
        for epoch in range(3):
            of_its_own = [(2 * s + number, *rest) for s, *rest in _pieces(alone, epoch)]
            assert _pieces(order, epoch) == of_its_own


def _records(order, group):
    """The records of a group as (shard, number in it)."""
    pieces = _pieces(order, group)
    return [(s, first + n) for s, first, count in pieces for n in range(count)]


@pytest.mark.parametrize(
    ("sizes", "num_streams"),
    [
        (SIZES, 1),
        (SIZES, 7),  # 87 records
        ([16, 16, 16], 2),
        ([1, 30, 1], 3),
        ([5, 0, 0, 6], 4),
        (SIZES[:11], 11),
    ],
)
def test_every_record_is_drawn_equally_often(sizes, num_streams):
    orders = [
        shard_order.ShardOrder(sizes, 3, number, num_streams)
        for number in range(num_streams)
    ]
    draws: dict[tuple[int, int], int] = {}
    lengths = np.zeros(num_streams, int)
    for epoch in range(2 * num_streams):
        for number, order in enumerate(orders):
            groups = epoch * order.num_groups + np.arange(order.num_groups)
            records = [r for group in groups for r in _records(order, group)]
            lengths[number] += len(records)
            for record in records:
                draws[record] = draws.get(record, 0) + 1
        # In an epoch each is drawn once, by one of the streams ...
        assert set(draws.values()) == {epoch + 1} and len(draws) == sum(sizes)
        # ... and the streams keep step, as all read as many records for a batch.
        assert lengths.max() - lengths.min() <= 1
    assert set(lengths) == {2 * sum(sizes)}


@pytest.mark.parametrize(("number", "num_streams"), [(0, 1), (0, 3), (2, 3)])
def test_every_number_of_records_read_is_located(number, num_streams):
    order = shard_order.ShardOrder([10, *SIZES], 7, number, num_streams)  # 97 records
    expected = []
    for group in range(7):
        expected += [(group, place) for place in range(len(_records(order, group)))]
    found = [order.locate(num_read) for num_read in range(len(expected))]
    assert found == expected
    # After this many epochs every stream has read as many as there are, so often.
    num_epochs = 10**9 * num_streams
    assert order.locate(10**9 * 97) == (num_epochs * order.num_groups, 0)


def test_streams_without_records_are_refused():
    with pytest.raises(ValueError, match="each stream must have records"):
        shard_order.ShardOrder([0, 0], seed=1)
    with pytest.raises(ValueError, match="received 2 for 3 streams"):
        shard_order.ShardOrder([1, 0, 1], 1, 0, 3)
