"""The tokenizer against the original's figures, and Python against the graph."""

import copy
import json
import lzma
import random
import subprocess
import sys
import unicodedata

import numpy as np
import pytest
import sentencepiece
import tensorflow as tf

from albert_tf.tokenization import graph_tokenizer
from albert_tf.tokenization import tokenizer as tokenizer_lib

ALL_CHARACTERS = [chr(c) for c in range(0x110000) if not 0xD800 <= c <= 0xDFFF]
# Where ours departs from the original, by row of the golden file: its unknown pieces
# keep their letters, ours are all <unk>, which counts as the start of a word.
UNKNOWN_STARTS = {42: "``", 145: "``"}


@pytest.fixture(scope="module")
def small_model(testdata):
    return str(testdata / "tokenization" / "spm_small.model")


@pytest.fixture(scope="module")
def tokenizer(small_model):
    return tokenizer_lib.Tokenizer.from_file(small_model)


@pytest.fixture(scope="module")
def graph(tokenizer):
    return graph_tokenizer.GraphTokenizer(tokenizer)


@pytest.fixture(scope="module")
def cased(small_model):
    return tokenizer_lib.Tokenizer.from_file(small_model, lower_case=False)


@pytest.fixture(scope="module")
def rows(testdata):
    path = testdata / "tokenization" / "tokenization_spm_small.json"
    rows = json.loads(path.read_text(encoding="utf-8"))["rows"]
    assert len(rows) == 510
    return rows


