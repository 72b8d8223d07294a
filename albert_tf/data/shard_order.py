"""Order in which a stream reads its records, and the position of a step in it."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

# Shards read at a time; more would only help if one file is slower than a host.
GROUP_SIZE = 8


class Pieces(NamedTuple):
    """Parts of shards, int64 [at most GROUP_SIZE] each.

    shards: numbers of the shards.
    firsts: the first record of each that is read.
    counts: how many are read from there; may be 0.
    """

    shards: tf.Tensor
    firsts: tf.Tensor
    counts: tf.Tensor


class ShardOrder:
    """Endless epochs of a stream, each in another random order, in groups of shards.

    In each epoch the streams divide all records into ranges of equal size, up to one
    record. These borders move from epoch to epoch, so that after `num_streams` epochs
    all streams have read equally many: no record is drawn more often than another. A
    shard across a border is read by both streams, each its part.

    The shards of a group are interleaved and shuffled. Groups do not mix, so that a run
    that resumes need only read its current group. Groups are counted over all epochs.
    """

    def __init__(
        self,
        num_records: Sequence[int],
        seed: int,
        stream: int = 0,
        num_streams: int = 1,
    ):
        """Makes the order of a stream.

        Args:
          num_records: of each shard.
          seed: of the orders.
          stream: the number of the stream.
          num_streams: how many streams divide the records.

        Raises:
          ValueError: there are fewer records than streams.
        """
        sizes = np.array(num_records, np.int64)
        self._total = int(sizes.sum())
        if self._total < num_streams:
            raise ValueError(
                f"each stream must have records; received {self._total} for "
                f"{num_streams} streams. Make the records again from more text, or set "
                "a smaller train.num_streams"
            )
        self._seed, self._stream, self._num_streams = seed, stream, num_streams
        # A stream begins with every n-th shard; only what is uneven crosses borders.
        homes = np.arange(len(sizes)) % num_streams
        shards = np.argsort(homes, kind="stable")
        homes, sizes = homes[shards], sizes[shards]
        ends = np.cumsum(sizes)
        starts = ends - sizes
        lowest = stream * self._total // num_streams
        highest = -(-(stream + 1) * self._total // num_streams)
        is_read = np.where(
            sizes > 0, (starts < highest) & (ends > lowest), homes == stream
        )
        self._shards, self._starts, self._ends = (
            values[is_read] for values in (shards, starts, ends)
        )
        self.num_groups = -(-len(self._shards) // GROUP_SIZE)

    def pieces(self, group) -> Pieces:
        """Returns the pieces of group int64 []."""
        epoch, place = group // self.num_groups, group % self.num_groups
        order = self._epoch_order(epoch)
        # Groups of equal size, up to one shard.
        bounds = [
            (place + end) * len(self._shards) // self.num_groups for end in (0, 1)
        ]
        chosen = order[bounds[0] : bounds[1]]
        starts, ends = tf.gather(self._starts, chosen), tf.gather(self._ends, chosen)
        firsts, ends = (
            tf.clip_by_value(tf.fill(tf.shape(starts), border), starts, ends) - starts
            for border in self._borders(epoch)
        )
        return Pieces(tf.gather(self._shards, chosen), firsts, ends - firsts)

    def shuffle_seed(self, group) -> tf.Tensor:
        """Returns the seed for shuffling a group; int64 []."""
        key = tf.stack([tf.constant(self._seed, tf.int64), group])
        return tf.random.stateless_uniform([], key, 1, 2**31, tf.int64)

    def locate(self, num_read: int) -> tuple[int, int]:
        """Returns the group at record `num_read`, and the records read of it."""
        # In `num_streams` epochs a stream reads as many records as there are.
        cycle, rest = divmod(num_read, self._total)
        epochs = np.arange(self._num_streams)
        first, end = self._stream, self._stream + 1
        num_before = self._num_before(end, epochs) - self._num_before(first, epochs)
        epoch = int(np.searchsorted(num_before, rest, side="right")) - 1
        rest -= int(num_before[epoch])
        group = (cycle * self._num_streams + epoch) * self.num_groups
        while True:
            pieces = self.pieces(tf.constant(group, tf.int64))
            group_records = int(tf.reduce_sum(pieces.counts))
            if rest < group_records:
                return group, rest
            rest -= group_records
            group += 1

    def _borders(self, epoch) -> list:
        """Returns the first record of the stream in an epoch, and the end of the last.

        `epoch` epochs have `epoch * number / num_streams` times all records before a
        border, rounded down: borders are rounded in such a way that this holds.
        """
        epoch %= self._num_streams
        return [
            self._num_before(number, epoch + 1) - self._num_before(number, epoch)
            for number in (self._stream, self._stream + 1)
        ]

    def _num_before(self, number: int, num_epochs):
        """Returns how many records `num_epochs` epochs have before stream `number`."""
        return num_epochs * (number * self._total) // self._num_streams

    def _epoch_order(self, epoch):
        shards = tf.range(len(self._shards), dtype=tf.int64)
        key = tf.stack([tf.constant(self._seed, tf.int64), epoch])
        return tf.random.experimental.stateless_shuffle(shards, key)
