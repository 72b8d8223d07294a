"""n-gram masking of whole words."""

from typing import NamedTuple

import numpy as np
import pytest
from scipy import stats

from albert_tf.core import prng
from albert_tf.data import masking

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


class Masked(NamedTuple):
    """A masked sequence, and what was counted."""

    input_ids: np.ndarray
    positions: np.ndarray
    labels: np.ndarray
    drawn_lengths: np.ndarray
    placed_lengths: np.ndarray
    kinds: np.ndarray


def stream(*key):
    return prng.seed_state(np.array(key, np.uint64))


def make_params(
    rate=0.15,
    max_predictions=1000,
    max_ngram=3,
    distribution="shorter",
    replaced=(0.8, 0.1),
):
    return masking.make_params(
        max_ngram,
        distribution,
        rate,
        max_predictions,
        2000,
        MASK,
        REPLACEMENT_IDS,
        *replaced,
    )


def mask(tokens, segment_a_length, source, **settings):
    params = make_params(**settings)
    max_ngram = len(params.cumulative)
    input_ids = tokens.copy()
    positions, labels = np.zeros((2, len(tokens)), np.int32)
    drawn, placed = np.zeros((2, max_ngram), np.int64)
    kinds = np.zeros(3, np.int64)
    num_masked = masking.mask_sequence(
        input_ids,
        IS_WORD_START[tokens],
        segment_a_length,
        params,
        source,
        positions,
        labels,
        drawn,
        placed,
        kinds,
    )
    return Masked(
        input_ids, positions[:num_masked], labels[:num_masked], drawn, placed, kinds
    )


def many(count, **settings):
    rng = np.random.default_rng(5)
    for number in range(count):
        tokens, length = make_sequence(rng, *rng.integers(20, 60, size=2))
        yield tokens, length, mask(tokens, length, stream(number), **settings)


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
    assert make_params(max_predictions=max_predictions).budgets[num_tokens] == expected


def test_a_rate_of_almost_one_masks_every_word_and_no_special_token():
    tokens = np.array([CLS, 20, 700, 21, SEP, 22, 23, 701, 702, SEP], np.int32)
    masked = mask(tokens, 5, stream(0), rate=0.99)
    assert masked.positions.tolist() == [1, 2, 3, 5, 6, 7, 8]
    assert masked.labels.tolist() == [20, 700, 21, 22, 23, 701, 702]
    assert masked.input_ids[[0, 4, 9]].tolist() == [CLS, SEP, SEP]


def test_a_segments_first_token_begins_a_word():
    tokens = np.array([CLS, 700, 701, SEP, 702, 20, SEP], np.int32)
    chosen = {
        tuple(mask(tokens, 4, stream(i), max_ngram=1, max_predictions=2).positions)
        for i in range(200)
    }
    # The budget is 1, for which the first word is too long.
    assert chosen == {(4,), (5,)}


@pytest.mark.parametrize(
    ("distribution", "literal"),
    [
        ("shorter", [6 / 11, 3 / 11, 2 / 11]),
        ("uniform", [1 / 3, 1 / 3, 1 / 3]),
        ("longer", [1 / 6, 2 / 6, 3 / 6]),
    ],
)
def test_lengths_are_drawn_by_the_distribution(distribution, literal):
    # Differs from the original, whose lengths are biased towards short spans.
    drawn = sum(m.drawn_lengths for _, _, m in many(4000, distribution=distribution))
    assert drawn.sum() >= 20000
    expected = np.array(literal) * drawn.sum()
    assert stats.chisquare(drawn, expected).pvalue > 0.001


def test_lengths_are_placed_as_drawn_but_for_the_last():
    rng = np.random.default_rng(8)
    drawn = placed = 0
    for number in range(300):
        tokens, length = make_sequence(rng, 200, 200, (1.0, 0.0, 0.0))
        masked = mask(tokens, length, stream(number))
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
        budget = make_params(max_predictions=cap).budgets[len(tokens)]
        assert len(masked.positions) <= budget
        reached += len(masked.positions)
        budgets += budget
    assert reached == budgets  # words of one piece are never far


def test_nothing_is_masked_if_no_word_fits_the_budget():
    tokens = np.array([CLS, 20, 700, SEP, 21, 701, SEP], np.int32)
    masked = mask(tokens, 4, stream(0))
    assert masked.positions.tolist() == masked.labels.tolist() == []
    assert np.array_equal(masked.input_ids, tokens)
    assert masked.drawn_lengths.sum() == 1 and masked.placed_lengths.sum() == 0


def test_eighty_ten_ten():
    kinds = sum(m.kinds for _, _, m in many(2500))
    assert kinds.sum() >= 20000
    expected = np.array([0.8, 0.1, 0.1]) * kinds.sum()
    assert stats.chisquare(kinds, expected).pvalue > 0.001


