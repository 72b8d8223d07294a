"""Offsets of pieces and words in the graph, against the original text."""

import json
import unicodedata

import pytest
import tensorflow as tf

from albert_tf.tokenization import graph_offsets
from albert_tf.tokenization import tokenizer as tokenizer_lib


@pytest.fixture(scope="module")
def tokenizer(testdata):
    return tokenizer_lib.Tokenizer.from_file(
        str(testdata / "tokenization" / "spm_small.model")
    )


@pytest.fixture(scope="module")
def aligning(tokenizer):
    return graph_offsets.AligningTokenizer(tokenizer)


@pytest.fixture(scope="module")
def texts(testdata):
    path = testdata / "tokenization" / "tokenization_spm_small.json"
    rows = json.loads(path.read_text(encoding="utf-8"))["rows"]
    return [row["text"] for row in rows]


def aligned(tokenizer, aligning, texts):
    """For each text (piece, start, end) of all its pieces."""
    found = aligning.encode_with_offsets(texts)
    ids, starts, ends = (values.to_list() for values in found)
    assert ids == tokenizer.encode_batch(texts)
    return [
        list(zip(tokenizer.pieces(row), *places, strict=True))
        for row, *places in zip(ids, starts, ends, strict=True)
    ]


def test_offsets_are_characters_of_the_text_as_it_was_given(tokenizer, aligning):
    texts = [
        "  the \u3000 river",
        "a (b)",
        "Caf\u0065\u0301s",  # the accent is dropped, and belongs to its letter
        "\U0001d400 the",  # four bytes, one character
        "\ufb01nal",  # one character becomes "fi"
        "",
        " \t ",
    ]
    assert aligned(tokenizer, aligning, texts) == [
        [("▁the", 2, 5), ("▁river", 8, 13)],
        # A lone "▁" starts where the next character stands, and ends behind the last.
        [("▁a", 0, 1), ("▁", 2, 1), ("(", 2, 3), ("b", 3, 4), (")", 4, 5)],
        [("▁ca", 0, 2), ("f", 2, 3), ("es", 3, 6)],
        [("▁a", 0, 1), ("▁the", 2, 5)],
        [("▁final", 0, 4)],
        [],
        [],
    ]


def test_slices_of_500_tricky_texts_are_what_the_pieces_say(tokenizer, aligning, texts):
    exact, inside, unknown = 0, 0, 0
    for text, pieces in zip(texts, aligned(tokenizer, aligning, texts), strict=True):
        for piece, start, end in pieces:
            letters = piece.replace(tokenizer_lib.META_SYMBOL, "")
            if piece == "<unk>":
                assert text[start:end].strip()
                unknown += 1
            elif letters:
                # What SentencePiece's own normalization does besides.
                said = unicodedata.normalize(
                    "NFKC", tokenizer.normalize(text[start:end])
                )
                exact += said == letters
                # A character may become several pieces, and has one place.
                inside += said != letters and letters in said and end - start <= 3
    total = sum(
        piece != "<unk>" and piece != tokenizer_lib.META_SYMBOL
        for pieces in aligned(tokenizer, aligning, texts)
        for piece, _, _ in pieces
    )
    # Three are left: "a<BEL>b" and "a<ESC>b", of which SentencePiece drops the middle,
    # and "▁▁ two", whose marks are taken for spaces.
    assert (total, exact, inside) == (11687, 11643, 41)
    assert unknown > 50


def test_offsets_neither_overlap_nor_go_back(tokenizer, aligning, texts):
    for text, pieces in zip(texts, aligned(tokenizer, aligning, texts), strict=True):
        last_start = last_end = 0
        for piece, start, end in pieces:
            assert 0 <= start <= len(text) and 0 <= end <= len(text)
            assert start >= last_start and end >= last_end, (text, piece)
            last_start, last_end = start, end


def test_parts_of_a_digit_comma_piece_have_their_own_places(testdata, shared_data):
    path = shared_data / "albert_en_30k.spm.model"
    if not path.is_file():
        pytest.skip(
            "no ../shared/data/albert_en_30k.spm.model: the released vocabulary"
        )
    tokenizer = tokenizer_lib.Tokenizer.from_file(str(path))
    aligning = graph_offsets.AligningTokenizer(tokenizer)
    text = "In  1990, and 2011, the (1990,"
    (pieces,) = aligned(tokenizer, aligning, [text])
    assert [(text[s:e], p) for p, s, e in pieces if "," in text[s:e]] == [
        (",", ",")
    ] * 3
    assert ("▁1990", 4, 8) in pieces and (",", 8, 9) in pieces


def test_offsets_do_not_depend_on_the_other_texts(aligning, texts):
    together = aligning.encode_with_offsets(texts)
    for number in range(0, len(texts), 37):
        alone = aligning.encode_with_offsets(texts[number : number + 1])
        for ours, theirs in zip(alone, together, strict=True):
            assert ours[0].numpy().tolist() == theirs[number].numpy().tolist()


def test_invalid_bytes_count_as_one_character_each(aligning):
    found = aligning.encode_with_offsets(tf.constant([b"a\xff the"]))
    assert (found.starts.to_list(), found.ends.to_list()) == ([[0, 1]], [[1, 6]])


def test_words_are_those_of_pythons_split(aligning, texts):
    found = aligning.split_words(texts)
    words, starts, ends = (values.to_list() for values in found)
    for text, row, row_starts, row_ends in zip(texts, words, starts, ends, strict=True):
        assert [word.decode() for word in row] == text.split()
        slices = [text[s:e] for s, e in zip(row_starts, row_ends, strict=True)]
        assert slices == text.split()
