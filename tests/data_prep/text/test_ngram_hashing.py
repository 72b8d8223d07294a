"""Hashes of words and n-grams: equal where the words are, and only there."""

import random
import re

import numpy as np

from data_prep.text import ngram_hashing


def test_words_are_composed_and_without_case():
    composed = ngram_hashing.word_hashes(("caf\xe9 stra\xdfe x_1",))
    decomposed = ngram_hashing.word_hashes(("CAFE\u0301", "STRASSE;", "X_1"))
    assert composed.dtype == np.uint64
    assert composed.shape == (3,)
    assert np.array_equal(composed, decomposed)


def test_words_are_those_of_the_regular_expression():
    rng = random.Random(3)
    alphabet = "ab\xe9\u4e2d\u0e01\u0e34_19 .,'-\n\xa0\u200b\ud800\U0001f600\U00020000"
    hash_of_word, word_of_hash = {}, {}
    for _ in range(3000):
        text = "".join(rng.choices(alphabet, k=rng.randrange(30)))
        words = re.findall(r"\w+", text)
        hashes = ngram_hashing.word_hashes((text,)).tolist()
        assert len(words) == len(hashes)
        for word, value in zip(words, hashes, strict=True):
            assert hash_of_word.setdefault(word, value) == value
            assert word_of_hash.setdefault(value, word) == word


def test_ngram_hashes_are_equal_where_the_words_are_and_only_there():
    rng = random.Random(4)
    words = [rng.choice("abc") for _ in range(2000)]
    hashes = ngram_hashing.word_hashes((" ".join(words),))
    for size in (1, 2, 5, 13):
        by_run = {}
        runs = ngram_hashing.ngram_hashes(hashes, size).tolist()
        assert len(runs) == 2000 - size + 1
        for i, value in enumerate(runs):
            assert by_run.setdefault(tuple(words[i : i + size]), value) == value
        assert len(set(by_run.values())) == len(by_run)


def test_there_are_no_ngrams_longer_than_the_text():
    words = ngram_hashing.word_hashes(("a b c",))
    assert ngram_hashing.ngram_hashes(words, 3).shape == (1,)
    assert ngram_hashing.ngram_hashes(words, 4).shape == (0,)
    assert ngram_hashing.ngram_hashes(words, 9).shape == (0,)
