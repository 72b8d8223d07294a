"""n-gram masking of whole words."""

import numpy as np
import pytest
from scipy import stats

from data_prep import masking

CLS, SEP, MASK = 2, 3, 4
VOCAB_SIZE = 1000
# Ids from 500 on go on with a word, those from 5 to 499 begin one.
IS_WORD_START = np.arange(VOCAB_SIZE) < 500
REPLACEMENT_IDS = np.array([7, 11, 600], np.int32)


def make_sequence(
    rng, num_words_a, num_words_b, piece_probabilities=(0.75, 0.17, 0.08)
):
    """[CLS] A [SEP] B [SEP] of words of 1, 2, 3 pieces; and the length of A."""

    def segment(num_words):
        tokens = []
        for num_pieces in rng.choice([1, 2, 3], num_words, p=piece_probabilities):
            tokens.append(rng.integers(12, 500))
            tokens.extend(rng.integers(601, VOCAB_SIZE, size=num_pieces - 1))
        return tokens

    a, b = segment(num_words_a), segment(num_words_b)
    return np.array([CLS, *a, SEP, *b, SEP], np.int32), len(a) + 2


def mask(tokens, segment_a_length, rng, **settings):
    return masking.mask_tokens(
        tokens,
        segment_a_length,
        IS_WORD_START,
        **{
            "masked_lm_rate": 0.15,
            "max_predictions": 1000,
            "max_ngram": 3,
            "mask_id": MASK,
            "replacement_ids": REPLACEMENT_IDS,
            "rng": rng,
        }
        | settings,
    )


def many(count, **settings):
    rng = np.random.default_rng(5)
    for _ in range(count):
        tokens, length = make_sequence(rng, *rng.integers(20, 60, size=2))
        yield tokens, length, mask(tokens, length, rng, **settings)


def words_of(tokens, segment_a_length):
    """The words as sets of positions, found in the plainest way."""
    words = []
    for position, token in enumerate(tokens):
        if position in (0, segment_a_length - 1, len(tokens) - 1):
            continue
        if IS_WORD_START[token] or position in (1, segment_a_length):
            words.append(set())
        words[-1].add(position)
    return words


def test_ngram_probabilities_are_the_papers():
    np.testing.assert_allclose(masking.ngram_probabilities(1), [1.0])
    np.testing.assert_allclose(masking.ngram_probabilities(2), [2 / 3, 1 / 3])
    np.testing.assert_allclose(masking.ngram_probabilities(3), [6 / 11, 3 / 11, 2 / 11])


@pytest.mark.parametrize(
    ("num_tokens", "max_predictions", "expected"),
    [(128, 1000, 19), (512, 77, 77), (512, 20, 20), (5, 1000, 1), (3, 20, 1)],
)
def test_the_budget_is_a_share_at_least_one_and_capped(
    num_tokens, max_predictions, expected
):
    assert masking.num_to_mask(num_tokens, 0.15, max_predictions) == expected


def test_a_rate_of_almost_one_masks_every_word_and_no_special_token():
    tokens = np.array([CLS, 20, 700, 21, SEP, 22, 23, 701, 702, SEP], np.int32)
    masked = mask(tokens, 5, np.random.default_rng(0), masked_lm_rate=0.99)
    assert masked.positions.tolist() == [1, 2, 3, 5, 6, 7, 8]
    assert masked.labels.tolist() == [20, 700, 21, 22, 23, 701, 702]
    assert masked.input_ids[[0, 4, 9]].tolist() == [CLS, SEP, SEP]


def test_a_segments_first_token_begins_a_word():
    tokens = np.array([CLS, 700, 701, SEP, 702, 20, SEP], np.int32)
    rng = np.random.default_rng(0)
    chosen = {
        tuple(mask(tokens, 4, rng, max_ngram=1, max_predictions=2).positions)
        for _ in range(200)
    }
    # The budget is 1, for which the first word is too long.
    assert chosen == {(4,), (5,)}


def test_lengths_are_drawn_by_the_papers_law():
    # Differs from the original, whose lengths are biased towards short spans.
    drawn = sum(m.drawn_lengths for _, _, m in many(4000))
    assert drawn.sum() >= 20000
    expected = masking.ngram_probabilities(3) * drawn.sum()
    assert stats.chisquare(drawn, expected).pvalue > 0.001


def test_lengths_are_placed_as_drawn_but_for_the_last():
    rng = np.random.default_rng(8)
    drawn = placed = 0
    for _ in range(300):
        tokens, length = make_sequence(rng, 200, 200, (1.0, 0.0, 0.0))
        masked = mask(tokens, length, rng)
        drawn, placed = drawn + masked.drawn_lengths, placed + masked.placed_lengths
    # Only the last span of a sequence may be cut, from 3 or 2 words to 1 or 2.
    assert np.abs(drawn - placed).max() <= 300
    assert drawn.sum() > 8000


