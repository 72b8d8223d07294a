"""Packing of documents into pairs of consecutive segments."""

from typing import NamedTuple

import numpy as np
import pytest
from scipy import stats

from albert_tf.core import prng
from albert_tf.data import schema
from data_prep.records import segment_pairs

EVERY_TOKEN = np.ones(5000, bool)


class Pair(NamedTuple):
    """Two segments, which need not be consecutive; or one, and B is empty."""

    segment_a: np.ndarray
    segment_b: np.ndarray
    label: int


def stream(*key):
    return prng.seed_state(np.array(key, np.uint64))


def cut(documents, is_word_start, max_tokens):
    sentences = [np.array(s, np.int32) for d in documents for s in d]
    return segment_pairs.cut_spans(
        np.concatenate([np.empty(0, np.int32), *sentences]),
        np.array([len(s) for s in sentences], np.int64),
        np.array([len(d) for d in documents], np.int64),
        is_word_start,
        max_tokens,
    )


def pack_all(
    documents,
    number,
    is_word_start=EVERY_TOKEN,
    length=11,
    short=0.0,
    seed=0,
    pair_loss=segment_pairs.SOP,
    backward=False,
):
    """The segments of a document among others, in the order of packing."""
    max_tokens = length - segment_pairs.NUM_SPECIAL_TOKENS[pair_loss]
    spans = cut(documents, is_word_start, max_tokens)
    source = stream(seed)
    target = segment_pairs.draw_target(max_tokens, short, source)
    others = np.arange(len(documents))
    span, end = spans.document_spans[number : number + 2]
    if backward:
        span, end = end, span
    pairs = []
    while span != end:
        found = segment_pairs.next_segments(
            spans,
            number,
            span,
            backward,
            target,
            max_tokens,
            pair_loss,
            others,
            source,
        )
        a = spans.ids[found.a_start : found.a_end]
        b = spans.ids[found.b_start : found.b_end]
        assert (found.label == schema.NO_LABEL) == (len(b) == 0)
        pairs.append(Pair(a, b, found.label))
        span = found.span
    return pairs


def pack(sentences, *args, **kwargs):
    return pack_all([sentences], 0, *args, **kwargs)


def document(lengths, first=0):
    """Sentences of consecutive tokens from `first`: a token identifies its place."""
    ends = np.cumsum(lengths) + first
    return [np.arange(end - n, end) for n, end in zip(lengths, ends, strict=True)]


def in_order(pair):
    parts = (pair.segment_a, pair.segment_b)
    return np.concatenate(parts[::-1] if pair.label == schema.SWAPPED else parts)


def test_two_sentences_become_one_pair_in_either_order():
    seen = set()
    for seed in range(20):
        (pair,) = pack([[1, 2, 3], [4, 5]], seed=seed)
        seen.add((tuple(pair.segment_a), tuple(pair.segment_b), pair.label))
    assert seen == {((1, 2, 3), (4, 5), 0), ((4, 5), (1, 2, 3), 1)}


def test_a_sentence_that_would_overflow_opens_the_next_chunk():
    # Differs from the original, which truncates. A chunk holds 11 - 3 = 8 tokens.
    pairs = pack(document([3, 4, 2, 5, 1, 6]))
    assert [in_order(p).tolist() for p in pairs] == [
        list(range(0, 7)),
        list(range(7, 15)),
        list(range(15, 21)),
    ]


def test_a_document_may_be_packed_from_its_end():
    pairs = pack(document([3, 4, 2, 5, 1, 6]), backward=True)
    assert [in_order(p).tolist() for p in pairs] == [
        list(range(14, 21)),
        list(range(7, 14)),
        list(range(0, 7)),
    ]


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("short", [0.0, 1.0])
def test_segments_are_consecutive_and_no_text_is_lost(short, backward):
    rng = np.random.default_rng(1)
    for seed in range(50):
        sentences = document(rng.integers(1, 40, size=rng.integers(1, 30)), first=7)
        pairs = pack(sentences, length=37, short=short, seed=seed, backward=backward)
        # A pair is a range of the document: ids increase by one at each token, ...
        for pair in pairs:
            tokens = in_order(pair)
            assert np.array_equal(tokens, np.arange(tokens[0], tokens[-1] + 1))
            assert len(pair.segment_a)
            assert len(tokens) <= 34
        # ... and all segments together are the document.
        num_tokens = sum(len(in_order(p)) for p in pairs)
        assert num_tokens == sum(map(len, sentences))


