"""The index of an evaluation set: what matches it, and what does not."""

import random
from multiprocessing import reduction

import numpy as np
import pytest

from data_prep.text import contamination

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


def test_texts_without_words_are_skipped():
    index = contamination.Index.from_texts(["", " ... ", TEXT], ngram=5)
    assert list(index.hashes) == [5]


@pytest.mark.parametrize("texts", [[], ["", "?!"]])
def test_an_evaluation_set_without_words_is_refused(texts):
    with pytest.raises(ValueError, match="must have a text with a word in it"):
        contamination.Index.from_texts(texts, ngram=5)


def test_ngrams_have_at_least_one_word():
    with pytest.raises(ValueError, match="at least 1; received 0"):
        contamination.Index.from_texts([TEXT], ngram=0)


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