def test_whole_words_are_masked():
    for tokens, length, masked in many(300):
        positions = set(masked.positions.tolist())
        for word in words_of(tokens, length):
            assert word <= positions or not word & positions


def test_special_tokens_are_never_masked_and_labels_give_the_text_back():
    for tokens, length, masked in many(300):
        assert not {0, length - 1, len(tokens) - 1} & set(masked.positions.tolist())
        assert np.array_equal(np.unique(masked.positions), masked.positions)
        restored = masked.input_ids.copy()
        restored[masked.positions] = masked.labels
        assert np.array_equal(restored, tokens)


@pytest.mark.parametrize("cap", [1, 4, 20, 1000])
def test_the_budget_is_never_exceeded_and_reached_but_for_long_words(cap):
    reached = budgets = 0
    for tokens, _, masked in many(300, max_predictions=cap):
        budget = masking.num_to_mask(len(tokens), 0.15, cap)
        assert len(masked.positions) <= budget
        reached += len(masked.positions)
        budgets += budget
    assert reached == budgets  # words of one piece are never far


def test_nothing_is_masked_if_no_word_fits_the_budget():
    tokens = np.array([CLS, 20, 700, SEP, 21, 701, SEP], np.int32)
    masked = mask(tokens, 4, np.random.default_rng(0))
    assert masked.positions.tolist() == masked.labels.tolist() == []
    assert np.array_equal(masked.input_ids, tokens)
    assert masked.drawn_lengths.sum() == 1 and masked.placed_lengths.sum() == 0


def test_eighty_ten_ten():
    kinds = sum(m.kinds for _, _, m in many(2500))
    assert kinds.sum() >= 20000
    expected = np.array([0.8, 0.1, 0.1]) * kinds.sum()
    assert stats.chisquare(kinds, expected).pvalue > 0.001


def test_kinds_are_what_the_ids_show():
    # 7, 11 and 600 do not occur in the text, so a random token is told from a kept one.
    for tokens, _, masked in many(200):
        new = masked.input_ids[masked.positions]
        is_mask, is_kept = new == MASK, new == masked.labels
        shown = [is_mask.sum(), is_kept.sum(), (~is_mask & ~is_kept).sum()]
        assert masked.kinds.tolist() == shown
        assert (masked.input_ids != tokens).sum() == shown[0] + shown[2]


def test_random_replacements_are_uniform_and_never_control_symbols():
    # Differs from the original, which draws any id of the vocabulary.
    found = np.zeros(VOCAB_SIZE, int)
    for _, _, masked in many(1000):
        new = masked.input_ids[masked.positions]
        is_random = (new != MASK) & (new != masked.labels)
        found += np.bincount(new[is_random], minlength=VOCAB_SIZE)
    assert np.flatnonzero(found).tolist() == REPLACEMENT_IDS.tolist()
    assert stats.chisquare(found[REPLACEMENT_IDS]).pvalue > 0.001


def test_every_word_is_masked_as_often_as_its_neighbours():
    rng = np.random.default_rng(3)
    tokens = np.array([CLS, *range(20, 60), SEP, *range(60, 100), SEP], np.int32)
    counts = np.zeros(len(tokens), int)
    for _ in range(4000):
        counts[mask(tokens, 42, rng, max_ngram=1).positions] += 1
    words = np.delete(counts, [0, 41, 82])
    assert stats.chisquare(words).pvalue > 0.001


def test_equal_generators_give_equal_masks():
    # Differs from the original, whose lengths come from an unseeded generator.
    tokens, length = make_sequence(np.random.default_rng(0), 40, 30)
    first, second, other = (
        mask(tokens, length, np.random.default_rng(seed)) for seed in (1, 1, 2)
    )
    assert np.array_equal(first.input_ids, second.input_ids)
    assert np.array_equal(first.positions, second.positions)
    assert not np.array_equal(first.positions, other.positions)


def test_a_span_stays_in_its_segment():
    rng = np.random.default_rng(11)
    starts = [1, 2, 3, 5, 6, 7, 8, 9]  # three words, [SEP] at 4, four words
    crossing_lengths = 0
    for _ in range(300):
        spans, _ = masking._choose_spans(starts, 3, 4, 3, rng)
        for word, n in spans:
            assert word + n <= 3 or word >= 3, (word, n)
            crossing_lengths += n > 1
    assert crossing_lengths > 100  # there were spans that could have crossed