def test_pairs_end_where_sentences_end_whatever_the_label():
    # Differs from the original: the outer ends must not reveal the label.
    sentences = document([3, 2] * 48)  # 32 chunks of three sentences
    starts = {s[0] for s in sentences}
    pairs = pack(sentences, short=0.0)
    assert all({p.segment_a[0], p.segment_b[0]} <= starts for p in pairs)


def test_half_of_the_pairs_are_swapped():
    sentences = document([2, 2] * 1000)
    labels = [p.label for p in pack(sentences, length=8)]
    assert len(labels) == 1000
    low, high = stats.binom.interval(0.999, len(labels), 0.5)
    assert low <= sum(labels) <= high


def test_the_cut_is_uniform_over_sentence_boundaries():
    pairs = pack(document([1, 1, 1, 1] * 1000), length=8, short=0.0)
    # max_seq_length 8 holds 5 tokens, so that chunks are 5 sentences: 4 boundaries.
    firsts = [p.segment_b if p.label else p.segment_a for p in pairs]
    counts = np.bincount([len(f) for f in firsts], minlength=5)[1:]
    assert counts.sum() == 800 and len(counts) == 4
    assert stats.chisquare(counts).pvalue > 0.001


def test_a_chunk_of_one_sentence_has_no_label():
    # Differs from the original, which takes a random document's text as segment B.
    # Sentences of 5 and 4 tokens do not fit together; those of 3 and 2 do.
    for seed in range(20):
        pairs = pack(document([5, 4, 3, 2]), seed=seed)
        assert [in_order(p).tolist() for p in pairs] == [
            list(range(0, 5)),
            list(range(5, 12)),
            list(range(12, 14)),
        ]
        assert [len(p.segment_b) > 0 for p in pairs] == [False, True, False]
        assert [p.label == schema.NO_LABEL for p in pairs] == [True, False, True]


def test_a_piece_of_a_sentence_is_alone_and_has_no_label():
    # A chunk holds 8 tokens: the sentence of 11 is cut to 8 and 3, and neither the
    # sentence before nor the one after, which would fit, joins a piece.
    sentences = document([2, 3, 11, 2, 3])
    chunks = [list(range(0, 5)), list(range(5, 13)), [13, 14, 15], [16, 17, 18, 19, 20]]
    for seed in range(20):
        for order, backward in ((1, False), (-1, True)):
            pairs = pack(sentences, seed=seed, backward=backward)[::order]
            assert [in_order(p).tolist() for p in pairs] == chunks
            assert [p.label == schema.NO_LABEL for p in pairs] == [0, 1, 1, 0]


def test_a_single_word_is_a_record_without_a_label():
    (pair,) = pack([[10]])
    assert pair.segment_a.tolist() == [10] and pair.label == schema.NO_LABEL


def test_no_documents_give_no_pairs():
    assert pack([]) == []
    assert pack([[], []]) == []


def test_a_long_sentence_is_cut_where_words_end():
    # Differs from the original, which loses the rest after one record's worth.
    is_word_start = np.isin(np.arange(40), [0, 3, 7, 9, 14, 20, 22, 31])
    found = cut([[np.arange(33)]], is_word_start, 8)
    spans = np.split(found.ids, found.span_starts[1:-1])
    # [7, 14) and [14, 20) are as long as fits; [22, 31) is one word of 9 tokens.
    assert [p.tolist() for p in spans] == [
        list(range(0, 7)),
        list(range(7, 14)),
        list(range(14, 22)),
        list(range(22, 30)),
        list(range(30, 33)),
    ]


def test_a_short_target_is_drawn_once_a_document():
    lengths = []
    for seed in range(3000):
        pairs = pack(document([1] * 60), length=23, short=1.0, seed=seed)
        chunk_lengths = [len(in_order(p)) for p in pairs]
        assert set(chunk_lengths[:-1]) == {chunk_lengths[0]}
        lengths.append(chunk_lengths[0])
    counts = np.bincount(lengths)[2:]
    assert len(counts) == 19  # 2 to 20
    assert stats.chisquare(counts).pvalue > 0.001


