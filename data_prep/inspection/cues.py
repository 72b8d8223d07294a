"""Cues other than the text that may reveal the labels of pairs, and how often they do.

A model that reads such a cue needs no understanding of the text. So a classifier that
sees one cue alone should guess no better than chance.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from albert_tf.tokenization import tokenizer as tokenizer_lib

# Characters that end a sentence, or quotes and brackets that follow them.
_CLOSING = frozenset(".!?…\"'”’»)]。！？」』")
# Rare tokens count as one: what they hint at is the document, not the order.
_NUM_TOKENS = 256
# Lengths are rounded to this many.
_NUM_LENGTHS = 16


class Boundaries(NamedTuple):
    """The boundaries of pairs that have a label.

    Attributes:
      first_a, last_a, first_b, last_b: int64 [n], tokens before masking.
      length_a, length_b: int64 [n], in tokens, without special ones.
      labels: int64 [n], 0 or 1.
    """

    first_a: np.ndarray
    last_a: np.ndarray
    first_b: np.ndarray
    last_b: np.ndarray
    length_a: np.ndarray
    length_b: np.ndarray
    labels: np.ndarray

    @classmethod
    def of_rows(cls, rows) -> "Boundaries":
        """Returns the columns of a list of n rows in the order of the attributes."""
        return cls(*np.array(rows, np.int64).reshape(-1, len(cls._fields)).T)


def guess_rates(
    pairs: Boundaries, tokenizer: tokenizer_lib.Tokenizer
) -> dict[str, float]:
    """Returns the share of labels that each cue guesses; chance is a half.

    Args:
      pairs: at least two.
      tokenizer: of the records.
    """
    pieces = tokenizer.pieces(range(tokenizer.vocab_size))
    is_closing = np.array([piece[-1:] in _CLOSING for piece in pieces])
    lasts = _frequent(pairs.last_a, pairs.last_b)
    firsts = _frequent(pairs.first_a, pairs.first_b)
    longest = max(pairs.length_a.max(), pairs.length_b.max())
    length_a, length_b = (
        length * _NUM_LENGTHS // (longest + 1)
        for length in (pairs.length_a, pairs.length_b)
    )
    cues: Mapping[str, list[np.ndarray]] = {
        "closing punctuation": [
            2 * is_closing[pairs.last_a] + is_closing[pairs.last_b]
        ],
        "last tokens": lasts,
        "which segment is longer": [np.sign(pairs.length_a - pairs.length_b) + 1],
        "both lengths": [length_a * _NUM_LENGTHS + length_b],
        "first tokens": firsts,
    }
    return {name: guess_rate(columns, pairs.labels) for name, columns in cues.items()}


def standard_error(num_pairs: int) -> float:
    """The standard error of `guess_rate` for labels that no cue reveals."""
    return 0.5 / num_pairs**0.5


def guess_rate(columns: list[np.ndarray], labels: np.ndarray) -> float:
    """Returns the share of labels that naive Bayes guesses.

    Each half of the pairs is guessed by what the other half shows. A guess that both
    labels explain equally well counts as half right.

    Args:
      columns: the cues, int64 [n] each, from 0.
      labels: int64 [n], 0 or 1.
    """
    in_fold = np.arange(len(labels)) % 2 == 0
    right = np.empty(len(labels))
    for fitted in (in_fold, ~in_fold):
        log_odds = np.zeros(len(labels))
        for column in columns:
            size = int(column.max()) + 1
            shares = []
            for label in (0, 1):
                of_label = column[fitted & (labels == label)]
                counts = np.bincount(of_label, minlength=size) + 1.0
                shares.append(counts / counts.sum())
            log_odds += np.log(shares[1] / shares[0])[column]
        is_right = np.where(log_odds == 0, 0.5, (log_odds > 0) == labels)
        right[~fitted] = is_right[~fitted]
    return float(right.mean())


def _frequent(first: np.ndarray, second: np.ndarray) -> list[np.ndarray]:
    """Numbers the most frequent tokens of two columns from 1; others become 0."""
    tokens, counts = np.unique(np.concatenate([first, second]), return_counts=True)
    kept = np.sort(tokens[np.argsort(-counts, kind="stable")[: _NUM_TOKENS - 1]])
    columns = []
    for column in (first, second):
        places = np.minimum(np.searchsorted(kept, column), len(kept) - 1)
        columns.append(np.where(kept[places] == column, places + 1, 0))
    return columns
