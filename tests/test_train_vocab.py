"""Training a vocabulary: its special pieces, its bytes, and its errors."""

import gzip
import hashlib
import os
import random
import subprocess
import sys

import pytest
import tensorflow as tf
from absl import flags

from albert_tf import tokenization
from data_prep import train_vocab

# The pieces of the released models from id 0 on.
FIRST_PIECES = [
    *("<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"),
    *("(", ")", '"', "-", ".", "–", "£", "€"),
]
SYLLABLES = (
    "the qui ck bro wn fox jum ps o ver la zy dog in 19 90 ri sing Fa st".split()
)


def lines(num_lines):
    """Lines of made-up words, rich enough for a vocabulary of 60."""
    generator = random.Random(5)
    for _ in range(num_lines):
        words = ["".join(generator.choices(SYLLABLES, k=k)) for k in (1, 2, 3, 2)]
        yield " ".join(["the", *words]) + "."


@pytest.fixture
def corpus(tmp_path):
    path = tmp_path / "corpus.txt"
    path.write_text("\n".join(lines(200)) + "\n\n", encoding="utf-8")
    return path


def run_main(tmp_path, **settings):
    """Runs main with the flags as a user would give them."""
    values = flags.FlagValues()
    train_vocab.define_flags(values)
    settings = {"output": tmp_path / "v.model", "vocab_size": 60, **settings}
    values(["train_vocab", *(f"--{name}={value}" for name, value in settings.items())])
    train_vocab.main(["train_vocab"], values)


