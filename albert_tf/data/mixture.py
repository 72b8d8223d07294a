"""Order in which a stream draws its records from several sources.

The sources take turns in a fixed, periodic pattern, and their records are in random
order anyway. So every batch has each source's share up to less than two records, and
what a stream has read of each source follows from its number of records alone.
"""

import fractions
import math
from collections.abc import Sequence

import numpy as np

# Weights without a common measure count in parts of this many records.
_MAX_PERIOD = 10_000


class Mixture:
    """The turns of one stream.

    The records of a batch are `part_size` successive turns of each stream, and each
    stream begins where the part of the previous one ends: a batch as a whole takes
    successive turns. Every stream takes all turns in the long run.

    Attributes:
      pattern: int64 [period], the number of the source of each of the stream's records,
        which repeats.
    """

    def __init__(self, weights: Sequence[float], stream: int = 0, part_size: int = 0):
        """Makes the turns.

        Args:
          weights: of the sources, above 0.
          stream: the number of the stream.
          part_size: the stream's records in a batch.
        """
        self._num_sources = len(weights)
        pattern = _pattern(_turns(weights))
        self.pattern = np.roll(pattern, -(stream * part_size % len(pattern)))

    def num_drawn(self, num_records: int) -> list[int]:
        """Returns how many of the stream's first records come from each source."""
        periods, rest = divmod(num_records, len(self.pattern))
        counts = periods * self._count(self.pattern) + self._count(self.pattern[:rest])
        return counts.tolist()

    def turns_after(self, num_records: int) -> np.ndarray:
        """Returns the pattern from record `num_records` on: int64 [period]."""
        return np.roll(self.pattern, -(num_records % len(self.pattern)))

    def _count(self, numbers: np.ndarray) -> np.ndarray:
        return np.bincount(numbers, minlength=self._num_sources)


def _turns(weights: Sequence[float]) -> list[int]:
    """Returns the turns of each source in a period."""
    # By their decimal digits: 0.1 is 1/10.
    exact = [fractions.Fraction(repr(float(weight))) for weight in weights]
    total = sum(exact)
    shares = [weight / total for weight in exact]
    period = math.lcm(*(share.denominator for share in shares))
    if period > _MAX_PERIOD:
        return [max(1, round(_MAX_PERIOD * share)) for share in shares]
    return [int(period * share) for share in shares]


def _pattern(turns: Sequence[int]) -> np.ndarray:
    """Spreads the turns of each source evenly over the period: int64 [period].

    The n-th of k turns of a source is due at (n + 1/2) / k of the period (the method of
    Webster for seats of a parliament).
    """
    due = np.concatenate([(np.arange(k) + 0.5) / k for k in turns])
    sources = np.repeat(np.arange(len(turns)), turns)
    return sources[np.argsort(due, kind="stable")]
