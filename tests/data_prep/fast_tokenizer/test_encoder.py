"""The fast encoder: every id must be that of the tokenizer."""

import io
import itertools
import json
import lzma
import random
import subprocess
import sys
import unicodedata

import numpy as np
import pytest
import sentencepiece
import sentencex
from sentencepiece import sentencepiece_model_pb2

from albert_tf.tokenization import tokenizer as tokenizer_lib
from data_prep.fast_tokenizer import encoder as encoder_lib
from data_prep.fast_tokenizer import viterbi

PIECE = sentencepiece_model_pb2.ModelProto.SentencePiece
ODD_WORDS = (
    "000 1,000,000 1990, 9, ,9 3.14 -- ---- .... ... (a) [MASK] <unk> <pad> ▁ a▁b ▁▁x "
    "café naïve Ångström ΑΣ ΣΑΣ ﬁne ½ ① ⒈, Ⅷ ﷺ 東京 한국어 각 İstanbul ß ſ ¨ x¨ ´ €5 £ "
    "– — “a” 😀 👨‍👩‍👧 \ufeff \u200b \u00ad \ufffd \ud800 \udfff\ud800 \x00 a\x00b "
    "\x00\x00a \x01 \x7f \x1b[0m \x85 a\u00a0b \u00a0 \u3000 \u2028 e\u0301 \u0301 "
    "\u0301x"
).split(" ")
SPACES = (" ", " ", " ", "  ", "\t", "\n", "\r\n", "\v", "\f", "\x1c", "\x1f", "\u2003")


def random_texts(number, seed, words=ODD_WORDS):
    """Texts of words that the vocabulary may know, odd words, and letters in a row."""
    generator = random.Random(seed)

    def word():
        kind = generator.random()
        if kind < 0.3:
            return generator.choice(words)
        if kind < 0.4:
            return generator.choice("a0.-,=é中") * generator.randrange(1, 30)
        letters = "etaoinshr,.'-019ABé" if kind < 0.8 else "qxz{~\u0416\u4e2d\x02"
        return "".join(generator.choices(letters, k=generator.randrange(1, 14)))

    return [
        "".join(
            word() + generator.choice(SPACES) for _ in range(generator.randrange(25))
        )
        for _ in range(number)
    ]


def assert_same(encoder, tokenizer, texts):
    ids, lengths = encoder.encode(texts)
    assert (ids.dtype, lengths.dtype) == (np.int32, np.int64)
    assert lengths.shape == (len(texts),)
    rows = tokenizer.encode_batch(texts)
    assert lengths.sum() == len(ids)
    ours = np.split(ids, np.cumsum(lengths)[:-1])
    differing = [
        text
        for text, row, our in zip(texts, rows, ours, strict=True)
        if our.tolist() != row
    ]
    assert not differing


def train(lines, **options):
    """A small SentencePiece model with the pieces that a tokenizer needs."""
    model = io.BytesIO()
    options = {"vocab_size": 700, "model_type": "unigram"} | options
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines),
        model_writer=model,
        hard_vocab_limit=False,
        pad_id=0,
        unk_id=1,
        bos_id=-1,
        eos_id=-1,
        pad_piece=tokenizer_lib.PAD,
        unk_piece=tokenizer_lib.UNK,
        control_symbols=[tokenizer_lib.CLS, tokenizer_lib.SEP, tokenizer_lib.MASK],
        num_threads=1,
        minloglevel=2,
        **options,
    )
    return model.getvalue()


def edited(tokenizer, edit):
    """A tokenizer of the same pieces, each changed by `edit(id, piece)`."""
    model = sentencepiece_model_pb2.ModelProto.FromString(tokenizer.model_proto)
    for i, piece in enumerate(model.pieces):
        edit(i, piece)
    return tokenizer_lib.Tokenizer(model.SerializeToString())


@pytest.fixture(scope="module")
def small_tokenizer(testdata):
    path = testdata / "tokenization" / "spm_small.model"
    return tokenizer_lib.Tokenizer.from_file(str(path))


@pytest.fixture(scope="module")
def small_encoder(small_tokenizer):
    return encoder_lib.FastEncoder(small_tokenizer)


@pytest.fixture(scope="module")
def golden_texts(testdata):
    path = testdata / "tokenization" / "tokenization_spm_small.json"
    return [row["text"] for row in json.loads(path.read_text("utf-8"))["rows"]]


@pytest.fixture(scope="module")
def lines(golden_texts):
    """Text to train on, without what SentencePiece's trainer cannot read."""
    return [
        text.encode("utf-8", "replace").decode().replace("\0", "")
        for text in golden_texts * 3 + random_texts(300, 1)
    ]


