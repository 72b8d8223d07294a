"""Order in which the shards of a stream are read, and the position of a step in it."""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

# Shards read at a time; more would only help if one file is slower than a host.
GROUP_SIZE = 8


class ShardOrder:
    """Endless epochs, each in another random order, read in groups of shards.

    The shards of a group are interleaved and shuffled. Groups do not mix, so that a run
    that resumes need only read its current group. Groups are counted over all epochs.
    """

    def __init__(self, num_records: Sequence[int], seed: int):
        """Makes the order of shards with these numbers of records.

        Raises:
          ValueError: there are no records.
        """
        self._num_records = np.array(num_records, np.int64)
        self._seed = seed
        self.num_groups = -(-len(num_records) // GROUP_SIZE)
        if not self._num_records.sum():
            raise ValueError(
                "each stream must have records; the shards of one have none. Make the "
                "records again from more text, or with a smaller data.min_shards"
            )

    def shards(self, group) -> tf.Tensor:
        """Returns the shards of group int64 []; int64 [at most GROUP_SIZE]."""
        order = self._epoch_order(group // self.num_groups)
        # Groups of equal size, up to one shard.
        bounds = [
            (group % self.num_groups + end) * len(self._num_records) // self.num_groups
            for end in (0, 1)
        ]
        return order[bounds[0] : bounds[1]]

    def shuffle_seed(self, group) -> tf.Tensor:
        """Returns the seed for shuffling a group; int64 []."""
        key = tf.stack([tf.constant(self._seed, tf.int64), group])
        return tf.random.stateless_uniform([], key, 1, 2**31, tf.int64)

    def locate(self, num_read: int) -> tuple[int, int]:
        """Returns the group at record `num_read`, and the records read of it."""
        epoch, rest = divmod(num_read, int(self._num_records.sum()))
        group = epoch * self.num_groups
        while True:
            shards = self.shards(tf.constant(group, tf.int64)).numpy()
            group_records = int(self._num_records[shards].sum())
            if rest < group_records:
                return group, rest
            rest -= group_records
            group += 1

    def _epoch_order(self, epoch):
        shards = tf.range(len(self._num_records), dtype=tf.int64)
        key = tf.stack([tf.constant(self._seed, tf.int64), epoch])
        return tf.random.experimental.stateless_shuffle(shards, key)
