"""Windows of SQuAD: the original's, and where each token stands in its context."""

import time

import numpy as np
import pytest
from sentencepiece import sentencepiece_model_pb2 as model_pb2

from albert_tf.core import task_config
from albert_tf.tasks import examples
from albert_tf.tasks.squad import windows as windows_lib
from albert_tf.tokenization import tokenizer as tokenizer_lib
from tests.support import squad_golden


@pytest.fixture(scope="module")
def tokenizer(testdata):
    path = testdata / "tokenization" / "spm_small.model"
    return tokenizer_lib.Tokenizer.from_file(str(path))


@pytest.fixture(scope="module")
def aligner(tokenizer):
    return windows_lib.Aligner(tokenizer)


def encoded(tokenizer, is_training, found=None, **settings):
    settings = task_config.TaskConfig("squad2", **{**squad_golden.SETTINGS, **settings})
    found = squad_golden.questions() if found is None else found
    return windows_lib.encode(found, tokenizer, settings, is_training)


def example(context, answer="", start=0, question="what is it"):
    answers = (examples.Answer(answer, start),) if answer else ()
    return examples.SpanExample("q", question, context, answers, not answer, "f: q")


def covered(tokenizer, features, row, context):
    """Piece and part of the context of each token of a window."""
    part = features.span(row)
    pieces = tokenizer.pieces(features.ids[part].tolist())
    starts, ends = (
        features.notes["char_starts"][part],
        features.notes["char_ends"][part],
    )
    return [
        (piece, context[start:end])
        for piece, start, end in zip(pieces, starts, ends, strict=True)
        if start >= 0
    ]


def test_ids_segments_and_windows_equal_the_original(tokenizer):
    features, original = (
        encoded(tokenizer, False),
        squad_golden.arrays("squad_features"),
    )
    assert features.num_rows == 185
    lengths = np.diff(features.offsets)
    np.testing.assert_array_equal(lengths, original["paragraph_len"])
    np.testing.assert_array_equal(features.example_index, original["example_index"])
    real = original["input_mask"] == 1
    np.testing.assert_array_equal(features.ids, original["input_ids"][real])
    place = np.arange(128)
    in_second = (place >= features.num_first[:, None]) & (place < lengths[:, None])
    np.testing.assert_array_equal(in_second, original["segment_ids"] == 1)
    assert features.per_row == {} and features.per_token == {}


def test_places_in_the_context_and_maximal_context_equal_the_original(tokenizer):
    features, original = (
        encoded(tokenizer, False),
        squad_golden.arrays("squad_features"),
    )
    real = original["input_mask"] == 1
    starts, ends = features.notes["char_starts"], features.notes["char_ends"]
    np.testing.assert_array_equal(starts, original["tok_start_to_orig_index"][real])
    # The original's ends are those of the last character; ours lie behind it.
    last = np.where(ends < 0, -1, ends - 1)
    np.testing.assert_array_equal(last, original["tok_end_to_orig_index"][real])
    is_max = features.notes["is_max_context"]
    np.testing.assert_array_equal(is_max, original["token_is_max_context"][real])
    assert starts.dtype == ends.dtype == np.int32 and is_max.dtype == bool


def test_labels_equal_the_original(tokenizer):
    features, original = encoded(tokenizer, True), squad_golden.arrays("squad_features")
    names = {
        "start_positions": "start_position",
        "end_positions": "end_position",
        "is_impossible": "is_impossible",
    }
    assert set(features.per_row) == set(names)
    for ours, theirs in names.items():
        assert features.per_row[ours].dtype == np.int32
        np.testing.assert_array_equal(features.per_row[ours], original[theirs])
    assert 0 < features.per_row["is_impossible"].mean() < 1


def test_p_mask_equals_the_original(tokenizer):
    features = encoded(tokenizer, False)
    mask = windows_lib.p_mask(np.diff(features.offsets), features.num_first, 128)
    np.testing.assert_array_equal(mask, squad_golden.arrays("squad_features")["p_mask"])
    assert mask.dtype == np.int32