@pytest.fixture
def asked(monkeypatch):
    """The texts that are left to the tokenizer."""
    texts = []
    encode_batch = tokenizer_lib.Tokenizer.encode_batch

    def spy(self, batch):
        texts.extend(batch)
        return encode_batch(self, batch)

    monkeypatch.setattr(tokenizer_lib.Tokenizer, "encode_batch", spy)
    return texts


# ---- Literal ids ----


def test_ids_and_lengths(small_encoder, small_tokenizer):
    ids, lengths = small_encoder.encode(["The  the", "", "Was in\tit's", " \n"])
    assert small_tokenizer.pieces(ids) == [
        *("▁the", "▁the", "▁was", "▁in", "▁it", "'", "s"),
    ]
    assert ids.tolist() == [14, 14, 25, 20, 43, 27, 17]
    assert lengths.tolist() == [2, 0, 5, 0]


def test_digits_and_comma_and_unknown_characters(small_encoder, small_tokenizer):
    ids, lengths = small_encoder.encode(["1990, 東京x", "(–)"])
    assert small_tokenizer.pieces(ids[: lengths[0]]) == [
        *("▁1990", ",", "▁", "<unk>", "x"),
    ]
    assert small_tokenizer.pieces(ids[lengths[0] :]) == ["▁", "(", "–", ")"]


def test_no_texts(small_encoder):
    ids, lengths = small_encoder.encode([])
    assert (ids.tolist(), lengths.tolist()) == ([], [])
    assert (ids.dtype, lengths.dtype) == (np.int32, np.int64)


# ---- The same as the tokenizer ----


def test_golden_texts(small_encoder, small_tokenizer, golden_texts):
    assert len(golden_texts) == 510
    assert_same(small_encoder, small_tokenizer, golden_texts)


@pytest.mark.parametrize("lower_case", [True, False])
def test_random_texts(small_tokenizer, lower_case):
    tokenizer = tokenizer_lib.Tokenizer(small_tokenizer.model_proto, lower_case)
    encoder = encoder_lib.FastEncoder(tokenizer)
    assert encoder.slow_reason is None
    for seed in range(3):
        assert_same(encoder, tokenizer, random_texts(3000, seed))


def test_each_odd_word_alone_and_beside_others(small_encoder, small_tokenizer):
    texts = [*ODD_WORDS, *map(" ".join, itertools.product(ODD_WORDS, repeat=2))]
    assert_same(small_encoder, small_tokenizer, texts)


@pytest.mark.slow
def test_each_character_alone_in_words_and_at_both_ends(small_encoder, small_tokenizer):
    characters = [
        c for c in map(chr, range(0x110000)) if unicodedata.category(c) not in "CnCo"
    ]
    assert len(characters) > 140_000
    texts = [f"{c} a{c}b {c}a {c}" for c in characters]
    assert_same(small_encoder, small_tokenizer, texts)


def test_long_words_and_long_texts(small_encoder, small_tokenizer):
    words = ["a" * 10_000, "é" * 10_000, "中" * 300, "=-" * 5000, "0" * 10_000]
    words += ["the" * n for n in range(1, 100)] + ["thé" * n for n in range(1, 100)]
    assert_same(small_encoder, small_tokenizer, words)
    assert_same(small_encoder, small_tokenizer, [" the x ".join(words) * 3])


def test_texts_over_the_limits(monkeypatch, small_encoder, small_tokenizer, asked):
    monkeypatch.setattr(encoder_lib, "_CHUNK_SIZE", 40)
    monkeypatch.setattr(encoder_lib, "_MAX_TEXT_SIZE", 100)
    texts = ["the cat " * (n % 30) for n in range(200)]
    small_encoder.encode(texts)
    assert asked == [text for text in texts if len(text) > 100]
    assert_same(small_encoder, small_tokenizer, texts)
    assert_same(small_encoder, small_tokenizer, random_texts(100, 7))


@pytest.mark.parametrize("num_entries", [1, 2, 64])
def test_a_table_that_keeps_losing_words(monkeypatch, small_tokenizer, num_entries):
    monkeypatch.setattr(encoder_lib, "_NUM_ENTRIES", num_entries)
    encoder = encoder_lib.FastEncoder(small_tokenizer)
    assert_same(encoder, small_tokenizer, random_texts(1000, 5))


def test_real_text(shared_data):
    tokenizer = tokenizer_lib.Tokenizer.from_file(
        str(shared_data / "albert_en_30k.spm.model")
    )
    encoder = encoder_lib.FastEncoder(tokenizer)
    path = shared_data / "wikipedia_en_random.txt.xz"
    with lzma.open(path, "rt", encoding="utf-8") as file:
        paragraphs = [line.rstrip("\n") for line in itertools.islice(file, 8000)]
    sentences = [s for text in paragraphs for s in sentencex.segment("en", text)]
    assert sum(map(len, sentences)) > 1_000_000
    assert_same(encoder, tokenizer, sentences)
    assert_same(encoder, tokenizer, paragraphs)


