"""Rows with masks, as Salazar et al. and Kauf and Ivanova define them."""

import types

import numpy as np
import pytest

from albert_tf.probing import masked_rows

CLS, SEP, MASK = 2, 3, 4
# 11 and 13 continue words.
TOKENIZER = types.SimpleNamespace(
    cls_id=CLS,
    sep_id=SEP,
    mask_id=MASK,
    is_word_start=np.array([i not in (11, 13) for i in range(20)]),
)


def scored(rows):
    """(row, position, target, sentence) of each scored token, by sentence."""
    found = [
        (rows.input_ids[row].tolist(), int(rows.positions[row]), int(target), int(one))
        for row, target, one in zip(
            rows.target_rows, rows.target_ids, rows.sentences, strict=True
        )
    ]
    return sorted(found, key=lambda item: (item[3], item[1]))


def test_each_token_is_masked_once():
    (rows,) = masked_rows.make([[10, 11, 13]], TOKENIZER, "pll")
    assert scored(rows) == [
        ([CLS, MASK, 11, 13, SEP], 1, 10, 0),
        ([CLS, 10, MASK, 13, SEP], 2, 11, 0),
        ([CLS, 10, 11, MASK, SEP], 3, 13, 0),
    ]
    assert rows.input_ids.dtype == rows.positions.dtype == np.int32


def test_within_word_also_masks_the_rest_of_the_word():
    (rows,) = masked_rows.make([[10, 11, 13, 12, 11]], TOKENIZER, "within_word")
    assert scored(rows) == [
        ([CLS, MASK, MASK, MASK, 12, 11, SEP], 1, 10, 0),
        ([CLS, 10, MASK, MASK, 12, 11, SEP], 2, 11, 0),
        ([CLS, 10, 11, MASK, 12, 11, SEP], 3, 13, 0),
        ([CLS, 10, 11, 13, MASK, MASK, SEP], 4, 12, 0),
        ([CLS, 10, 11, 13, 12, MASK, SEP], 5, 11, 0),
    ]


def test_equal_rows_are_made_once_and_lengths_apart():
    """The sentences differ in their second token: where it is masked they are equal."""
    short, long = masked_rows.make([[10, 11], [12], [10, 14]], TOKENIZER, "pll")
    assert scored(short) == [([CLS, MASK, SEP], 1, 12, 1)]
    assert len(long.input_ids) == 3 and len(long.target_ids) == 4
    assert scored(long) == [
        ([CLS, MASK, 11, SEP], 1, 10, 0),
        ([CLS, 10, MASK, SEP], 2, 11, 0),
        ([CLS, MASK, 14, SEP], 1, 10, 2),
        ([CLS, 10, MASK, SEP], 2, 14, 2),
    ]
    assert np.all(np.diff(long.target_rows) >= 0)


def test_rows_of_one_length_are_made_a_portion_at_a_time(monkeypatch):
    monkeypatch.setattr(masked_rows, "_PORTION_BYTES", 2 * 4 * 2 * 4)  # two sentences
    sentences = [[10, 11], [12], [10, 14], [10, 15]]
    assert masked_rows.num_tokens(sentences) == 3 + 3 * 8
    found = list(masked_rows.make(sentences, TOKENIZER, "pll"))
    assert [one.input_ids.shape for one in found] == [(1, 3), (3, 4), (2, 4)]
    assert [sorted({*one.sentences.tolist()}) for one in found] == [[1], [0, 2], [3]]


@pytest.mark.parametrize("metric", ["pll", "within_word"])
def test_every_token_of_every_sentence_is_scored(metric):
    rng = np.random.default_rng(3)
    sentences = [rng.integers(10, 15, rng.integers(1, 7)).tolist() for _ in range(50)]
    found = {}
    for rows in masked_rows.make(sentences, TOKENIZER, metric):
        assert len(np.unique(rows.input_ids, axis=0)) == len(rows.input_ids)
        for ids, position, target, sentence in scored(rows):
            own = sentences[sentence]
            found.setdefault(sentence, []).append(target)
            assert ids[position] == MASK and len(ids) == len(own) + 2
            assert ids[1:position] == own[: position - 1]
    assert found == dict(enumerate(sentences))
