"""The order of training items, and the lengths that their batches are padded to."""

from collections.abc import Sequence

import numpy as np

# Items of so many batches are sorted by length together. More would save little, and
# would let the lengths decide which items meet.
_POOL_BATCHES = 50


class ItemOrder:
    """Shuffled items of successive epochs, in batches.

    Each epoch takes every item once, in an order drawn from the seed and the number of
    the epoch; a batch may span two epochs. With lengths, the items of pools of 50
    batches are sorted by length, so that a batch has items of like lengths, and the
    batches of a pool are shuffled. Those that span two epochs stay as they are.
    """

    def __init__(
        self,
        num_items: int,
        batch_size: int,
        seed: int,
        item_lengths: np.ndarray | None = None,
    ):
        """Creates an order.

        Args:
          num_items: number of items.
          batch_size: B, items of a global batch.
          seed: of the run.
          item_lengths: int [num_items], to batch by; None for any lengths in a batch.
        """
        self._num_items, self._batch_size = num_items, batch_size
        self._seed, self._item_lengths = seed, item_lengths
        self._epoch = -1
        self._order = np.zeros([0], np.int64)

    def take(self, step: int) -> np.ndarray:
        """Returns the items of the batch after `step` batches: int64 [B]."""
        first = step * self._batch_size
        end = first + self._batch_size
        items: list[np.ndarray] = []
        while first < end:
            epoch, place = divmod(first, self._num_items)
            if epoch != self._epoch:
                self._order, self._epoch = self._draw(epoch), epoch
            items.append(self._order[place : place + end - first])
            first += len(items[-1])
        return np.concatenate(items)

    def _draw(self, epoch: int) -> np.ndarray:
        """Returns the items in the order of an epoch: int64 [num_items]."""
        generator = np.random.default_rng([self._seed, epoch])
        order = generator.permutation(self._num_items)
        if self._item_lengths is None:
            return order
        size = self._batch_size
        # The items before the epoch's first whole batch complete the last epoch's.
        first = -epoch * self._num_items % size
        num_batches = max(0, self._num_items - first) // size
        num_pools = -(-num_batches // _POOL_BATCHES)
        for pool in np.array_split(np.arange(num_batches), num_pools or 1):
            begin, end = first, first + len(pool) * size
            items = order[begin:end]
            by_length = items[np.argsort(self._item_lengths[items], kind="stable")]
            shuffled = generator.permutation(by_length.reshape(-1, size))
            order[begin:end] = shuffled.ravel()
            first = end
        return order


def choose_lengths(
    item_lengths: np.ndarray, candidates: Sequence[int], num_lengths: int
) -> tuple[int, ...]:
    """Chooses lengths to pad to that cost the fewest tokens.

    Args:
      item_lengths: int [num_items], at most the last candidate.
      candidates: ascending lengths.
      num_lengths: how many to choose at most.

    Returns:
      Ascending lengths, the last of which is the last candidate: those of which the sum
      over all items, each padded to the first length that it fits into, is least.
    """
    bins = np.searchsorted(candidates, item_lengths)
    # num_up_to[j] items fit into candidate j - 1.
    num_up_to = np.cumsum([0, *np.bincount(bins, minlength=len(candidates))])
    # best[j] is the least cost of the items up to candidate j - 1, with its number of
    # lengths, which decides between equal costs, and the lengths.
    best: list[tuple[int, int, tuple[int, ...]]] = [(0, 0, ())]
    best += [
        (int(num_up_to[j + 1]) * length, 1, (length,))
        for j, length in enumerate(candidates)
    ]
    for _ in range(num_lengths - 1):
        best = best[:1] + [
            min(
                (
                    cost + int(num_up_to[j + 1] - num_up_to[i]) * length,
                    count + 1,
                    (*found, length),
                )
                for i, (cost, count, found) in enumerate(best[: j + 1])
            )
            for j, length in enumerate(candidates)
        ]
    return best[-1][2]