def test_p_mask_frees_cls_and_the_window():
    mask = windows_lib.p_mask(np.array([7, 5]), np.array([3, 4]), 8)
    # [CLS] q [SEP] w w w [SEP] pad; [CLS] q q [SEP] [SEP] and padding
    assert mask.tolist() == [[0, 1, 1, 0, 0, 0, 1, 1], [0, 1, 1, 1, 1, 1, 1, 1]]


def test_windows_begin_a_stride_apart_and_end_with_the_context():
    def windows(*arguments):
        return [part.tolist() for part in windows_lib.windows(*arguments)]

    assert windows(10, 4, 3) == [[0, 3, 6], [4, 4, 4]]
    assert windows(11, 4, 3) == [[0, 3, 6, 9], [4, 4, 4, 2]]
    assert windows(4, 4, 3) == [[0], [4]]
    assert windows(9, 4, 100) == [[0, 4, 8], [4, 4, 1]]  # no token is left out
    assert windows(0, 4, 3) == [[0], [0]]


def test_a_token_counts_where_it_sees_most_around_it():
    starts, lengths = windows_lib.windows(10, 4, 3)
    found = windows_lib.max_context(starts, lengths)
    assert [part.astype(int).tolist() for part in found] == [
        [1, 1, 1, 1],  # token 3 has no neighbour on one side here and in the next
        [0, 1, 1, 1],
        [0, 1, 1, 1],
    ]


def test_every_token_counts_in_exactly_one_window():
    for num_tokens, room, stride in ((50, 7, 2), (50, 7, 7), (23, 8, 1), (5, 9, 3)):
        starts, lengths = windows_lib.windows(num_tokens, room, stride)
        counts = np.zeros(num_tokens, int)
        found = windows_lib.max_context(starts, lengths)
        for start, length, part in zip(starts, lengths, found, strict=True):
            counts[start : start + length] += part
        assert counts.tolist() == [1] * num_tokens


def test_sources_keep_their_places_beside_every_character():
    for first in range(0, 0x110000, 0x1000):
        text = "q" + "".join(f"{chr(c)}q" for c in range(first, first + 0x1000))
        normalized = tokenizer_lib.normalize(text)
        sources = windows_lib.char_sources(text)
        assert len(sources) == len(normalized) + 1 and sources[-1] == len(text)
        letters = np.flatnonzero([text[source] == "q" for source in sources[:-1]])
        assert "".join(normalized[i] for i in letters) == "q" * text.count("q")


def test_sources_of_blanks_accents_and_ligatures():
    #       0 1   2 3  4   5 6 7      8  9 10
    text = "\tR\u00e9 \n e\u0301x\ufb01 "
    assert tokenizer_lib.normalize(text) == "re exfi"
    #                r  e  ' ' e  x  f  i  end
    assert windows_lib.char_sources(text).tolist() == [1, 2, 3, 6, 8, 9, 9, 10]
    assert windows_lib.char_sources(" \n").tolist() == [0]
    assert windows_lib.char_sources("").tolist() == [0]
    assert windows_lib.char_sources("\ud800b").tolist() == [0, 1, 2]


def test_a_token_that_begins_a_word_covers_the_blanks_before_it(tokenizer):
    context = " the \n sea "
    features = encoded(tokenizer, False, [example(context)])
    parts = [part for _, part in covered(tokenizer, features, 0, context)]
    assert parts == ["the", " \n sea"]


def test_an_accent_written_apart_belongs_to_its_letter(tokenizer):
    context = "the cafe\u0301 is"
    features = encoded(tokenizer, False, [example(context)])
    parts = covered(tokenizer, features, 0, context)
    assert "".join(part for _, part in parts) == context
    assert [part for _, part in parts if "\u0301" in part][0].endswith("e\u0301")


