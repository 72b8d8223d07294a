"""Training a vocabulary: its special pieces, its bytes, and its errors."""

import errno
import gzip
import hashlib
import json
import os
import random
import subprocess
import sys

import pytest
from absl import flags

from albert_tf.core import files
from albert_tf.tokenization import tokenizer as tokenizer_lib
from data_prep import train_vocab
from data_prep.vocab import line_sampler, trainer
from data_prep.vocab import report as report_lib

# The pieces of the released models from id 0 on.
FIRST_PIECES = [
    *("<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"),
    *("(", ")", '"', "-", ".", "–", "£", "€"),
]
SYLLABLES = (
    "the qui ck bro wn fox jum ps o ver la zy dog in 19 90 ri sing Fa st".split()
)


def lines(num_lines):
    """Lines of synthetic words, rich enough for a vocabulary of 60."""
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
    defaults = {"output": tmp_path / "v.model", "vocab_size": 60, "num_workers": 1}
    settings = {**defaults, **settings}
    values(["train_vocab", *(f"--{name}={value}" for name, value in settings.items())])
    train_vocab.main(["train_vocab"], values)


def sha256(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_special_pieces_stand_as_in_the_released_models():
    tokenizer = tokenizer_lib.Tokenizer(trainer.train_vocab(lines(200), 60))
    assert tokenizer.vocab_size == 60
    assert tokenizer.pieces(range(13)) == FIRST_PIECES
    assert tokenizer.cls_id == 2
    assert tokenizer.replacement_ids.tolist() == list(range(5, 60))


def test_text_is_normalized_as_the_tokenizer_does():
    lower = trainer.train_vocab(lines(200), 60)
    upper = trainer.train_vocab((line.upper() for line in lines(200)), 60)
    accented = (line.replace("e", "é") for line in lines(200))
    assert lower == upper == trainer.train_vocab(accented, 60)
    cased = tokenizer_lib.Tokenizer(trainer.train_vocab(lines(200), 60, False), False)
    assert any("F" in piece for piece in cased.pieces(range(60)))


def test_user_defined_symbols_always_stand_alone():
    texts = [f"{line} (a-b) £5 – €7" for line in lines(200)]
    tokenizer = tokenizer_lib.Tokenizer(trainer.train_vocab(texts, 80))
    assert tokenizer.pieces(tokenizer.encode("(fox)"))[-1] == ")"
    single = set('()"-.–£€')
    for piece in tokenizer.pieces(range(80)):
        assert piece in single or not single & set(piece)


def test_long_paragraphs_are_not_left_out():
    """Past 4192 bytes SentencePiece would drop a line without a word."""
    paragraph = " ".join(lines(900))
    assert len(paragraph) > 3 * 4192
    texts = [paragraph, *(f"{n} {n}" for n in range(60))]
    tokenizer = tokenizer_lib.Tokenizer(trainer.train_vocab(texts, 60))
    assert tokenizer.unk_id not in tokenizer.encode(paragraph)


def test_same_input_and_flags_give_the_same_bytes(corpus, tmp_path, capsys):
    for num_workers in (1, 2, 7):
        run_main(
            tmp_path,
            input=corpus,
            output=tmp_path / str(num_workers) / "vocab.model",
            input_sentence_size=50,
            seed=3,
            num_workers=num_workers,
        )
    for name in ("vocab.model", "vocab.vocab", "vocab.report.json"):
        digest = sha256(tmp_path / "1" / name)
        assert digest == sha256(tmp_path / "2" / name) == sha256(tmp_path / "7" / name)
    said = capsys.readouterr().out
    assert sha256(tmp_path / "1/vocab.model") in said
    last = said.splitlines()[-1]
    assert last.startswith("Next: python -m data_prep.create_pretraining_data --input=")
    flags = f"--vocab_model={tmp_path}/7/vocab.model --config=RECIPE --set=model.vocab"
    assert f"{flags}_size=60 --output_dir=records" in last
    assert len(os.listdir(tmp_path / "1")) == 3


@pytest.mark.parametrize(
    ("vocab_size", "recipe"),
    [
        (30000, ["--config=albert_base"]),
        (8000, ["--config=RECIPE", "--set=model.vocab_size=8000"]),
    ],
)
def test_the_recipe_that_follows_has_a_vocabulary_of_that_size(vocab_size, recipe):
    values, settings = settings_of("--input=a", "--output=b")
    assert train_vocab._recipe(values, settings, vocab_size) == recipe


@pytest.mark.parametrize(
    ("flags_given", "recipe"),
    [
        (["--config=small"], ["--config=small"]),
        (
            ["--nolower_case"],
            [
                "--config=RECIPE",
                "--set=model.vocab_size=8000",
                "--set=data.lower_case=false",
            ],
        ),
        (["--config=small", "--lower_case"], ["--config=small"]),
        (
            ["--set=text.input_format=lines", "--set=model.vocab_size=8000"],
            [
                "--config=RECIPE",
                "--set=text.input_format=lines",
                "--set=model.vocab_size=8000",
            ],
        ),
    ],
)
def test_what_follows_has_the_settings_of_the_vocabulary(flags_given, recipe):
    values, settings = settings_of("--input=a,b", "--output=c", *flags_given)
    assert train_vocab._recipe(values, settings, 8000) == recipe


def settings_of(*arguments):
    """The flags, and the settings that follow from them."""
    values = flags.FlagValues()
    train_vocab.define_flags(values)
    values(["train_vocab", *arguments])
    return values, train_vocab._settings(values)


def test_vocab_file_lists_pieces_and_scores(corpus, tmp_path):
    run_main(tmp_path, input=corpus, output=tmp_path / "prefix")
    tokenizer = tokenizer_lib.Tokenizer.from_file(str(tmp_path / "prefix.model"))
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


def test_configuration_says_how_to_read_and_flags_come_first(tmp_path):
    rows = [json.dumps({"body": f"{line} Fox"}) for line in lines(300)]
    (tmp_path / "corpus.jsonl").write_text("\n".join(rows), encoding="utf-8")
    recipe = tmp_path / "recipe.json"
    recipe.write_text(json.dumps({"data": {"lower_case": False}}), encoding="utf-8")
    values = flags.FlagValues()
    train_vocab.define_flags(values)
    command = ["train_vocab", f"--input={tmp_path}/corpus.jsonl", f"--config={recipe}"]
    command += ["--set=text.input_format=jsonl", "--set=text.field=body"]
    command += ["--set=model.vocab_size=200", f"--output={tmp_path}/out"]
    values(command)
    settings = train_vocab._settings(values)
    assert settings.text.field == "body" and settings.vocab_size == 200
    assert not settings.lower_case
    values([*command, "--lower_case", "--vocab_size=60", "--num_workers=1"])
    train_vocab.main(["train_vocab"], values)
    tokenizer = tokenizer_lib.Tokenizer.from_file(str(tmp_path / "out.model"))
    assert tokenizer.vocab_size == 60
    assert all(p == p.lower() for p in tokenizer.pieces(range(5, 60)))
    # The names of fields are no text.
    assert "{" not in "".join(tokenizer.pieces(range(60)))


def test_report_is_on_lines_that_were_not_trained_on(corpus, tmp_path, capsys):
    corpus.write_text("\n".join(lines(2000)), encoding="utf-8")
    run_main(tmp_path, input=corpus, heldout_lines=7, seed=2)
    report = json.loads((tmp_path / "v.report.json").read_text(encoding="utf-8"))
    tokenizer = tokenizer_lib.Tokenizer.from_file(str(tmp_path / "v.model"))
    assert report["vocab_sha256"] == tokenizer.sha256
    assert report["num_lines"] == 7
    assert report["num_words"] == 7 * 5  # a line is five words
    assert report["character_coverage"] == 1.0
    output = capsys.readouterr()
    assert "characters covered" in output.out and "100.0000%" in output.out
    assert "; 7 distinct lines are held out" in output.err


def test_a_model_without_report_leaves_no_old_one_beside_it(corpus, tmp_path):
    corpus.write_text("\n".join(lines(2000)), encoding="utf-8")
    run_main(tmp_path, input=corpus)
    assert (tmp_path / "v.report.json").is_file()
    run_main(tmp_path, input=corpus, heldout_lines=0)
    assert not (tmp_path / "v.report.json").exists()
    assert (tmp_path / "v.model").is_file()


# ---- Languages: words of each, drawn for the test ----

# The number of pieces, and the words.
LANGUAGES = {
    "chinese": (
        110,
        "我们今天 去公园 散步 天气很好 他在图书馆 看书 这本书 很有意思 明天我要 去上海 "
        "工作 她喜欢 喝茶 和听音乐 中国有 很长的历史 孩子们 在学校学习 火车几点 到北京",
    ),
    "japanese": (
        110,
        "今日は とても 天気が いいです 私は 毎朝 コーヒーを 飲みます 東京は 大きな "
        "都市です 友達と 映画を 見ました 明日は 学校へ 行きません 猫が 庭で 寝ています",
    ),
    "russian": (
        59,
        "сегодня хорошая погода мы идём в парк чтобы гулять и читать книги зимой река "
        "замёрзла а весной вода шумит Москва большой город где живут наши друзья",
    ),
    "arabic": (
        59,
        "الطقس جميل اليوم نذهب إلى الحديقة لنقرأ كتابا عن تاريخ المدينة القديمة يشرب "
        "الناس الشاي في المساء ويتحدثون عن العمل والسفر والبحر",
    ),
    "french": (
        59,
        "Élise a mangé une pêche là où le garçon naïf préfère goûter du café à Noël "
        "puis il rêve d'être élève à l'école près de la forêt",
    ),
}


def text_of(language, num_lines):
    """Lines of the words of a language; with spaces, unless it writes none."""
    generator = random.Random(11)
    words = LANGUAGES[language][1].split()
    space = "" if language in ("chinese", "japanese") else " "
    return [space.join(generator.choices(words, k=6)) for _ in range(num_lines)]


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("lower_case", [True, False])
def test_any_language_is_covered_with_few_pieces(language, lower_case):
    texts = text_of(language, 400)
    model = trainer.train_vocab(texts[:300], LANGUAGES[language][0], lower_case, 1.0)
    tokenizer = tokenizer_lib.Tokenizer(model, lower_case)
    report = report_lib.measure(tokenizer, texts[300:])
    assert report.character_coverage == 1.0 and report.unknown_rate == 0.0
    assert report.characters_per_piece > 1.8
    for text in texts[300:305]:
        normalized = " ".join(tokenizer.normalize(text).split())
        assert tokenizer.decode(tokenizer.encode(text)) == normalized


def test_marks_of_letters_are_dropped_when_cased_too():
    texts = [*text_of("french", 100), *text_of("japanese", 100), "идёт й"]
    model = trainer.train_vocab(texts, 250, lower_case=False, character_coverage=1)
    characters = set("".join(tokenizer_lib.Tokenizer(model, False).pieces(range(250))))
    assert characters.isdisjoint("ÉéêàçïûがでйёЁ") and {"E", "N", "か"} <= characters


def test_character_coverage_leaves_rare_characters_out():
    texts = [*text_of("chinese", 300), "鬱"]
    for coverage, is_known in ((1.0, True), (0.999, False)):
        model = trainer.train_vocab(texts, 200, True, coverage)
        tokenizer = tokenizer_lib.Tokenizer(model)
        assert (tokenizer.unk_id not in tokenizer.encode("鬱")) == is_known


# ---- Errors: one line, and exit code 1 ----


def expect_error(tmp_path, capsys, **settings):
    with pytest.raises(SystemExit) as stop:
        run_main(tmp_path, **settings)
    assert stop.value.code == 1
    # Lines above it say how far the reading came.
    message = capsys.readouterr().err.strip().splitlines()[-1]
    assert message.startswith("error: ")
    assert not list(tmp_path.glob("v.*"))
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
    assert "lower character_coverage" in message


def test_unwritable_directory_is_found_before_training(
    corpus, tmp_path, capsys, monkeypatch
):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setattr(line_sampler, "sample_lines", None)
    message = expect_error(
        tmp_path, capsys, input=corpus, output=tmp_path / "file" / "v.model"
    )
    assert "cannot be written" in message and "--output" in message
    for output in (f"{tmp_path}/", f"{tmp_path}/folder.model"):
        (tmp_path / "folder.model").mkdir(exist_ok=True)
        message = expect_error(tmp_path, capsys, input=corpus, output=output)
        assert "--output must name a file" in message and output in message


def test_full_disk_is_a_line_that_names_the_file(corpus, tmp_path, capsys, monkeypatch):
    write_bytes = files.write_bytes

    def fail(path, data):
        if data:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        write_bytes(path, data)

    monkeypatch.setattr(files, "write_bytes", fail)
    message = expect_error(tmp_path, capsys, input=corpus)
    assert "No space left on device" in message and "v.report.json" in message


def test_a_failing_reader_is_not_taken_for_the_end_of_the_text():
    def texts():
        yield from lines(200)
        raise OSError("the bucket is away")

    with pytest.raises(OSError, match="bucket"):
        trainer.train_vocab(texts(), 60)


@pytest.mark.slow
def test_command_line(corpus, tmp_path):
    command = [sys.executable, "-m", "data_prep.train_vocab", f"--input={corpus}"]
    command += [f"--output={tmp_path}/vocab.model"]
    done = subprocess.run(
        [*command, "--vocab_size=60"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "vocab.model: 60 pieces" in done.stdout
    assert "reading: 100%" in done.stderr
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.strip().splitlines()[-1].startswith("error: the text is too")