def test_the_share_of_short_targets_is_the_rate():
    long = sum(
        len(in_order(pack(document([1] * 30), length=29, short=0.1, seed=s)[0])) > 25
        for s in range(3000)
    )
    # Of the short targets, 2 to 26, one in 25 is 26, too.
    low, high = stats.binom.interval(0.999, 3000, 0.9 + 0.1 / 25)
    assert low <= long <= high


def test_equal_streams_give_equal_pairs():
    sentences = document([3, 2, 5, 1] * 20)
    first, second = pack(sentences, seed=4), pack(sentences, seed=4)
    other = pack(sentences, seed=5)
    assert [p.label for p in first] == [p.label for p in second]
    assert all(map(np.array_equal, map(in_order, first), map(in_order, second)))
    assert [p.label for p in first] != [p.label for p in other]


def test_many_cuts_of_one_sentence_all_find_room():
    # Each word of one token is followed by one as long as a record.
    is_word_start = np.arange(5000) < 2
    sentence = ([0] + [1] + [7] * 7) * 200
    found = cut([[sentence]], is_word_start, 8)
    assert np.diff(found.span_starts).tolist() == [1, 8] * 200
    assert found.document_spans.tolist() == [0, 400]


def test_without_a_pair_loss_there_is_one_segment():
    sentences = document([3, 4, 2, 5, 1, 6])
    pairs = pack(sentences, pair_loss=segment_pairs.NONE)
    # A chunk holds 11 - 2 = 9 tokens.
    assert [p.segment_a.tolist() for p in pairs] == [
        list(range(0, 9)),
        list(range(9, 15)),
        list(range(15, 21)),
    ]
    assert all(p.label == schema.NO_LABEL for p in pairs)


def test_without_a_pair_loss_pieces_share_a_record_with_sentences():
    pairs = pack(document([2, 3, 11, 2, 3]), pair_loss=segment_pairs.NONE)
    # The sentence of 11 tokens is cut to 9 and 2.
    assert [len(p.segment_a) for p in pairs] == [5, 9, 7]


def test_next_sentence_pairs_are_half_consecutive_and_half_from_another_document():
    documents = [document([3, 2, 4] * 300), document([2, 5] * 300, first=3000)]
    pairs = pack_all(documents, 0, length=20, pair_loss=segment_pairs.NSP)
    assert len(pairs) > 200
    labels = [p.label for p in pairs if p.label != schema.NO_LABEL]
    low, high = stats.binom.interval(0.999, len(labels), 0.5)
    assert low <= sum(labels) <= high
    place = 0
    for pair in pairs:
        # A continues the document, so that none of it is lost, ...
        assert pair.segment_a[0] == place
        place = pair.segment_a[-1] + 1
        assert len(pair.segment_a) + len(pair.segment_b) <= 17
        if pair.label == schema.NO_LABEL:
            continue
        if pair.label == 1:
            # ... B is a range of the other document that begins with a sentence ...
            assert pair.segment_b[0] in {s[0] for s in documents[1]}
        else:
            # ... or what follows A.
            assert pair.segment_b[0] == place
            place = pair.segment_b[-1] + 1
        assert (np.diff(pair.segment_b) == 1).all()
    assert place == 2700


def test_without_another_document_next_sentence_pairs_have_no_label():
    # All could only be consecutive, so that a label would say nothing.
    pairs = pack(document([3, 2] * 100), pair_loss=segment_pairs.NSP)
    assert pairs and all(p.label == schema.NO_LABEL for p in pairs)


def test_random_second_segments_are_whole_sentences_or_there_is_no_label():
    # The other document has three pieces of a sentence, and sentences of 6, 5 and 2
    # tokens; 8 - 3 are left, where the one of 6 does not fit.
    documents = [document([3] * 200), document([17, 6, 5, 2], first=3000)]
    drawn, labels = set(), []
    for seed in range(20):
        pairs = pack_all(documents, 0, seed=seed, pair_loss=segment_pairs.NSP)
        drawn |= {tuple((p.segment_b - 3000).tolist()) for p in pairs if p.label == 1}
        labels += [p.label for p in pairs]
    assert drawn == {(23, 24, 25, 26, 27), (28, 29)}
    # The label is drawn after the segment was found: half of the pairs have label 1.
    num_pairs = sum(label != schema.NO_LABEL for label in labels)
    assert num_pairs > 500 and len(labels) > 2 * num_pairs
    low, high = stats.binom.interval(0.999, num_pairs, 0.5)
    assert low <= labels.count(1) <= high
