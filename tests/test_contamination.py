"""The index of an evaluation set: what matches it, and what does not."""

import random
import re
from multiprocessing import reduction

import numpy as np
import pytest

from data_prep import contamination

TEXT = "One two three, four five: six seven."


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (("zero one two three four five",), True),
        (("ONE two", "three (four)", "FIVE"), True),
        (("three four five six seven eight",), True),
        (("one two three four", "six"), False),
        (("one two three x four five six",), False),
        (("onetwo three four five si",), False),
        (("five four three two one",), False),
        (("",), False),
        ((), False),
    ],
)
def test_documents_match_by_a_run_of_words_over_case_punctuation_and_lines(
    lines, expected
):
    index = contamination.Index.from_texts([TEXT], ngram=5)
    assert index.matches(lines) is expected


def test_an_index_has_each_ngram_once_sorted():
    index = contamination.Index.from_texts(["a b a b a b", "b a b", "c"], ngram=3)
    assert index.ngram == 3
    assert {size: len(known) for size, known in index.hashes.items()} == {1: 1, 3: 2}
    for known in index.hashes.values():
        assert known.dtype == np.uint64
        assert np.all(np.diff(known.astype(object)) > 0)


def test_short_texts_match_documents_that_have_all_their_words_in_a_row():
    index = contamination.Index.from_texts(["the red lighthouse", TEXT], ngram=5)
    assert index.matches(
        (
            "We saw The Red",
            "Lighthouse at last",
        )
    )
    assert not index.matches(
        (
            "the red",
            "and white lighthouse",
        )
    )
    assert not index.matches(("the red",))
    assert not index.matches(("one two three four",))
    assert index.matches(("one two three four five",))


def test_texts_without_words_are_passed_over():
    index = contamination.Index.from_texts(["", " ... ", TEXT], ngram=5)
    assert list(index.hashes) == [5]


@pytest.mark.parametrize("texts", [[], ["", "?!"]])
def test_an_evaluation_set_without_words_is_refused(texts):
    with pytest.raises(ValueError, match="must have a text with a word in it"):
        contamination.Index.from_texts(texts, ngram=5)


def test_ngrams_have_at_least_one_word():
    with pytest.raises(ValueError, match="at least 1; received 0"):
        contamination.Index.from_texts([TEXT], ngram=0)


def test_words_are_composed_and_without_case():
    composed = contamination.word_hashes(("caf\xe9 stra\xdfe x_1",))
    decomposed = contamination.word_hashes(("CAFE\u0301", "STRASSE;", "X_1"))
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
        hashes = contamination.word_hashes((text,)).tolist()
        assert len(words) == len(hashes)
        for word, value in zip(words, hashes, strict=True):
            assert hash_of_word.setdefault(word, value) == value
            assert word_of_hash.setdefault(value, word) == word


def test_ngram_hashes_are_equal_where_the_words_are_and_only_there():
    rng = random.Random(4)
    words = [rng.choice("abc") for _ in range(2000)]
    hashes = contamination.word_hashes((" ".join(words),))
    for size in (1, 2, 5, 13):
        by_run = {}
        runs = contamination.ngram_hashes(hashes, size).tolist()
        assert len(runs) == 2000 - size + 1
        for i, value in enumerate(runs):
            assert by_run.setdefault(tuple(words[i : i + size]), value) == value
        assert len(set(by_run.values())) == len(by_run)


def test_there_are_no_ngrams_longer_than_the_text():
    words = contamination.word_hashes(("a b c",))
    assert contamination.ngram_hashes(words, 3).shape == (1,)
    assert contamination.ngram_hashes(words, 4).shape == (0,)
    assert contamination.ngram_hashes(words, 9).shape == (0,)


def test_matches_agree_with_comparing_the_words_themselves():
    rng = random.Random(6)

    def text(num_words):
        return " ".join(rng.choices("abcdefgh", k=num_words))

    evaluation = [text(rng.randrange(3, 40)) for _ in range(30)]
    index = contamination.Index.from_texts(evaluation, ngram=5)
    runs = {f" {text} " for text in evaluation if len(text.split()) < 5}
    for words in map(str.split, evaluation):
        runs |= {f" {' '.join(words[i : i + 5])} " for i in range(len(words) - 4)}
    found = []
    for _ in range(400):
        document = text(rng.randrange(60))
        expected = any(run in f" {document} " for run in runs)
        assert index.matches(document.split()) is expected
        found.append(expected)
    assert 40 < sum(found) < 360


def test_the_digest_depends_on_the_ngrams_and_nothing_else():
    index = contamination.Index.from_texts([TEXT, "a b c"], ngram=5)
    again = contamination.Index.from_texts(["A, b, c!", TEXT, TEXT], ngram=5)
    other = contamination.Index.from_texts([TEXT, "a b d"], ngram=5)
    longer = contamination.Index.from_texts([TEXT, "a b c"], ngram=6)
    # Literal, so that an index of one version is known to another.
    assert index.digest == (
        "333bbf65a42b98387c189017bbc5c671de0f76ebe6708c4861ded1feeba28cc1"
    )
    assert again.digest == index.digest
    assert len({index.digest, other.digest, longer.digest}) == 3


def test_an_index_can_be_sent_to_another_process():
    index = contamination.Index.from_texts([TEXT], ngram=5)
    sent = reduction.ForkingPickler.loads(reduction.ForkingPickler.dumps(index))
    assert sent.digest == index.digest
    assert sent.matches((TEXT,))
    assert not sent.matches(("something else altogether it is",))
