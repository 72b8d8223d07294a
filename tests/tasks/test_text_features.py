"""Texts become the rows that the original makes; words keep their labels."""

import json
import time

import numpy as np
import pytest

from albert_tf.tasks import features as features_lib
from albert_tf.tasks import text_features
from albert_tf.tokenization import tokenizer as tokenizer_lib

GOLDEN_LENGTH = 64


@pytest.fixture(scope="module")
def tokenizer(testdata):
    path = testdata / "tokenization" / "spm_small.model"
    return tokenizer_lib.Tokenizer.from_file(str(path))


def ids_of(rows: features_lib.Features, row: int) -> list[int]:
    return rows.ids[rows.span(row)].tolist()


def test_pairs_and_single_texts_equal_the_original(testdata, tokenizer):
    golden = json.loads((testdata / "ft" / "glue_pair_features.json").read_text())
    singles = [one for one in golden if one["text_b"] is None]
    pairs = [one for one in golden if one["text_b"] is not None]
    assert len(singles) == len(pairs) == 20
    assert any(len(one["input_ids"]) == GOLDEN_LENGTH for one in pairs)
    for group in (singles, pairs):
        second = [one["text_b"] for one in group]
        rows = text_features.encode_texts(
            [one["text_a"] for one in group],
            second if second[0] is not None else None,
            tokenizer,
            GOLDEN_LENGTH,
            {},
        )
        assert rows.example_index.tolist() == list(range(20))
        for number, one in enumerate(group):
            assert ids_of(rows, number) == one["input_ids"]
            assert rows.num_first[number] == one["num_first"]


@pytest.mark.parametrize(
    ("first", "second", "most", "expected"),
    [
        (3, 4, 7, (3, 4)),
        (9, 2, 7, (5, 2)),
        (2, 9, 7, (2, 5)),
        (9, 9, 7, (4, 3)),  # of equal ones the second loses
        (9, 9, 8, (4, 4)),
        (0, 9, 7, (0, 7)),
    ],
)
def test_the_longer_text_of_a_pair_is_cut(first, second, most, expected):
    assert text_features.truncated_lengths(first, second, most) == expected


def test_lengths_are_those_of_cutting_token_by_token():
    for first in range(13):
        for second in range(13):
            for most in range(1, 13):
                one, two = first, second
                while one + two > most:
                    if one > two:
                        one -= 1
                    else:
                        two -= 1
                found = text_features.truncated_lengths(first, second, most)
                assert found == (one, two), (first, second, most)


def test_a_row_depends_on_its_example_alone(tokenizer):
    texts, pairs = ["a highway", "the zoo in Berlin", ""], ["x", "is 1990,", "y"]
    labels = np.array([2, 0, 1], np.int32)
    whole = text_features.encode_texts(
        texts, pairs, tokenizer, 9, {"label_ids": labels}
    )
    parts = [
        text_features.encode_texts(
            [texts[n]], [pairs[n]], tokenizer, 9, {"label_ids": labels[n : n + 1]}
        )
        for n in range(3)
    ]
    joined = features_lib.concatenate(parts, [1, 1, 1])
    assert features_lib.to_bytes(whole) == features_lib.to_bytes(joined)
    assert whole.per_row["label_ids"].tolist() == [2, 0, 1]


def test_no_texts_give_no_rows(tokenizer):
    for rows in (
        text_features.encode_texts([], None, tokenizer, 9, {}),
        text_features.encode_words([], [], tokenizer, 9),
    ):
        assert (rows.num_rows, rows.offsets.tolist(), len(rows.ids)) == (0, [0], 0)


def test_the_first_piece_of_a_word_has_its_label(tokenizer):
    # unthinkable: 109 57 69 104 175, is: 38, a lone accent: nothing, Zoo: 13 357 58 58
    rows = text_features.encode_words(
        [["unthinkable", "is", "\u0301", "Zoo"], ["is"]],
        [[4, 5, 6, 7], [3]],
        tokenizer,
        64,
    )
    assert ids_of(rows, 0) == [2, 109, 57, 69, 104, 175, 38, 1, 13, 357, 58, 58, 3]
    assert rows.per_token["token_label_ids"].tolist() == (
        [-1, 4, -1, -1, -1, -1, 5, 6, 7, -1, -1, -1, -1] + [-1, 3, -1]
    )
    assert rows.notes[text_features.WORD_INDEX].tolist() == (
        [-1, 0, -1, -1, -1, -1, 1, 2, 3, -1, -1, -1, -1] + [-1, 0, -1]
    )
    assert rows.num_first.tolist() == [13, 3]


def test_words_beyond_the_row_are_cut_off(tokenizer):
    words = ["is", "unthinkable", "is", "is"]
    rows = text_features.encode_words([words], [[4, 5, 6, 7]], tokenizer, 8)
    # [CLS], is, the five pieces of unthinkable, [SEP]
    assert ids_of(rows, 0) == [2, 38, 109, 57, 69, 104, 175, 3]
    assert rows.per_token["token_label_ids"].tolist() == [-1, 4, 5, -1, -1, -1, -1, -1]
    rows = text_features.encode_words([words], [[4, 5, 6, 7]], tokenizer, 5)
    assert ids_of(rows, 0) == [2, 38, 109, 57, 3]  # within a word, too
    assert rows.per_token["token_label_ids"].tolist() == [-1, 4, 5, -1, -1]


def test_rows_to_predict_from_hold_no_labels(tokenizer):
    rows = text_features.encode_words([["is"]], None, tokenizer, 8)
    assert rows.per_token == {}


def test_scores_of_words_are_read_where_they_begin(tokenizer):
    sentences = [["unthinkable", "is"], ["is", "is", "is", "is"]]
    rows = text_features.encode_words(sentences, None, tokenizer, 8)
    # Row, token, class: distinct numbers; padded beyond the longest row.
    logits = np.arange(2 * 9 * 3, dtype=np.float32).reshape(2, 9, 3)
    found = text_features.word_logits(rows, [2, 4], logits, np.zeros(3))
    assert found[0].tolist() == logits[0, [1, 6]].tolist()
    assert found[1].tolist() == logits[1, [1, 2, 3, 4]].tolist()


def test_words_that_were_cut_off_get_the_scores_of_absent_ones(tokenizer):
    rows = text_features.encode_words([["is"] * 9], None, tokenizer, 8)
    logits = np.ones((1, 8, 2), np.float32)
    (found,) = text_features.word_logits(rows, [9], logits, np.array([0.0, 5.0]))
    assert found.dtype == np.float32
    assert found.tolist() == [[1.0, 1.0]] * 6 + [[0.0, 5.0]] * 3


def test_a_text_of_50000_words_is_cut_without_long_work(tokenizer):
    text = " ".join(["highway"] * 50_000)
    begin = time.perf_counter()
    rows = text_features.encode_texts([text, "is"], [text, text], tokenizer, 64, {})
    tokens = text_features.encode_words([text.split()], None, tokenizer, 64)
    seconds = time.perf_counter() - begin
    assert np.diff(rows.offsets).tolist() == [64, 64]
    assert rows.num_first.tolist() == [33, 3]
    assert len(tokens.ids) == 64
    assert seconds < 10  # 0.3 s as measured; quadratic work would take hours