@pytest.mark.parametrize("replaced", [(0.5, 0.3), (0.9, 0.1), (0.25, 0.0)])
def test_replacements_have_the_rates_of_the_settings(replaced):
    tokens, length = make_sequence(np.random.default_rng(3), 60, 60)
    kinds = sum(
        mask(tokens, length, stream(number), replaced=replaced).kinds
        for number in range(600)
    )
    expected = np.array([replaced[0], 1 - sum(replaced), replaced[1]])
    possible = expected > 1e-9
    assert not kinds[~possible].any()
    expected = expected[possible] / expected[possible].sum() * kinds.sum()
    assert stats.chisquare(kinds[possible], expected).pvalue > 0.001


def test_all_masked_tokens_may_become_the_mask():
    tokens, length = make_sequence(np.random.default_rng(4), 60, 60)
    for number in range(200):
        masked = mask(tokens, length, stream(number), replaced=(1.0, 0.0))
        assert (masked.input_ids[masked.positions] == MASK).all()


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
    tokens = np.array([CLS, *range(20, 60), SEP, *range(60, 100), SEP], np.int32)
    counts = np.zeros(len(tokens), int)
    for number in range(4000):
        counts[mask(tokens, 42, stream(number), max_ngram=1).positions] += 1
    words = np.delete(counts, [0, 41, 82])
    assert stats.chisquare(words).pvalue > 0.001


def test_equal_streams_give_equal_masks():
    # Differs from the original, whose lengths come from an unseeded generator.
    tokens, length = make_sequence(np.random.default_rng(0), 40, 30)
    first, second, other = (mask(tokens, length, stream(seed)) for seed in (1, 1, 2))
    assert np.array_equal(first.input_ids, second.input_ids)
    assert np.array_equal(first.positions, second.positions)
    assert not np.array_equal(first.positions, other.positions)


def test_a_span_stays_in_its_segment():
    # Three words, [SEP], four words; all of them are of one piece.
    tokens = np.array([CLS, 20, 21, 22, SEP, 23, 24, 25, 26, SEP], np.int32)
    longest_placed = 0
    for number in range(300):
        masked = mask(
            tokens, 5, stream(number), rate=0.3, max_ngram=4, distribution="longer"
        )
        # With a budget of 3, a drawn span of 4 words fits only into B, cut to 3.
        longest_placed += masked.placed_lengths[2]
        if masked.placed_lengths[2]:
            positions = set(masked.positions.tolist())
            assert positions in ({1, 2, 3}, {5, 6, 7}, {6, 7, 8}), positions
    assert longest_placed > 100


def test_a_single_segment_is_masked_to_its_end():
    tokens = np.array([CLS, *range(20, 28), SEP], np.int32)
    seen = set()
    for number in range(200):
        masked = mask(tokens, len(tokens), stream(number), rate=0.3)
        assert len(masked.positions) == 3
        seen |= set(masked.positions.tolist())
    assert seen == set(range(1, 9))


def test_a_batch_is_masked_as_its_sequences_are():
    rng = np.random.default_rng(7)
    rows = [make_sequence(rng, a, b) for a, b in ((5, 9), (20, 3), (8, 8))]
    width = max(len(tokens) for tokens, _ in rows) + 4
    input_ids = np.zeros((3, width), np.int32)
    bits = np.zeros((3, -(-width // 8)), np.uint8)
    for row, (tokens, _) in enumerate(rows):
        input_ids[row, : len(tokens)] = tokens
        packed = np.packbits(IS_WORD_START[tokens], bitorder="little")
        bits[row, : len(packed)] = packed
    keys = np.arange(6, dtype=np.uint64).reshape(3, 2)
    masked_ids, positions, labels, weights = masking.mask_batch(
        input_ids,
        np.array([len(tokens) for tokens, _ in rows]),
        np.array([length for _, length in rows]),
        bits,
        True,
        make_params(),
        keys,
        11,
    )
    for row, (tokens, length) in enumerate(rows):
        alone = mask(tokens, length, stream(2 * row, 2 * row + 1))
        num_masked = len(alone.positions)
        assert masked_ids[row, : len(tokens)].tolist() == alone.input_ids.tolist()
        assert not masked_ids[row, len(tokens) :].any()
        assert positions[row, :num_masked].tolist() == alone.positions.tolist()
        assert labels[row, :num_masked].tolist() == alone.labels.tolist()
        assert weights[row].tolist() == [1.0] * num_masked + [0.0] * (11 - num_masked)
        assert not positions[row, num_masked:].any()


def test_without_whole_words_every_token_counts_as_one():
    tokens = np.array([[CLS, 20, 700, 701, SEP, 702, 703, 704, 705, SEP]], np.int32)
    found = set()
    for number in range(100):
        _, positions, _, _ = masking.mask_batch(
            tokens,
            np.array([10]),
            np.array([5]),
            np.zeros((1, 2), np.uint8),
            False,
            make_params(rate=0.1),
            np.array([[number]], np.uint64),
            1,
        )
        found.add(int(positions[0, 0]))
    assert found == {1, 2, 3, 5, 6, 7, 8}
