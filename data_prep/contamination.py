"""Finds documents that share a run of words with an evaluation set.

A word is a run of letters, digits and underscores, in composed form (NFC) and
without case, so neither line breaks nor punctuation hide a match. Words and runs of
words are known by 64 bit hashes alone: by chance, a document of a thousand words
matches an index of ten million runs with probability 5e-10.
"""

import functools
import hashlib
import re
import sys
import unicodedata
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from albert_tf import compiled, random_stream

# Odd constants whose bits look random: those of the golden ratio and of SplitMix64.
_STEP = np.uint64(0x9E3779B97F4A7C15)


class Index:
    """The word n-grams of an evaluation set; plain arrays, so it can be pickled.

    A text of fewer than `ngram` words counts as one n-gram of its own length, and a
    document matches it if it has that run of words anywhere. A text of one or two words
    would thus match nearly every document: index the passages of an evaluation set,
    not its labels or answers.

    Attributes:
      ngram: the number of words in a row that count as a match.
      hashes: for each length of n-grams, uint64 [N]: their hashes, sorted, each once.
    """

    def __init__(self, ngram: int, hashes: Mapping[int, np.ndarray]):
        self.ngram = ngram
        self.hashes = dict(sorted(hashes.items()))
        self._filters = {size: _Filter(known) for size, known in self.hashes.items()}

    @classmethod
    def from_texts(cls, texts: Iterable[str], ngram: int) -> "Index":
        """The index of all n-grams of some texts; the order of texts is no matter.

        Args:
          texts: one string a text; line breaks within it separate words and no more.
            Texts without a word are passed over.
          ngram: the number of words in an n-gram.

        Raises:
          ValueError: `ngram` is below 1, or no text has a word.
        """
        if ngram < 1:
            raise ValueError(f"ngram must be at least 1; received {ngram}")
        found: dict[int, list[np.ndarray]] = {}
        for text in texts:
            words = word_hashes((text,))
            if len(words):
                size = min(ngram, len(words))
                found.setdefault(size, []).append(ngram_hashes(words, size))
        if not found:
            raise ValueError(
                "an evaluation set must have a text with a word in it; received none. "
                "Check the field that its texts are read from"
            )
        return cls(
            ngram, {size: np.unique(np.concatenate(h)) for size, h in found.items()}
        )

    @property
    def digest(self) -> str:
        """A SHA-256 in hexadecimal, the same for the same n-grams on any machine."""
        digest = hashlib.sha256(f"ngram {self.ngram}".encode())
        for size, hashes in self.hashes.items():
            digest.update(f"; {len(hashes)} of {size}: ".encode())
            digest.update(hashes.astype("<u8").tobytes())
        return digest.hexdigest()

    def matches(self, lines: Sequence[str]) -> bool:
        """Whether a document has an n-gram of the index; it may lie over line breaks.

        Args:
          lines: the lines of the document.
        """
        words = word_hashes(lines)
        return any(
            known.has_any(ngram_hashes(words, size))
            for size, known in self._filters.items()
        )


class _Filter:
    """A set of hashes, with a table that sends most strangers away at one look."""

    def __init__(self, hashes: np.ndarray):
        self._hashes = hashes
        bits = len(hashes).bit_length() + 3  # 1 of 8 entries or fewer is set
        self._shift = np.uint64(64 - bits)
        self._table = np.zeros(1 << bits, np.bool_)
        self._table[hashes >> self._shift] = True

    def has_any(self, hashes: np.ndarray) -> bool:
        likely = hashes[self._table[hashes >> self._shift]]
        places = np.searchsorted(self._hashes, likely)
        places[places == len(self._hashes)] = 0
        return bool(np.any(self._hashes[places] == likely))


def word_hashes(lines: Sequence[str]) -> np.ndarray:
    """The hashes of a document's words.

    Args:
      lines: the lines of the document; words end where lines do.

    Returns:
      uint64 [W]: one hash a word, in order.
    """
    text = unicodedata.normalize("NFC", "\n".join(lines)).casefold()
    # Surrogates are no letters, so it does no harm that they are no text.
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), "<u4")
    return _hash_words(codes, _is_word())


def ngram_hashes(words: np.ndarray, size: int) -> np.ndarray:
    """The hashes of all runs of `size` words.

    Args:
      words: uint64 [W], as of `word_hashes`.
      size: at least 1.

    Returns:
      uint64 [max(0, W - size + 1)]: one hash a run, in order.
    """
    return _hash_runs(words, size)


@functools.cache
def _is_word() -> np.ndarray:
    """Bool [1114112]: which code points belong to words."""
    is_word = np.zeros(sys.maxunicode + 1, np.bool_)
    everything = "".join(map(chr, range(len(is_word))))
    for match in re.finditer(r"\w+", everything):
        is_word[match.start() : match.end()] = True
    return is_word


# Numba takes the sum of a signed and an unsigned integer for a float, hence the casts.


@compiled.kernel
def _hash_words(codes, is_word):
    """Code points [C] and which of them are in words to uint64 [W]."""
    hashes = np.empty(len(codes) // 2 + 1, np.uint64)
    num_words = 0
    value = np.uint64(0)
    inside = False
    for code in codes:
        if is_word[code]:
            value = (value ^ np.uint64(code)) * _STEP
            value ^= value >> np.uint64(32)
            inside = True
        elif inside:
            hashes[num_words] = random_stream.mix(value)
            num_words += 1
            value = np.uint64(0)
            inside = False
    if inside:
        hashes[num_words] = random_stream.mix(value)
        num_words += 1
    return hashes[:num_words].copy()


@compiled.kernel
def _hash_runs(words, size):
    """Word hashes [W] to the hashes [W - size + 1] of runs, by a rolling polynomial."""
    hashes = np.empty(max(0, len(words) - size + 1), np.uint64)
    leading = np.uint64(1)
    for _ in range(size):
        leading *= _STEP
    value = np.uint64(0)
    for i in range(len(words)):
        value = value * _STEP + words[i]
        if i >= size:
            value -= leading * words[i - size]
        if i >= size - 1:
            hashes[i - size + 1] = random_stream.mix(value)
    return hashes
