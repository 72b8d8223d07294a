"""Accuracies of minimal pairs by paradigm and phenomenon, with intervals.

A pair is right if the grammatical sentence has the higher score. A tie, as between
sentences that the vocabulary cannot tell apart, counts as one half, so that a model
without any knowledge is at 50% (Zorro's authors decide ties by chance, those of BLiMP
count them as wrong).
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from albert_tf.probing import suites

# The 97.5% quantile of the normal distribution: intervals are of 95%.
_QUANTILE = 1.959963984540054


class Accuracy(NamedTuple):
    """An accuracy and its interval.

    Attributes:
      accuracy: share of the pairs that are right, 0 to 1; of several paradigms, the
        mean of theirs.
      low: lower end of the 95% interval (Wilson's score interval).
      high: its upper end.
      num_pairs: the number of pairs.
      num_ties: how many of them have equal scores.
    """

    accuracy: float
    low: float
    high: float
    num_pairs: int
    num_ties: int


class Accuracies(NamedTuple):
    """Accuracies of a suite.

    Attributes:
      overall: the mean over the paradigms.
      mean_over_phenomena: the mean over the phenomena, 0 to 1.
      phenomena: by name, in alphabetical order; each the mean over its paradigms.
      paradigms: by name, by phenomenon.
      phenomenon_of: the phenomenon of each paradigm.
    """

    overall: Accuracy
    mean_over_phenomena: float
    phenomena: dict[str, Accuracy]
    paradigms: dict[str, Accuracy]
    phenomenon_of: dict[str, str]

    def to_dict(self) -> dict[str, Any]:
        """Returns the accuracies as values that JSON can hold."""
        return {
            "overall": self.overall._asdict(),
            "mean_over_phenomena": self.mean_over_phenomena,
            "phenomena": {name: one._asdict() for name, one in self.phenomena.items()},
            "paradigms": {
                name: {"phenomenon": self.phenomenon_of[name], **one._asdict()}
                for name, one in self.paradigms.items()
            },
        }


def compute(
    pairs: Sequence[suites.Pair],
    good_scores: Sequence[float],
    bad_scores: Sequence[float],
) -> Accuracies:
    """Computes the accuracies of a suite.

    Args:
      pairs: at least one.
      good_scores: of the grammatical sentences; higher is more acceptable.
      bad_scores: of the ungrammatical ones.
    """
    rights: dict[str, list[float]] = {}
    phenomenon_of: dict[str, str] = {}
    for pair, good, bad in zip(pairs, good_scores, bad_scores, strict=True):
        phenomenon_of.setdefault(pair.paradigm, pair.phenomenon)
        is_right = 0.5 if good == bad else float(good > bad)
        rights.setdefault(pair.paradigm, []).append(is_right)
    names = sorted(rights, key=lambda name: (phenomenon_of[name], name))
    paradigms = {name: _of_paradigm(rights[name]) for name in names}
    phenomena = by_phenomenon(paradigms, phenomenon_of)
    shares = [one.accuracy for one in phenomena.values()]
    return Accuracies(
        _mean(list(paradigms.values())),
        math.fsum(shares) / len(shares),
        phenomena,
        paradigms,
        {name: phenomenon_of[name] for name in names},
    )


def by_phenomenon(
    paradigms: Mapping[str, Accuracy], phenomenon_of: Mapping[str, str]
) -> dict[str, Accuracy]:
    """Returns the means over the paradigms of each phenomenon, by its name."""
    grouped: dict[str, list[Accuracy]] = {}
    for name, one in paradigms.items():
        grouped.setdefault(phenomenon_of[name], []).append(one)
    return {name: _mean(grouped[name]) for name in sorted(grouped)}


def interval(share: float, number: float) -> tuple[float, float]:
    """Returns Wilson's 95% score interval of a share (Wilson, 1927).

    Args:
      share: that was observed, 0 to 1.
      number: of independent observations.
    """
    squared = _QUANTILE**2 / number
    middle = share + squared / 2
    half = _QUANTILE * math.sqrt(share * (1 - share) / number + squared / (4 * number))
    return (middle - half) / (1 + squared), (middle + half) / (1 + squared)


def _of_paradigm(rights: Sequence[float]) -> Accuracy:
    share = math.fsum(rights) / len(rights)
    num_ties = sum(right == 0.5 for right in rights)
    return Accuracy(share, *interval(share, len(rights)), len(rights), num_ties)


def _mean(parts: Sequence[Accuracy]) -> Accuracy:
    """Returns the mean over paradigms.

    Its interval is that of as many pairs as would give the mean its variance if all
    paradigms had the same accuracy: all pairs, where paradigms are equally large. If
    small paradigms with accuracies near one half make the variance larger, it is of
    fewer pairs. Where accuracies differ it is too wide rather than too narrow.
    """
    share = math.fsum(one.accuracy for one in parts) / len(parts)
    number = len(parts) ** 2 / math.fsum(1 / one.num_pairs for one in parts)
    # Shares of 0 and 1 have a variance too (Agresti and Coull, 1998).
    squared = _QUANTILE**2
    sizes = [one.num_pairs + squared for one in parts]
    shares = [
        (one.accuracy * one.num_pairs + squared / 2) / size
        for one, size in zip(parts, sizes, strict=True)
    ]
    summed = math.fsum(
        p * (1 - p) / size for p, size in zip(shares, sizes, strict=True)
    )
    middle = math.fsum(shares) / len(parts)
    number = min(number, middle * (1 - middle) * len(parts) ** 2 / summed)
    return Accuracy(
        share,
        *interval(share, number),
        sum(one.num_pairs for one in parts),
        sum(one.num_ties for one in parts),
    )
