"""Finds documents that share a word n-gram with an evaluation set.

N-grams are compared by 64-bit hashes alone: by chance, a document of a thousand words
matches an index of ten million n-grams with probability 5e-10.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from data_prep.text import ngram_hashing


class Index:
    """Word n-grams of an evaluation set; picklable, as it holds arrays only.

    A text of fewer than `ngram` words is one n-gram of its length, and a document that
    has these words in a row matches it. A text of one or two words would thus match
    nearly every document: index the passages of an evaluation set, not its labels or
    answers.

    Attributes:
      ngram: number of words in a row that count as a match.
      hashes: for each length of n-grams, uint64 [N]: their hashes, sorted and unique.
    """

    def __init__(self, ngram: int, hashes: Mapping[int, np.ndarray]):
        self.ngram = ngram
        self.hashes = dict(sorted(hashes.items()))
        self._filters = {size: _HashSet(known) for size, known in self.hashes.items()}

    @classmethod
    def from_texts(cls, texts: Iterable[str], ngram: int) -> "Index":
        """Builds the index of all n-grams of texts, in any order.

        Args:
          texts: strings; line breaks in them only separate words. Texts without a word
            are skipped.
          ngram: number of words in an n-gram.

        Raises:
          ValueError: `ngram` is below 1, or no text has a word.
        """
        if ngram < 1:
            raise ValueError(f"ngram must be at least 1; received {ngram}")
        found: dict[int, list[np.ndarray]] = {}
        for text in texts:
            words = ngram_hashing.word_hashes((text,))
            if len(words):
                size = min(ngram, len(words))
                hashes = ngram_hashing.ngram_hashes(words, size)
                found.setdefault(size, []).append(hashes)
        if not found:
            raise ValueError(
                "an evaluation set must have a text with a word in it; received none. "
                "Check the field from which its texts are read"
            )
        return cls(
            ngram, {size: np.unique(np.concatenate(h)) for size, h in found.items()}
        )

    @property
    def digest(self) -> str:
        """SHA-256 of the n-grams in hexadecimal, equal on all machines."""
        digest = hashlib.sha256(f"ngram {self.ngram}".encode())
        for size, hashes in self.hashes.items():
            digest.update(f"; {len(hashes)} of {size}: ".encode())
            digest.update(hashes.astype("<u8").tobytes())
        return digest.hexdigest()

    def matches(self, lines: Sequence[str]) -> bool:
        """Returns whether a document has an n-gram of the index, over line breaks too.

        Args:
          lines: the lines of the document.
        """
        words = ngram_hashing.word_hashes(lines)
        return any(
            known.has_any(ngram_hashing.ngram_hashes(words, size))
            for size, known in self._filters.items()
        )


class _HashSet:
    """A set of hashes, with a table that rejects most other hashes in one access."""

    def __init__(self, hashes: np.ndarray):
        self._hashes = hashes
        bits = len(hashes).bit_length() + 3  # at most 1 of 8 entries is set
        self._shift = np.uint64(64 - bits)
        self._table = np.zeros(1 << bits, np.bool_)
        self._table[hashes >> self._shift] = True

    def has_any(self, hashes: np.ndarray) -> bool:
        candidates = hashes[self._table[hashes >> self._shift]]
        positions = np.searchsorted(self._hashes, candidates)
        positions[positions == len(self._hashes)] = 0
        return bool(np.any(self._hashes[positions] == candidates))