# ---- What is left to the tokenizer ----


def test_only_texts_that_rounding_may_decide_are_left(small_encoder, asked):
    # "00 0" and "0 00" score the same.
    small_encoder.encode(["the cat", "x000", "in 1990", "the a000 cat", "a▁b ▁"])
    assert asked == ["x000", "the a000 cat", "a▁b ▁"]


def test_long_texts_need_a_clearer_choice(small_tokenizer, asked):
    scores = {"▁a": -3.2, "b": -3.2, "▁": -3.1, "ab": -3.3002}

    def edit(_, piece):
        if piece.type == PIECE.NORMAL:
            piece.score = scores.get(piece.piece, -20.0)

    tokenizer = edited(small_tokenizer, edit)
    encoder = encoder_lib.FastEncoder(tokenizer)
    asked.clear()
    short, long = "ab " * 5, "ab " * 2000
    ids, _ = encoder.encode([short, long])
    # 0.0002 over three characters, against about 60 / 2^21 and 13000 / 2^21.
    assert asked == [long]
    assert tokenizer.pieces(ids[:10]) == ["▁a", "b"] * 5
    # This is what rounding does.
    assert {"▁", "ab"} < set(tokenizer.pieces(ids[10:]))


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"model_type": "char"}, "not a unigram model"),
        ({"model_type": "bpe"}, "not a unigram model"),
        (
            {"byte_fallback": True, "vocab_size": 1000},
            "unknown characters become bytes",
        ),
        ({"treat_whitespace_as_suffix": True}, "spaces end words"),
        ({"add_dummy_prefix": False}, "no space before the first word"),
        ({"remove_extra_whitespaces": False}, "spaces are kept"),
        (
            {"split_by_whitespace": False, "vocab_size": 1500},
            "a piece reaches over a space",
        ),
        ({"user_defined_symbols": ["a b"]}, "a piece reaches over a space"),
    ],
)
def test_models_that_do_not_cut_words_by_themselves(lines, options, reason):
    tokenizer = tokenizer_lib.Tokenizer(train(lines, **options))
    encoder = encoder_lib.FastEncoder(tokenizer)
    assert encoder.slow_reason == reason
    assert_same(encoder, tokenizer, random_texts(200, 3))


@pytest.mark.parametrize(
    ("rules", "reason"),
    [
        ("20 61\t62\n", "normalization replaces spaces"),
        ("61 20\t62\n", "normalization replaces spaces"),
        ("61\t20 20\n", "normalization makes spaces in a row"),
        ("61\t2581\n", "normalization makes spaces in a row"),
        ("61 62\t78\n", None),
        ("61\t\n", None),
        ("61\t78 20 79\n78 E9\t20\n", None),
    ],
)
def test_normalization_rules_of_ones_own(lines, tmp_path, rules, reason):
    path = tmp_path / "rules.tsv"
    path.write_text(rules)
    tokenizer = tokenizer_lib.Tokenizer(train(lines, normalization_rule_tsv=str(path)))
    encoder = encoder_lib.FastEncoder(tokenizer)
    assert encoder.slow_reason == reason
    words = (*ODD_WORDS, "ab", "abab", "a", "aaa", "cab", "xé", "aba")
    assert_same(encoder, tokenizer, random_texts(1000, 4, words))


@pytest.mark.parametrize(
    "options",
    [
        {"normalization_rule_name": "identity"},
        {"normalization_rule_name": "nfkc_cf"},
        {"normalization_rule_name": "nmt_nfkc_cf"},
        {"vocab_size": 350},  # hardly more than the characters
        {"character_coverage": 0.98},
        {"user_defined_symbols": ["ab", "aba", "--", "...", "é", "<x>", "1990,"]},
        {"split_digits": True},
        {"split_by_number": False, "split_by_unicode_script": False},
    ],
)
@pytest.mark.parametrize("lower_case", [True, False])
def test_models_of_other_kinds(lines, options, lower_case):
    tokenizer = tokenizer_lib.Tokenizer(train(lines, **options), lower_case)
    encoder = encoder_lib.FastEncoder(tokenizer)
    assert encoder.slow_reason is None
    words = (*ODD_WORDS, "ab", "abab", "<x>", "ababa--...", "....", "É1990,")
    assert_same(encoder, tokenizer, random_texts(1500, 4, words))