@pytest.fixture(scope="module")
def published(testdata):
    path = testdata / "tokenization" / "published_tokenization.json"
    return json.loads(path.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def released_model(shared_data):
    path = shared_data / "albert_en_30k.spm.model"
    if not path.is_file():
        pytest.skip(
            "no ../shared/data/albert_en_30k.spm.model: the released vocabulary"
        )
    return str(path)


def both(tokenizer, graph, texts):
    """The ids of both sides, which must be the same."""
    ids = tokenizer.encode_batch(texts)
    differing = [
        text
        for text, ours, in_graph in zip(texts, ids, graph(texts).to_list(), strict=True)
        if ours != in_graph
    ]
    assert not differing
    return ids


def normalized_in_graph(graph, texts):
    return [b.decode() for b in graph.normalize(tf.constant(texts)).numpy()]


# ---- The original's figures ----


def test_normalization_is_the_originals(tokenizer, cased, graph, rows):
    texts = [row["text"] for row in rows]
    expected = [row["preprocessed"] for row in rows]
    assert [tokenizer.normalize(text) for text in texts] == expected
    assert normalized_in_graph(graph, texts) == expected
    with_case = [row for row in rows if "cased_pre" in row]
    assert len(with_case) == 210
    for row in with_case:
        assert cased.normalize(row["text"]) == row["cased_pre"]


def test_ids_are_the_originals(tokenizer, graph, rows):
    texts = [row["text"] for row in rows]
    expected = [row["ids"] for row in rows]
    # Rows 203, 204 and 206 hold "000" inside a word, which "00 0" and "0 00" fit
    # equally well: sentencepiece from 0.2.2 on takes the other one, and fails here.
    assert [tokenizer.encode(text) for text in texts] == expected
    assert graph(texts).to_list() == expected


def test_pieces_are_the_originals_except_the_letters_of_unknown_ones(tokenizer, rows):
    for row in rows:
        known = [
            "<unk>" if i == tokenizer.unk_id else piece
            for i, piece in zip(row["ids"], row["pieces"], strict=True)
        ]
        assert tokenizer.pieces(row["ids"]) == known


def test_word_starts_are_the_originals_but_for_unknown_punctuation(tokenizer, rows):
    departures = {}
    for number, row in enumerate(rows):
        assert row["is_start"] == [
            tokenizer_lib.is_word_start_piece(piece) for piece in row["pieces"]
        ]
        ours = tokenizer.is_word_start[np.array(row["ids"], int)]
        for piece, start, our_start in zip(
            row["pieces"], row["is_start"], ours, strict=True
        ):
            if start != our_start:
                assert our_start
                departures[number] = piece
    assert departures == UNKNOWN_STARTS


@pytest.mark.parametrize(
    ("piece", "start"),
    [
        ("▁the", True),
        ("the", False),
        ("THE", False),
        ("<unk>", True),
        (",", True),
        ("``", False),
        ("a-b", False),
        ("£", True),
        ("€", True),
        ("a£", False),
        ("'", True),
        ("7", True),
        ("é", True),
        ("\u212a", True),  # the Kelvin sign is no English letter
    ],
)
def test_word_start_rule(piece, start):
    assert tokenizer_lib.is_word_start_piece(piece) == start


def test_special_ids_and_tables(tokenizer):
    t = tokenizer
    assert (t.pad_id, t.unk_id, t.cls_id, t.sep_id, t.mask_id) == (0, 1, 2, 3, 4)
    assert t.vocab_size == 4000
    assert len(t.sha256) == 64
    assert t.is_word_start.shape == (4000,)
    assert t.is_word_start[:5].all()
    # Differs from the original: no control symbol and no unknown piece.
    np.testing.assert_array_equal(t.replacement_ids, np.arange(5, 4000))
    assert t.replacement_ids.dtype == np.int32


def test_published_ids_with_the_released_vocabulary(released_model, published):
    """The input_ids that the transformers library expects of albert-base-v2."""
    tokenizer = tokenizer_lib.Tokenizer.from_file(released_model)
    graph = graph_tokenizer.GraphTokenizer(tokenizer)
    case = next(v for k, v in published.items() if k.startswith("tokenizer integr"))
    ids = both(tokenizer, graph, case["sequences"])
    assert len(ids) == 3
    for ours, expected in zip(ids, case["expected"]["input_ids"], strict=True):
        framed = [tokenizer.cls_id, *ours, tokenizer.sep_id]
        padding = [tokenizer.pad_id] * (len(expected) - len(framed))
        assert framed + padding == expected


def test_published_ids_of_a_digit_comma_piece(released_model, published):
    """The example keeps case and accents apart from ours, so it tests the table."""
    cases = published["tokenizer keep_accents=True"]
    tokenizer = tokenizer_lib.Tokenizer.from_file(released_model)
    processor = sentencepiece.SentencePieceProcessor(model_file=released_model)
    assert len(cases) == 2
    for text, case in cases.items():
        ids = processor.encode(text.lower())
        rows = [tokenizer.replacement_rows[i] for i in ids]
        assert [i for row in rows for i in row] == case["ids"]
        assert tokenizer.pieces(case["ids"]) == case.get("back_tokens", case["tokens"])
    assert tokenizer.encode("This is a test") == cases["This is a test"]["ids"]


# ---- The rules ----


def test_digit_commas_stand_apart(released_model):
    tokenizer = tokenizer_lib.Tokenizer.from_file(released_model)
    graph = graph_tokenizer.GraphTokenizer(tokenizer)
    text = "In 1990, and 2011, the"
    assert tokenizer.pieces(both(tokenizer, graph, [text])[0]) == [
        "▁in", "▁1990", ",", "▁and", "▁2011", ",", "▁the",
    ]  # fmt: skip
    split = [i for i, row in enumerate(tokenizer.replacement_rows) if row != [i]]
    assert len(split) == 141
    for i in split:
        piece = tokenizer.pieces([i])[0]
        parts = tokenizer.pieces(tokenizer.replacement_rows[i])
        assert parts[-1] == "," and "".join(parts) == piece


def _model(pieces):
    """A unigram model of (piece, score) after the special pieces."""
    from sentencepiece import sentencepiece_model_pb2 as model_pb2

    model = model_pb2.ModelProto()
    kind = model_pb2.ModelProto.SentencePiece
    special = [("<pad>", kind.CONTROL), ("<unk>", kind.UNKNOWN)]
    special += [(piece, kind.CONTROL) for piece in ("[CLS]", "[SEP]", "[MASK]")]
    for piece, piece_type in special:
        model.pieces.add(piece=piece, score=0.0, type=piece_type)
    for piece, score in pieces:
        model.pieces.add(piece=piece, score=score, type=kind.NORMAL)
    model.trainer_spec.unk_id = 1
    model.trainer_spec.pad_id = 0
    model.trainer_spec.bos_id = model.trainer_spec.eos_id = -1
    model.normalizer_spec.add_dummy_prefix = True
    return model


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # The piece "▁12," begins a word: so does what stands for it.
        ("12,", ["▁12", ","]),
        # "34," stands inside a word, and "34" is encoded as "▁", "34": no lone "▁".
        ("a34,", ["▁a", "34", ","]),
        # "12," inside a word is encoded as "▁12"; without its "▁" it is no piece.
        ("a12,", ["▁a", "<unk>", ","]),
        # No digit-comma piece: an unknown digit, and its comma.
        ("a5,", ["▁a", "<unk>", ","]),
    ],
)
def test_stray_meta_symbols_are_stripped(text, expected):
    """Fault 7: the original keeps the meta symbol that it adds, or crashes."""
    pieces = ["▁12,", "12,", "34,", "▁12", "34", "▁a", "▁", ","]
    model = _model([(piece, -1.0 - 0.1 * n) for n, piece in enumerate(pieces)])
    tokenizer = tokenizer_lib.Tokenizer(model.SerializeToString())
    graph = graph_tokenizer.GraphTokenizer(tokenizer)
    assert tokenizer.pieces(both(tokenizer, graph, [text])[0]) == expected