def _model(pieces):
    """A unigram model of these pieces, the first the likeliest."""
    model = model_pb2.ModelProto()
    kind = model_pb2.ModelProto.SentencePiece
    special = [("<pad>", kind.CONTROL), ("<unk>", kind.UNKNOWN)]
    special += [(piece, kind.CONTROL) for piece in ("[CLS]", "[SEP]", "[MASK]")]
    for piece, piece_kind in special:
        model.pieces.add(piece=piece, score=0.0, type=piece_kind)
    for number, piece in enumerate(pieces):
        model.pieces.add(piece=piece, score=-1.0 - 0.1 * number)
    return tokenizer_lib.Tokenizer(model.SerializeToString())


@pytest.mark.parametrize(
    ("context", "expected"),
    [
        ("1990,", [("▁199", "199"), ("0", "0"), (",", ",")]),
        ("  1990,", [("▁199", "199"), ("0", "0"), (",", ",")]),
        ("1990,a", [("▁199", "199"), ("0", "0"), (",", ","), ("a", "a")]),
        ("5678,", [("▁56", "56"), ("78", "78"), (",", ",")]),
        # "34," stands inside a word, so "34" has no blank before it. The lone mark of
        # the word's begin gives the character it stands before.
        ("a34,", [("▁", "a"), ("a", "a"), ("34", "34"), (",", ",")]),
    ],
)
def test_parts_of_digit_comma_pieces_cover_their_own_characters(context, expected):
    meta = tokenizer_lib.META_SYMBOL
    pieces = [f"{meta}1990,", "34,", f"{meta}199", "34", "a", "0", meta, ","]
    pieces += [f"{meta}5678,", f"{meta}56", "78"]
    small = _model(pieces)
    features = encoded(small, False, [example(context, question="a")])
    assert covered(small, features, 0, context) == expected


def test_ids_are_those_of_the_tokenizer(tokenizer, aligner):
    texts = [e.context for e in squad_golden.questions()]
    texts += ["", " ", "\u0301", "\ud800 x", "[CLS] <pad> [MASK]", "\u4e2d 3,\u00bd"]
    for text in texts:
        assert aligner.paragraph(text).ids.tolist() == tokenizer.encode(text)


@pytest.mark.parametrize(
    ("context", "answer", "start"),
    [
        ("in the year 1990, on the sea", "1990", 12),
        ("the  old\nsea \u2014 caf\u00e9", "sea", 9),
        ("the  old\nsea \u2014 caf\u00e9", "caf\u00e9", 15),
        ("\ufb01nal caf\u00e9", "\ufb01nal", 0),
        ("\u201cCogito\u201d", "Cogito", 1),
    ],
)
def test_an_answers_tokens_cover_it_and_little_more(aligner, context, answer, start):
    paragraph = aligner.paragraph(context)
    assert context[start : start + len(answer)] == answer
    first, last = windows_lib.answer_tokens(paragraph, examples.Answer(answer, start))
    text = context[paragraph.starts[first] : paragraph.ends[last]]
    assert answer in text
    inner = context[paragraph.starts[first] : paragraph.starts[last]]
    assert answer not in inner


def test_a_piece_that_covers_nothing_begins_no_answer(tokenizer, aligner):
    paragraph = aligner.paragraph("“Cogito”")
    assert tokenizer.pieces(paragraph.ids[:2].tolist()) == ["▁", "<unk>"]
    answer = examples.Answer("“Cogito", 0)
    assert windows_lib.answer_tokens(paragraph, answer)[0] == 1


def test_a_question_is_cut(tokenizer):
    one = example("the sea", question="what is the sea")
    ids = tokenizer.encode(one.question)
    features = encoded(tokenizer, False, [one], max_query_length=2)
    assert features.num_first.tolist() == [4]
    assert features.ids[:4].tolist() == [2, *ids[:2], 3]


