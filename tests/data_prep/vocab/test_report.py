"""The report of a vocabulary: its figures on a text that one can count by hand."""

import json

import pytest

from albert_tf.tokenization import tokenizer as tokenizer_lib
from data_prep.vocab import report as report_lib

# the; fox; ▁ and an unknown piece; ▁1990 and a comma; ▁, x, an unknown piece and x.
LINES = ["The fox 中文", "the  1990, x中x", "the"]


@pytest.fixture(scope="module")
def tokenizer(testdata):
    path = testdata / "tokenization" / "spm_small.model"
    return tokenizer_lib.Tokenizer.from_file(str(path))


def test_figures_are_those_counted_by_hand(tokenizer):
    report = report_lib.measure(tokenizer, LINES)
    assert report == report_lib.VocabReport(
        vocab_sha256=tokenizer.sha256,
        vocab_size=4000,
        lower_case=True,
        num_lines=3,
        num_words=7,
        num_characters=22,
        num_pieces=12,
        character_coverage=1 - 3 / 22,
        unknown_rate=2 / 12,
        single_piece_rate=4 / 7,
        pieces_per_word=12 / 7,
        pieces_per_word_percentiles={"50": 1, "90": 4, "99": 4},
        pieces_per_character=12 / 22,
        characters_per_piece=22 / 12,
        vocabulary_used=6 / 3995,
        unknown_characters=(
            report_lib.UnknownCharacter("中", "U+4E2D", 2),
            report_lib.UnknownCharacter("文", "U+6587", 1),
        ),
    )


def test_casing_is_that_of_the_tokenizer(tokenizer):
    cased = tokenizer_lib.Tokenizer(tokenizer.model_proto, lower_case=False)
    report = report_lib.measure(cased, ["THE"])
    assert not report.lower_case and report.unknown_rate > 0
    assert report_lib.measure(tokenizer, ["THE"]).unknown_rate == 0


def test_cutting_each_word_once_gives_the_pieces_of_whole_lines(tokenizer, testdata):
    golden = testdata / "tokenization" / "tokenization_spm_small.json"
    rows = json.loads(golden.read_text(encoding="utf-8"))["rows"]
    # SentencePiece makes spaces of some characters inside of words; it drops others.
    lines = [row["text"] for row in rows if row["text"].isprintable()]
    assert len(lines) > 400
    ids = [i for row in tokenizer.encode_batch(lines) for i in row]
    report = report_lib.measure(tokenizer, lines)
    assert report.num_pieces == len(ids)
    assert report.unknown_rate == ids.count(tokenizer.unk_id) / len(ids)
    used = set(ids) - {tokenizer.unk_id}
    assert report.vocabulary_used == pytest.approx(len(used) / 3995)


def test_text_without_spaces_has_its_figures_a_character(tokenizer):
    report = report_lib.measure(tokenizer, ["thethethe" * 5])
    assert report.num_words == 1 and report.num_characters == 45
    assert report.pieces_per_character == report.num_pieces / 45


def test_the_ten_most_frequent_unknown_characters_are_named(tokenizer):
    text = "".join(chr(0x4E00 + n) * (15 - n) for n in range(15))
    report = report_lib.measure(tokenizer, [text])
    assert [c.code_point for c in report.unknown_characters] == [
        f"U+{0x4E00 + n:04X}" for n in range(10)
    ]
    assert [c.count for c in report.unknown_characters] == list(range(15, 5, -1))
    assert report.character_coverage == 0.0


@pytest.mark.parametrize("lines", [[], ["", " \u0301 "]])
def test_lines_without_words_are_refused(tokenizer, lines):
    with pytest.raises(ValueError, match=f"received {len(lines)} lines and no word"):
        report_lib.measure(tokenizer, lines)


def test_json_holds_all_figures_and_characters_as_they_are(tokenizer):
    text = report_lib.measure(tokenizer, LINES).to_json()
    assert '"character": "中"' in text
    values = json.loads(text)
    assert values["pieces_per_word_percentiles"] == {"50": 1, "90": 4, "99": 4}
    assert values["unknown_characters"][0] == {
        "character": "中",
        "code_point": "U+4E2D",
        "count": 2,
    }


def test_table_has_a_column_for_each_vocabulary(tokenizer):
    report = report_lib.measure(tokenizer, [*LINES, "\ue000"])
    known = report_lib.measure(tokenizer, ["the"])
    table = report_lib.format_table({"one": report, "other": known}).splitlines()
    assert table[0].split() == ["held-out", "text", "one", "other"]
    assert table[2].split() == ["words", "8", "1"]
    assert table[6].split() == ["pieces", "per", "word", "1.750", "1.000"]
    assert table[7].split()[:6] == ["at", "most,", "for", "50%", "of", "the"]
    assert table[7].split()[6:] == ["words", "1", "1"]
    assert len({len(row) for row in table[:13]}) == 1
    assert table[13:] == [
        "unknown characters of one: 中 (2) 文 (1) U+E000 (1)",
        "unknown characters of other: none",
    ]