@pytest.mark.parametrize("text", ["[CLS]", "[SEP]", "5,"])
def test_unknown_letters_stay_unknown(text):
    """The original looks a piece's letters up, and finds a control symbol's id."""
    model = _model([("▁a", -1.0), ("b", -1.5), ("▁", -3.0)])
    tokenizer = tokenizer_lib.Tokenizer(model.SerializeToString(), lower_case=False)
    graph = graph_tokenizer.GraphTokenizer(tokenizer)
    assert tokenizer.pieces(both(tokenizer, graph, [text])[0]) == ["▁", "<unk>"]


def test_replacements_leave_out_unused_pieces():
    model = _model([("▁a", -1.0), ("b", -1.5), ("c", -2.0), ("▁", -3.0)])
    model.pieces[6].type = type(model.pieces[6]).UNUSED
    tokenizer = tokenizer_lib.Tokenizer(model.SerializeToString())
    assert tokenizer.replacement_ids.tolist() == [5, 7, 8]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The fox is the [MASK].", "▁the ▁fox ▁is ▁the [MASK] ."),
        ("[MASK]", "[MASK]"),
        ("[MASK][MASK] of", "[MASK] [MASK] ▁of"),
        ("the [MASK] .", "▁the [MASK] ▁ ."),
        ("the [MASK]\u00a0.", "▁the [MASK] ▁ ."),
        ("the [MASK]of", "▁the [MASK] ▁of"),
        (". [MASK]", "▁ . [MASK]"),
        ("the [MASK]  ", "▁the [MASK]"),
        ("the [mask]", None),
        ("", ""),
        (" ", ""),
    ],
)
def test_masks_in_the_text(tokenizer, graph, text, expected):
    ids = tokenizer.encode_with_masks(text)
    if expected is None:
        assert tokenizer.mask_id not in ids
    else:
        assert " ".join(tokenizer.pieces(ids)) == expected
    assert graph.encode_with_masks([text]).to_list() == [ids]
    # Outside encode_with_masks the text cannot make a control symbol.
    assert tokenizer.mask_id not in tokenizer.encode(text)


@pytest.mark.parametrize(
    ("ids", "text"),
    [
        (["[CLS]", "▁the", "▁fox", "[SEP]", "▁a", "[SEP]", "<pad>"], "the fox a"),
        (["▁the", "[MASK]", "."], "the [MASK]."),
        (["▁1990", ",", "▁", "<unk>"], "1990, <unk>"),
    ],
)
def test_decode_is_readable(tokenizer, ids, text):
    table = {p: i for i, p in enumerate(tokenizer.pieces(range(4000)))}
    assert tokenizer.decode(np.array([table[piece] for piece in ids])) == text


# ---- Python and the graph ----


