"""Hashes of words and of word n-grams.

A word is a run of letters, digits and underscores, in composed form (NFC) and
casefolded, so that neither line breaks nor punctuation nor case separate equal texts.
"""

import functools
import re
import sys
import unicodedata
from collections.abc import Sequence

import numpy as np

from albert_tf.core import numba_cache, prng

# An odd multiplier with well-mixed bits: 2^64 divided by the golden ratio, the
# increment of SplitMix64.
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)


def word_hashes(lines: Sequence[str]) -> np.ndarray:
    """Hashes the words of a document.

    Args:
      lines: the lines of the document; no word continues over a line break.

    Returns:
      uint64 [W]: one hash per word, in order.
    """
    text = unicodedata.normalize("NFC", "\n".join(lines)).casefold()
    # Single surrogates are allowed: they are not letters, so they end up in no word.
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), "<u4")
    return _hash_words(codes, _is_word())


def ngram_hashes(words: np.ndarray, size: int) -> np.ndarray:
    """Hashes all n-grams of `size` words.

    Args:
      words: uint64 [W], from `word_hashes`.
      size: words per n-gram, at least 1.

    Returns:
      uint64 [max(0, W - size + 1)]: one hash per n-gram, in order.
    """
    return _hash_ngrams(words, size)


@functools.cache
def _is_word() -> np.ndarray:
    """Returns bool [1114112]: the code points that belong to words."""
    is_word = np.zeros(sys.maxunicode + 1, np.bool_)
    everything = "".join(map(chr, range(len(is_word))))
    for match in re.finditer(r"\w+", everything):
        is_word[match.start() : match.end()] = True
    return is_word


# In Numba, the sum of a signed and an unsigned integer is a float; hence the casts.


@numba_cache.kernel
def _hash_words(codes, is_word):
    """Hashes words: code points [C], and bool [1114112] `is_word`, to uint64 [W]."""
    hashes = np.empty(len(codes) // 2 + 1, np.uint64)
    num_words = 0
    value = np.uint64(0)
    inside = False
    for code in codes:
        if is_word[code]:
            value = (value ^ np.uint64(code)) * _MULTIPLIER
            value ^= value >> np.uint64(32)
            inside = True
        elif inside:
            hashes[num_words] = prng.splitmix64(value)
            num_words += 1
            value = np.uint64(0)
            inside = False
    if inside:
        hashes[num_words] = prng.splitmix64(value)
        num_words += 1
    return hashes[:num_words].copy()


@numba_cache.kernel
def _hash_ngrams(words, size):
    """Hashes n-grams by a rolling polynomial: uint64 [W] to [max(0, W - size + 1)]."""
    hashes = np.empty(max(0, len(words) - size + 1), np.uint64)
    leading = np.uint64(1)
    for _ in range(size):
        leading *= _MULTIPLIER
    value = np.uint64(0)
    for i in range(len(words)):
        value = value * _MULTIPLIER + words[i]
        if i >= size:
            value -= leading * words[i - size]
        if i >= size - 1:
            hashes[i - size + 1] = prng.splitmix64(value)
    return hashes
