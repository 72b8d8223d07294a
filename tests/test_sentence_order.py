"""Packing of documents into pairs of consecutive segments."""

import numpy as np
import pytest
from scipy import stats

from albert_tf import schema
from data_prep import sentence_order

EVERY_TOKEN = np.ones(5000, bool)


def pack(sentences, is_word_start=EVERY_TOKEN, length=11, short=0.0, seed=0):
    return sentence_order.pack_document(
        [np.array(s, np.int32) for s in sentences],
        is_word_start,
        length,
        short,
        np.random.default_rng(seed),
    )


def document(lengths, first=0):
    """Sentences whose tokens count on from `first`: a token tells its place."""
    ends = np.cumsum(lengths) + first
    return [np.arange(end - n, end) for n, end in zip(lengths, ends, strict=True)]


def in_order(pair):
    parts = (pair.segment_a, pair.segment_b)
    return np.concatenate(parts[::-1] if pair.label == schema.SWAPPED else parts)


def test_two_sentences_become_one_pair_in_either_order():
    seen = set()
    for seed in range(20):
        (pair,), dropped = pack([[1, 2, 3], [4, 5]], seed=seed)
        seen.add((tuple(pair.segment_a), tuple(pair.segment_b), pair.label))
        assert not dropped
    assert seen == {((1, 2, 3), (4, 5), 0), ((4, 5), (1, 2, 3), 1)}


def test_a_sentence_that_would_overflow_opens_the_next_chunk():
    # Differs from the original, which truncates. A chunk holds 11 - 3 = 8 tokens.
    pairs, dropped = pack(document([3, 4, 2, 5, 1, 6]))
    assert [in_order(p).tolist() for p in pairs] == [
        list(range(0, 7)),
        list(range(7, 15)),
        list(range(15, 21)),
    ]
    assert not dropped


@pytest.mark.parametrize("short", [0.0, 1.0])
def test_segments_are_consecutive_and_no_text_is_lost(short):
    rng = np.random.default_rng(1)
    for seed in range(50):
        sentences = document(rng.integers(1, 40, size=rng.integers(1, 30)), first=7)
        pairs, dropped = pack(sentences, length=37, short=short, seed=seed)
        # A pair is a stretch of the document, so counts on by one at each token, ...
        for pair in pairs:
            tokens = in_order(pair)
            assert np.array_equal(tokens, np.arange(tokens[0], tokens[-1] + 1))
            assert len(pair.segment_a) and len(pair.segment_b)
            assert len(tokens) <= 34
        # ... and all pairs together are the document.
        num_tokens = sum(len(in_order(p)) for p in pairs)
        assert num_tokens + dropped.total() == sum(map(len, sentences))


def test_pairs_end_where_sentences_end_whatever_the_label():
    # Differs from the original: the outer ends must not give the label away.
    sentences = document([3, 2] * 48)  # 32 chunks of three sentences
    starts = {s[0] for s in sentences}
    pairs, _ = pack(sentences, short=0.0)
    assert all({p.segment_a[0], p.segment_b[0]} <= starts for p in pairs)


def test_half_of_the_pairs_are_swapped():
    sentences = document([2, 2] * 1000)
    labels = [p.label for p in pack(sentences, length=8)[0]]
    assert len(labels) == 1000
    low, high = stats.binom.interval(0.999, len(labels), 0.5)
    assert low <= sum(labels) <= high


def test_the_cut_is_uniform_over_sentence_boundaries():
    pairs, _ = pack(document([1, 1, 1, 1] * 1000), length=8, short=0.0)
    # max_seq_length 8 holds 5 tokens, so that chunks are 5 sentences: 4 boundaries.
    firsts = [p.segment_b if p.label else p.segment_a for p in pairs]
    counts = np.bincount([len(f) for f in firsts], minlength=5)[1:]
    assert counts.sum() == 800 and len(counts) == 4
    assert stats.chisquare(counts).pvalue > 0.001


def test_a_document_of_one_sentence_is_cut_at_a_word_boundary():
    # Differs from the original, which takes a random document's text as segment B.
    is_word_start = np.isin(np.arange(20), [10, 12, 15])
    firsts = set()
    for seed in range(60):
        (pair,), dropped = pack([range(10, 17)], is_word_start, seed=seed)
        assert in_order(pair).tolist() == list(range(10, 17))
        assert not dropped
        firsts.add(len(pair.segment_b if pair.label else pair.segment_a))
    assert firsts == {2, 5}


def test_a_single_word_is_dropped_and_counted():
    is_word_start = np.isin(np.arange(20), [10])
    pairs, dropped = pack([[10, 11, 12]], is_word_start)
    assert pairs == []
    assert dropped == {"single_word": 3}


def test_nothing_comes_of_nothing():
    assert pack([]) == ([], {})
    assert pack([[], []]) == ([], {})


def test_a_long_sentence_is_cut_where_words_end():
    # Differs from the original, which loses what is behind one record's worth.
    is_word_start = np.isin(np.arange(40), [0, 3, 7, 9, 14, 20, 22, 31])
    pieces = sentence_order._cut_long(np.arange(33), is_word_start, 8)
    # [7, 14) and [14, 20) are as long as fits; [22, 31) is one word of 9 tokens.
    assert [p.tolist() for p in pieces] == [
        list(range(0, 7)),
        list(range(7, 14)),
        list(range(14, 22)),
        list(range(22, 30)),
        list(range(30, 33)),
    ]


def test_a_short_target_is_drawn_once_a_document():
    lengths = []
    for seed in range(3000):
        pairs, _ = pack(document([1] * 60), length=23, short=1.0, seed=seed)
        chunk_lengths = [len(in_order(p)) for p in pairs]
        assert set(chunk_lengths[:-1]) == {chunk_lengths[0]}
        lengths.append(chunk_lengths[0])
    counts = np.bincount(lengths)[2:]
    assert len(counts) == 19  # 2 to 20
    assert stats.chisquare(counts).pvalue > 0.001


def test_the_share_of_short_targets_is_the_rate():
    long = sum(
        len(in_order(pack(document([1] * 30), length=29, short=0.1, seed=s)[0][0])) > 25
        for s in range(3000)
    )
    # Of the short targets, 2 to 26, one in 25 is 26 all the same.
    low, high = stats.binom.interval(0.999, 3000, 0.9 + 0.1 / 25)
    assert low <= long <= high


def test_equal_generators_give_equal_pairs():
    sentences = document([3, 2, 5, 1] * 20)
    first, second = pack(sentences, seed=4)[0], pack(sentences, seed=4)[0]
    other = pack(sentences, seed=5)[0]
    assert [p.label for p in first] == [p.label for p in second]
    assert all(map(np.array_equal, map(in_order, first), map(in_order, second)))
    assert [p.label for p in first] != [p.label for p in other]