@pytest.mark.slow
def test_all_code_points_are_the_same_in_python_and_graph(tokenizer, graph):
    texts = ALL_CHARACTERS
    expected = [tokenizer.normalize(c) for c in texts]
    assert normalized_in_graph(graph, texts) == expected
    both(tokenizer, graph, texts)


@pytest.mark.slow
def test_all_code_points_with_case_kept(cased):
    graph = graph_tokenizer.GraphTokenizer(cased)
    expected = [cased.normalize(c) for c in ALL_CHARACTERS]
    assert normalized_in_graph(graph, ALL_CHARACTERS) == expected


@pytest.mark.parametrize("context", ["a{}Σ", "Σ{}a", "{}ΣΣ", "Σ{}", "xΣ{}Σ y"])
def test_final_sigmas_behind_and_before_all_code_points(tokenizer, graph, context):
    assigned = [c for c in ALL_CHARACTERS if unicodedata.category(c) not in "CnCo"]
    texts = [context.format(c) for c in assigned]
    expected = [tokenizer.normalize(text) for text in texts]
    assert normalized_in_graph(graph, texts) == expected


def test_the_original_normalization_is_ours():
    """`preprocess_text` as the original states it, on all code points."""

    def original(text):
        text = unicodedata.normalize("NFKD", " ".join(text.strip().split()))
        return "".join(c for c in text if not unicodedata.combining(c)).lower()

    for text in ALL_CHARACTERS:
        assert tokenizer_lib.normalize(text) == original(text)


def random_texts(num_texts, seed):
    """Strings of letters, digits, punctuation, spaces, marks and any code points."""
    generator = random.Random(seed)
    alphabets = [
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJ 0123456789,.-'\"()[]<>",
        "\0\t\n\v\f\r\x1c\x1d\x85\u00a0\u2028\u3000\u200b\ufeff ",
        "\u0300\u0301\u0307\u0327\u0345\u05b0\u093cİıßẞſΣσςΆΰǅ﷼ﬁ½²①Å각",
        "▁▅\ufffd[MASK]<unk>",
        "0,1,9, ",
    ]
    for _ in range(num_texts):
        parts = []
        for _ in range(generator.randrange(12)):
            if generator.random() < 0.3:
                parts.append(generator.choice(ALL_CHARACTERS))
            else:
                alphabet = generator.choice(alphabets)
                length = generator.randrange(1, 6)
                parts.append("".join(generator.choices(alphabet, k=length)))
        parts += ["[MASK]"] * (generator.random() < 0.2)
        generator.shuffle(parts)
        yield "".join(parts)


@pytest.mark.slow
def test_random_texts_are_the_same_in_python_and_graph(tokenizer, graph):
    texts = list(random_texts(20_000, seed=7))
    expected = [tokenizer.normalize(text) for text in texts]
    assert normalized_in_graph(graph, texts) == expected
    both(tokenizer, graph, texts)
    masked = graph.encode_with_masks(texts).to_list()
    assert masked == [tokenizer.encode_with_masks(text) for text in texts]


@pytest.mark.slow
def test_real_text_is_the_same_in_python_and_graph(released_model, shared_data):
    """Some lines in ten thousand hold ties, which tell sentencepiece's versions."""
    tokenizer = tokenizer_lib.Tokenizer.from_file(released_model)
    with lzma.open(
        shared_data / "wikipedia_en_good_featured.txt.xz", "rt", encoding="utf-8"
    ) as file:
        lines = [line for line in file.read(6_000_000).split("\n") if line.strip()]
    assert len(lines) > 5000
    both(tokenizer, graph_tokenizer.GraphTokenizer(tokenizer), lines)


@pytest.mark.parametrize(
    ("text", "normalized"),
    [
        (b"a\x00b", "a\0b"),
        (b"a\rb\r", "a b"),
        (b"caf\xe9 b", "caf\ufffd b"),
        (b"\xff\xfe", "\ufffd\ufffd"),
    ],
)
def test_odd_bytes_in_the_graph(tokenizer, graph, text, normalized):
    ids = graph(tf.constant([text])).to_list()
    assert ids == [tokenizer.encode(normalized)]
    python = tokenizer.encode(text.decode("utf-8", "replace"))
    assert ids == [python]