def test_unused_pieces(small_tokenizer):
    def edit(i, piece):
        if piece.type == PIECE.NORMAL and i % 3 == 0 and piece.piece != "▁":
            piece.type = PIECE.UNUSED

    tokenizer = edited(small_tokenizer, edit)
    encoder = encoder_lib.FastEncoder(tokenizer)
    assert encoder.slow_reason is None
    assert_same(encoder, tokenizer, random_texts(2000, 6))


def test_no_piece_for_a_space(small_tokenizer):
    def edit(_, piece):
        if piece.piece == "▁":
            piece.type = PIECE.UNUSED

    encoder = encoder_lib.FastEncoder(edited(small_tokenizer, edit))
    assert encoder.slow_reason == "no piece for a lone space"


@pytest.mark.parametrize("score", [float("nan"), float("-inf"), 1e31])
def test_scores_that_cannot_be_summed(small_tokenizer, score):
    def edit(_, piece):
        if piece.piece == "▁the":
            piece.score = score

    encoder = encoder_lib.FastEncoder(edited(small_tokenizer, edit))
    assert encoder.slow_reason == "scores are too large"


@pytest.mark.parametrize("score", [-5.0, 0.0, 3.5, -1e6])
def test_scores_that_tie_everywhere(small_tokenizer, golden_texts, score):
    def edit(_, piece):
        if piece.type == PIECE.NORMAL:
            piece.score = score

    tokenizer = edited(small_tokenizer, edit)
    encoder = encoder_lib.FastEncoder(tokenizer)
    assert_same(encoder, tokenizer, golden_texts + random_texts(500, 8))


@pytest.mark.parametrize("step", [1e-5, 3e-4, 1e-3])
def test_scores_that_nearly_tie(small_tokenizer, golden_texts, step):
    generator = random.Random(9)

    def edit(_, piece):
        if piece.type == PIECE.NORMAL:
            # By length, so that each way to cut a word has nearly the same score.
            piece.score = -1.7 * len(piece.piece) + step * generator.randrange(-5, 6)

    tokenizer = edited(small_tokenizer, edit)
    encoder = encoder_lib.FastEncoder(tokenizer)
    assert_same(encoder, tokenizer, golden_texts + random_texts(500, 8))
    # The larger the sums, the more is lost in rounding.
    words = {word for text in golden_texts for word in text.split()}
    before = "the cat was in it " * 3000
    assert_same(encoder, tokenizer, [before + word for word in sorted(words)[::60]])


# ---- The parts ----


def all_cuts(word, scores, unk_score):
    """The score of each way to cut a word, best first."""
    if not word:
        return [0.0]
    found = []
    for end in range(1, len(word) + 1):
        score = scores.get(word[:end], unk_score if end == 1 else None)
        if score is not None:
            found += [score + rest for rest in all_cuts(word[end:], scores, unk_score)]
    return sorted(found, reverse=True)


def test_slack_is_that_of_all_cuts(small_encoder, small_tokenizer):
    model = small_encoder._model
    scores = {
        piece: model.scores[i]
        for i, piece in enumerate(small_tokenizer.pieces(range(4000)))
        if i >= 5
    }
    path = viterbi.Segmentations(
        *(np.zeros(100, dtype) for dtype in (float, float, np.int32, np.int32))
    )
    generator = random.Random(2)
    for _ in range(300):
        letters = generator.choices("eстtaoin0sé中-.", k=generator.randrange(12))
        word = "▁" + "".join(letters)
        data = np.frombuffer(word.encode(), np.uint8)
        slack, magnitude, size = viterbi.segment(data, data.size, model, path)
        best, second = (all_cuts(word, scores, model.unk_score) + [-np.inf])[:2]
        assert size == len(word)
        assert path.best[data.size] == pytest.approx(best, abs=1e-9)
        assert slack * size == pytest.approx(best - second, abs=1e-9)
        assert magnitude >= abs(best) - 1e-9


def test_user_defined_pieces_score_as_in_sentencepiece(small_encoder, small_tokenizer):
    # FLT_MIN * length - 0.1: SentencePiece's largest score starts at FLT_MIN.
    model = small_encoder._model
    assert small_tokenizer.pieces([5, 12]) == ["(", "€"]
    assert model.scores[[5, 12]].tolist() == [-0.1, -0.1]
    assert model.unk_score == np.float32(-12.321931838989258) - np.float32(10)


def test_import_is_without_tensorflow():
    command = (
        "import sys; from data_prep.fast_tokenizer import encoder; print(*sys.modules)"
    )
    modules = subprocess.run(
        [sys.executable, "-c", command], capture_output=True, text=True, check=True
    ).stdout.split()
    assert "numba" in modules
    assert "tensorflow" not in modules