def sha256(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_special_pieces_stand_as_in_the_released_models():
    tokenizer = tokenization.Tokenizer(train_vocab.train_vocab(lines(200), 60))
    assert tokenizer.vocab_size == 60
    assert tokenizer.pieces(range(13)) == FIRST_PIECES
    assert tokenizer.cls_id == 2
    assert tokenizer.replacement_ids.tolist() == list(range(5, 60))


def test_text_is_normalized_as_the_tokenizer_does():
    lower = train_vocab.train_vocab(lines(200), 60)
    upper = train_vocab.train_vocab((line.upper() for line in lines(200)), 60)
    accented = (line.replace("e", "é") for line in lines(200))
    assert lower == upper == train_vocab.train_vocab(accented, 60)
    cased = tokenization.Tokenizer(
        train_vocab.train_vocab(lines(200), 60, False), False
    )
    assert any("F" in piece for piece in cased.pieces(range(60)))


def test_user_defined_symbols_always_stand_alone():
    texts = [f"{line} (a-b) £5 – €7" for line in lines(200)]
    tokenizer = tokenization.Tokenizer(train_vocab.train_vocab(texts, 80))
    assert tokenizer.pieces(tokenizer.encode("(fox)"))[-1] == ")"
    single = set('()"-.–£€')
    for piece in tokenizer.pieces(range(80)):
        assert piece in single or not single & set(piece)


def test_long_paragraphs_are_not_left_out():
    """Past 4192 bytes SentencePiece would drop a line without a word."""
    paragraph = " ".join(lines(900))
    assert len(paragraph) > 3 * 4192
    texts = [paragraph, *(f"{n} {n}" for n in range(60))]
    tokenizer = tokenization.Tokenizer(train_vocab.train_vocab(texts, 60))
    assert tokenizer.unk_id not in tokenizer.encode(paragraph)


def test_same_input_and_flags_give_the_same_bytes(corpus, tmp_path, capsys):
    for name in ("one", "two"):
        output = tmp_path / name / "vocab.model"
        run_main(tmp_path, input=corpus, output=output, input_sentence_size=50, seed=3)
    assert sha256(tmp_path / "one/vocab.model") == sha256(tmp_path / "two/vocab.model")
    assert sha256(tmp_path / "one/vocab.model") in capsys.readouterr().out
    assert sorted(os.listdir(tmp_path / "one")) == ["vocab.model", "vocab.vocab"]


def test_vocab_file_lists_pieces_and_scores(corpus, tmp_path):
    run_main(tmp_path, input=corpus, output=tmp_path / "prefix")
    tokenizer = tokenization.Tokenizer.from_file(str(tmp_path / "prefix.model"))
    listing = (tmp_path / "prefix.vocab").read_text(encoding="utf-8").splitlines()
    assert [row.split("\t")[0] for row in listing] == tokenizer.pieces(range(60))
    assert listing[:5] == [f"{piece}\t0" for piece in FIRST_PIECES[:5]]
    assert all(float(row.split("\t")[1]) < 0 for row in listing[13:])


def test_compressed_text_and_globs_give_the_same_model(corpus, tmp_path):
    run_main(tmp_path, input=corpus, output=tmp_path / "plain")
    data = corpus.read_bytes()
    middle = data.index(b"\n", len(data) // 2) + 1
    (tmp_path / "part-0.gz").write_bytes(gzip.compress(data[:middle]))
    (tmp_path / "part-1.gz").write_bytes(gzip.compress(data[middle:]))
    run_main(tmp_path, input=tmp_path / "part-*.gz", output=tmp_path / "parts")
    assert sha256(tmp_path / "plain.model") == sha256(tmp_path / "parts.model")


def test_sample_is_exact_seeded_and_even(tmp_path):
    path = tmp_path / "numbers.txt"
    path.write_text("\n".join(map(str, range(40))) + "\n\n\n")
    counts = [0] * 40
    for seed in range(600):
        sample = [int(text) for text in train_vocab.sample_texts([str(path)], 10, seed)]
        assert len(sample) == 10 and sample == sorted(set(sample))
        for number in sample:
            counts[number] += 1
    # 150 expected of each; 4.5 standard deviations (10.6) hold for all 40 of them
    # with a confidence of 99.97%.
    assert all(abs(count - 150) < 48 for count in counts)
    again = [list(train_vocab.sample_texts([str(path)], 10, seed=1)) for _ in range(2)]
    assert again[0] == again[1]
    everything = [str(n) for n in range(40)]
    assert list(train_vocab.sample_texts([str(path)], 0, 1)) == everything
    assert list(train_vocab.sample_texts([str(path)], 99, 1)) == everything


# ---- Errors: one line, and exit code 1 ----


def expect_error(tmp_path, capsys, **settings):
    with pytest.raises(SystemExit) as stop:
        run_main(tmp_path, **settings)
    assert stop.value.code == 1
    message = capsys.readouterr().err.strip()
    assert message.startswith("error: ") and "\n" not in message
    assert not list(tmp_path.glob("*.model")) and not list(tmp_path.glob("*.tmp*"))
    return message


def test_missing_input(tmp_path, capsys):
    message = expect_error(tmp_path, capsys, input=tmp_path / "no*.txt")
    assert "no*.txt" in message and "matches no file" in message


def test_empty_input(tmp_path, capsys):
    (tmp_path / "empty.txt").write_text("\n \n")
    message = expect_error(tmp_path, capsys, input=tmp_path / "empty.txt")
    assert "holds no text; give files" in message


def test_input_that_is_not_utf8(corpus, tmp_path, capsys):
    corpus.write_bytes(corpus.read_bytes() + b"fine\ncaf\xe9\n")
    for size in (0, 50):
        message = expect_error(tmp_path, capsys, input=corpus, input_sentence_size=size)
        assert "corpus.txt, line 203" in message and "UTF-8" in message


def test_corpus_too_small_names_the_largest_vocabulary(corpus, tmp_path, capsys):
    message = expect_error(tmp_path, capsys, input=corpus, vocab_size=30000)
    assert "too small for vocab_size 30000" in message
    largest = int(message.split("largest possible is ")[1].split(":")[0])
    run_main(tmp_path, input=corpus, vocab_size=largest)
    assert (tmp_path / "v.model").is_file()


def test_vocabulary_too_small_for_the_characters(corpus, tmp_path, capsys):
    message = expect_error(tmp_path, capsys, input=corpus, vocab_size=20)
    assert "vocab_size 20 is too small for the characters" in message


def test_unwritable_folder_is_found_before_training(
    corpus, tmp_path, capsys, monkeypatch
):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setattr(train_vocab, "train_vocab", None)
    message = expect_error(
        tmp_path, capsys, input=corpus, output=tmp_path / "file" / "v.model"
    )
    assert "cannot be written" in message and "--output" in message


def test_a_failing_reader_is_not_taken_for_the_end_of_the_text():
    def texts():
        yield from lines(200)
        raise tf.errors.UnavailableError(None, None, "the bucket is away")

    with pytest.raises(tf.errors.UnavailableError):
        train_vocab.train_vocab(texts(), 60)


@pytest.mark.slow
def test_command_line(corpus, tmp_path):
    command = [sys.executable, "-m", "data_prep.train_vocab", f"--input={corpus}"]
    command += [f"--output={tmp_path}/vocab.model"]
    done = subprocess.run(
        [*command, "--vocab_size=60"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "vocab.model: 60 pieces" in done.stdout
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.strip().splitlines()[-1].startswith("error: the text is too")