def test_lone_surrogates_become_replacement_characters(tokenizer):
    assert tokenizer.normalize("a\ud800b") == "a\ufffdb"
    assert tokenizer.encode("a\ud800b") == tokenizer.encode("a\ufffdb")


def test_empty_batches(tokenizer, graph):
    assert tokenizer.encode_batch([]) == []
    empty = tf.constant([], tf.string)
    assert graph(empty).to_list() == []
    assert graph.encode_with_masks(empty).to_list() == []
    assert both(tokenizer, graph, ["", " ", "the"])[:2] == [[], []]


@pytest.mark.slow
def test_saved_model_gives_the_same_ids_in_another_process(
    tokenizer, graph, rows, tmp_path
):
    """The other process imports nothing of this project."""

    class Served(tf.Module):
        def __init__(self):
            super().__init__()
            self.tokenizer = graph

        @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
        def ids(self, texts):
            plain = self.tokenizer(texts)
            masked = self.tokenizer.encode_with_masks(texts)
            return plain.to_tensor(-1), masked.to_tensor(-1)

    texts = [row["text"] for row in rows] + ["the [MASK].", "ΟΔΟΣ [MASK]."]
    tf.saved_model.save(Served(), str(tmp_path / "model"))
    (tmp_path / "texts.json").write_text(json.dumps(texts))
    script = (
        "import json, sys, tensorflow as tf, tensorflow_text\n"
        "model = tf.saved_model.load('model')\n"
        "texts = json.load(open('texts.json'))\n"
        "ids = [[[i for i in r if i >= 0] for r in x.numpy().tolist()]\n"
        "       for x in model.ids(tf.constant(texts))]\n"
        "json.dump(ids, open('ids.json', 'w'))\n"
    )
    subprocess.run([sys.executable, "-c", script], cwd=tmp_path, check=True)
    plain, masked = json.loads((tmp_path / "ids.json").read_text())
    assert plain == graph(texts).to_list()
    assert plain == tokenizer.encode_batch(texts)
    assert masked == [tokenizer.encode_with_masks(text) for text in texts]


def test_works_inside_a_dataset(tokenizer, graph):
    texts = ["The fox, 1990,", "a"]
    dataset = tf.data.Dataset.from_tensor_slices(texts).batch(2).map(graph)
    assert next(iter(dataset)).to_list() == tokenizer.encode_batch(texts)


def test_travels_to_worker_processes(cased):
    again = copy.deepcopy(cased)  # by the protocol that worker processes use
    assert (again.sha256, again.lower_case) == (cased.sha256, False)
    assert again.encode("The Fox") == cased.encode("The Fox")


# ---- Errors ----


def test_missing_file_is_named(tmp_path):
    path = str(tmp_path / "no.model")
    with pytest.raises(ValueError, match=r"no\.model: cannot read") as error:
        tokenizer_lib.Tokenizer.from_file(path)
    # The vocabulary of a model cannot be replaced by a new one.
    assert "train" not in str(error.value)
    with pytest.raises(ValueError, match=r"no\.model: cannot read.*; train one"):
        tokenizer_lib.Tokenizer.from_file(path, advice="train one")


@pytest.mark.parametrize("content", [b"", b"not a model", b"\xff" * 9])
def test_files_that_are_no_models_are_named(tmp_path, content):
    path = tmp_path / "bad.model"
    path.write_bytes(content)
    with pytest.raises(ValueError, match="bad.model: .*SentencePiece") as error:
        tokenizer_lib.Tokenizer.from_file(str(path))
    assert "\n" not in str(error.value)


def test_missing_special_pieces_are_named(small_model):
    model = _model([("▁a", -1.0)])
    model.pieces[2].piece, model.pieces[4].piece = "<s>", "<mask>"
    with pytest.raises(ValueError, match=r"lacks \[CLS\], \[MASK\]"):
        tokenizer_lib.Tokenizer(model.SerializeToString())


def test_sentencepiece_breaks_ties_as_the_graph_does(small_model):
    """From 0.2.2 on it does not; install the version of requirements.txt."""
    processor = sentencepiece.SentencePieceProcessor(model_file=small_model)
    assert processor.encode("1_000", out_type=str) == ["▁1", "_", "00", "0"]