def test_an_answer_of_blanks_is_the_next_token(aligner):
    paragraph = aligner.paragraph("the  sea")
    found = windows_lib.answer_tokens(paragraph, examples.Answer(" ", 4))
    assert found[0] == found[1]
    leading = aligner.paragraph("  the sea")
    found = windows_lib.answer_tokens(leading, examples.Answer(" ", 0))
    assert found == (0, 0)
    trailing = aligner.paragraph("the sea  ")
    last = len(trailing.ids) - 1
    found = windows_lib.answer_tokens(trailing, examples.Answer(" ", 8))
    assert found == (last, last)


def test_an_answer_that_a_window_cuts_is_impossible_there(tokenizer):
    context = " ".join(["the"] * 20 + ["sea", "is"] + ["the"] * 20)
    found = [example(context, "sea is", 80)]
    features = encoded(
        tokenizer, True, found, max_seq_length=17, max_query_length=3, doc_stride=10
    )
    # Rooms of 11 tokens: 0-10, 10-20, 20-30, 30-40, 40-41; the answer is 20 and 21.
    assert features.per_row["is_impossible"].tolist() == [1, 1, 0, 1, 1]
    assert features.per_row["start_positions"].tolist() == [0, 0, 5, 0, 0]
    assert features.per_row["end_positions"].tolist() == [0, 0, 6, 0, 0]


def test_a_context_of_which_nothing_is_left_has_one_empty_window(tokenizer):
    features = encoded(tokenizer, True, [example("\u0301", "\u0301")])
    assert features.ids[-2:].tolist() == [tokenizer.sep_id] * 2
    assert features.num_rows == 1 and features.per_row["is_impossible"].tolist() == [1]


def test_no_examples_give_no_rows(tokenizer):
    features = encoded(tokenizer, True, [])
    assert features.num_rows == 0 and features.offsets.tolist() == [0]
    assert features.per_row["is_impossible"].shape == (0,)


def test_rows_depend_on_their_example_alone(tokenizer):
    found = squad_golden.questions()
    together = encoded(tokenizer, True, found)
    alone = encoded(tokenizer, True, [found[5]])
    rows = np.flatnonzero(together.example_index == 5)
    assert len(rows) == alone.num_rows
    for row, own in zip(rows, range(alone.num_rows), strict=True):
        there, here = together.span(row), alone.span(own)
        np.testing.assert_array_equal(together.ids[there], alone.ids[here])
        for name, note in alone.notes.items():
            np.testing.assert_array_equal(together.notes[name][there], note[here])


def test_fifty_thousand_words_take_linear_time(tokenizer):
    words = " ".join(e.context for e in squad_golden.questions()).split()
    words = (words * (50_000 // len(words) + 1))[:50_000]

    def seconds(count):
        text = " ".join(words[:count])
        begin = time.process_time()
        features = encoded(tokenizer, True, [example(text, words[0], 0)])
        assert features.notes["char_ends"].max() == len(text)
        return time.process_time() - begin

    seconds(100)
    short, long = seconds(12_500), seconds(50_000)
    assert long < 12 * short  # four times as many; a square would be 16 times


def test_labels_of_real_questions_cover_their_answers(shared_data, tokenizer):
    task = squad_golden.task(
        "squad1",
        max_seq_length=384,
        doc_stride=128,
        train_file="train-v1.1-merged.json",
    )
    folder = str(shared_data / "squad")
    found = task.read(folder, "train", examples.Problems(skip=False))[:2000]
    features = task.encode(found, tokenizer, is_training=True)
    for row in np.flatnonzero(features.per_row["is_impossible"] == 0):
        part, one = features.span(row), found[features.example_index[row]]
        first = features.per_row["start_positions"][row]
        last = features.per_row["end_positions"][row]
        start = features.notes["char_starts"][part][first]
        text = one.context[start : features.notes["char_ends"][part][last]]
        assert one.answers[0].text in text, one.id
