"""From raw text to records, through the binary's functions."""

import collections
import itertools
import json
import random
import shlex
import subprocess
import sys

import numpy as np
import pytest
import sentencepiece
import tensorflow as tf
from absl import flags
from scipy import stats

from albert_tf.core import binaries, config_io
from albert_tf.core import config as config_lib
from albert_tf.data import schema
from albert_tf.tokenization import tokenizer as tokenizer_lib
from data_prep import create_pretraining_data
from data_prep.fast_tokenizer import encoder
from data_prep.pipeline import local_run
from data_prep.records import reader
from data_prep.verification import run as verification_run

CLS, SEP, MASK = 2, 3, 4
VOCAB_SIZE = 1 << 16


class NumberTokenizer:
    """Each word is a number and its own id, so that a token identifies its place."""

    vocab_size = VOCAB_SIZE
    pad_id, unk_id, cls_id, sep_id, mask_id = range(5)
    model_proto = b"no model"
    sha256 = "no digest"
    is_word_start = np.arange(VOCAB_SIZE) % 3 > 0
    replacement_ids = np.array([5, 6], np.int32)

    def __init__(self, *_):
        pass

    @classmethod
    def from_file(cls, *_):
        return cls()


class NumberEncoder:
    """Encodes texts of numbers."""

    def __init__(self, tokenizer):
        pass

    def encode(self, texts):
        rows = [[int(word) for word in text.split()] for text in texts]
        ids = np.array(list(itertools.chain(*rows)), np.int32)
        return ids, np.array([len(row) for row in rows], np.int64)


def number_corpus(path, sentence_lengths):
    """Writes documents of numbers from 10 on, with a gap of 7 between documents."""
    number = 10
    paragraphs = []
    for lengths in sentence_lengths:
        lines = []
        for length in lengths:
            lines.append(" ".join(str(number + i) for i in range(length)))
            number += length
        number += 7
        paragraphs.append("\n".join(lines))
    path.write_text("\n\n".join(paragraphs) + "\n")


@pytest.fixture
def number_tokenizer(monkeypatch):
    monkeypatch.setattr(tokenizer_lib, "Tokenizer", NumberTokenizer)
    monkeypatch.setattr(encoder, "FastEncoder", NumberEncoder)


@pytest.fixture
def vocab_model(testdata):
    return str(testdata / "tokenization" / "spm_small.model")


def make_config(vocab_size, **data):
    return config_io.override(
        config_lib.Config(),
        [f"model.vocab_size={vocab_size}"]
        + [
            f"{name if '.' in name else f'data.{name}'}={value}"
            for name, value in data.items()
        ],
    )


def read(folder, split, vocab_size):
    """The parsed records of a split, in the order of the shards."""
    text = (folder / "manifest.json").read_text()
    manifest = schema.Manifest.from_json(text)
    assert manifest.vocab_size == vocab_size
    return [values for _, values in reader.iter_records(str(folder), manifest, split)]


def segments(values):
    """A and B of a parsed record before masking, without special tokens."""
    tokens = reader.unmask(values)
    length = values["segment_a_length"]
    assert tokens[0] == CLS and tokens[length - 1] == tokens[-1] == SEP
    return tokens[1 : length - 1], tokens[length:-1]


def in_order(values):
    a, b = segments(values)
    parts = (b, a) if values["next_sentence_labels"] == schema.SWAPPED else (a, b)
    return np.concatenate(parts)


def english_corpus(path, num_documents=60, seed=0):
    """Documents of synthetic sentences of English words, one per paragraph."""
    words = (
        "the a of river town house bird old small was were found under over between "
        "light water, 1990 king's history music and in north south played called"
    ).split()
    rng = random.Random(seed)
    documents = [
        "\n".join(
            " ".join(rng.choices(words, k=rng.randint(1, 25))) + "."
            for _ in range(rng.randint(1, 20))
        )
        for _ in range(num_documents)
    ]
    path.write_text("\n\n".join(documents))
    return documents


def run(tmp_path, vocab_model, output="out", num_workers=1, **data):
    settings = {"max_seq_length": 64, "dupe_factor": 2, "min_shards": 3} | data
    return local_run.create_pretraining_data(
        f"{tmp_path}/*.txt",
        vocab_model,
        str(tmp_path / output),
        make_config(4000, **settings),
        num_workers,
    )


def contents(folder):
    return {p.name: p.read_bytes() for p in folder.iterdir()}


def test_every_record_is_consecutive_text_of_one_document(tmp_path, number_tokenizer):
    # Differs from the original: one record in eight of it mixes two documents. Each is
    # here whole sentences of one document, or one sentence or piece without a label.
    rng = np.random.default_rng(0)
    lengths = [rng.integers(1, 40, size=rng.integers(1, 30)) for _ in range(80)]
    lengths += [[n] for n in (1, 2, 3, 5, 30, 61, 62, 200)]  # of one sentence
    number_corpus(tmp_path / "a.txt", lengths)
    manifest = local_run.create_pretraining_data(
        str(tmp_path / "a.txt"),
        "vocab",
        str(tmp_path / "out"),
        make_config(VOCAB_SIZE, max_seq_length=64, dupe_factor=3, heldout_rate=0.1),
    )
    ends = np.cumsum([sum(n) + 7 for n in lengths]) + 10  # the next document's start
    for name, split in manifest.splits.items():
        parsed = read(tmp_path / "out", name, VOCAB_SIZE)
        assert len(parsed) == split.num_records
        for values in parsed:
            tokens = in_order(values)
            # Consecutive numbers; there is a gap between any two documents.
            assert np.array_equal(tokens, np.arange(tokens[0], tokens[-1] + 1))
            first, last = np.searchsorted(ends, tokens[[0, -1]], side="right")
            assert first == last
            assert 3 <= len(values["input_ids"]) <= 64
            a, b = segments(values)
            has_label = values["next_sentence_labels"] != schema.NO_LABEL
            assert len(a) and bool(len(b)) == has_label
            is_random = values["input_ids"] != reader.unmask(values)
            assert set(values["input_ids"][is_random]) <= {MASK, 5, 6}
        copies = 3 if name == schema.TRAIN else 1
        seen = collections.Counter(t for v in parsed for t in in_order(v).tolist())
        assert set(seen.values()) == {copies}  # each token once a copy
    assert set(manifest.splits) == {schema.TRAIN, schema.HELDOUT}


def test_half_of_the_pairs_are_swapped_and_the_statistics_are_true(
    tmp_path, number_tokenizer
):
    number_corpus(tmp_path / "a.txt", [[10] * 20] * 150)
    manifest = local_run.create_pretraining_data(
        str(tmp_path / "a.txt"),
        "vocab",
        str(tmp_path / "out"),
        make_config(VOCAB_SIZE, max_seq_length=64, dupe_factor=2, heldout_rate=0),
    )
    assert manifest.heldout_unigram_entropy is None
    (split,) = manifest.splits.values()
    parsed = read(tmp_path / "out", schema.TRAIN, VOCAB_SIZE)
    labels = collections.Counter(v["next_sentence_labels"] for v in parsed)
    num_pairs = len(parsed) - labels[schema.NO_LABEL]
    assert 0 < labels[schema.NO_LABEL] < num_pairs
    low, high = stats.binom.interval(0.999, num_pairs, 0.5)
    assert low <= labels[schema.SWAPPED] <= high

    statistics = split.statistics
    num_tokens = sum(len(v["input_ids"]) for v in parsed)
    num_masked = sum(len(v["masked_lm_ids"]) for v in parsed)
    assert split.num_documents == 150
    assert split.num_records == sum(s.num_records for s in split.shards) == len(parsed)
    assert statistics["labels"] == {str(label): labels[label] for label in (-1, 0, 1)}
    assert statistics["num_tokens"] == num_tokens
    assert statistics["num_masked"] == num_masked
    assert statistics["masked_rate"] == pytest.approx(num_masked / num_tokens, abs=1e-6)
    assert statistics["masked_rate"] == pytest.approx(0.145, abs=0.005)
    assert sum(statistics["replacements"].values()) == num_masked
    padding = 1 - num_tokens / (64 * len(parsed))
    assert statistics["padding_rate"] == pytest.approx(padding, abs=1e-6)


def test_a_cap_on_predictions_is_kept_and_its_rate_reported(tmp_path, number_tokenizer):
    number_corpus(tmp_path / "a.txt", [[10] * 60] * 10)
    manifest = local_run.create_pretraining_data(
        str(tmp_path / "a.txt"),
        "vocab",
        str(tmp_path / "out"),
        make_config(
            VOCAB_SIZE, max_seq_length=256, max_predictions_per_seq=4, heldout_rate=0
        ),
    )
    parsed = read(tmp_path / "out", schema.TRAIN, VOCAB_SIZE)
    assert max(len(v["masked_lm_ids"]) for v in parsed) == 4
    assert manifest.num_predictions == 4
    assert manifest.splits[schema.TRAIN].statistics["masked_rate"] < 0.03


def test_copies_of_a_document_are_masked_and_cut_differently(
    tmp_path, number_tokenizer
):
    number_corpus(tmp_path / "a.txt", [[4] * 10])
    local_run.create_pretraining_data(
        str(tmp_path / "a.txt"),
        "vocab",
        str(tmp_path / "out"),
        make_config(VOCAB_SIZE, max_seq_length=64, dupe_factor=20, heldout_rate=0),
    )
    parsed = read(tmp_path / "out", schema.TRAIN, VOCAB_SIZE)
    assert len({tuple(v["masked_lm_positions"]) for v in parsed}) > 10
    assert len({v["segment_a_length"] for v in parsed}) > 5


def test_unmasking_restores_the_text_of_the_document(tmp_path, vocab_model):
    texts = english_corpus(tmp_path / "a.txt", num_documents=30)
    run(tmp_path, vocab_model, dupe_factor=1, heldout_rate=0)
    tokenizer = tokenizer_lib.Tokenizer.from_file(vocab_model)
    # Ids, since decoding depends on where a record is cut.
    whole = [
        list(itertools.chain(*tokenizer.encode_batch(text.split("\n"))))
        for text in texts
    ]
    whole = [" ".join(map(str, ids)) + " " for ids in whole]
    parsed = read(tmp_path / "out", schema.TRAIN, 4000)
    assert len(parsed) > 60
    for values in parsed:
        stretch = " ".join(map(str, in_order(values))) + " "
        assert any(stretch in text for text in whole)
    text = " ".join(tokenizer.decode(in_order(values).tolist()) for values in parsed)
    assert "king's history" in text


def test_heldout_documents_are_disjoint_and_equal_ones_are_on_one_side(
    tmp_path, number_tokenizer
):
    lengths = [[3, 4, 5]] * 200
    number_corpus(tmp_path / "a.txt", lengths)
    text = (tmp_path / "a.txt").read_text()
    (tmp_path / "b.txt").write_text(text)  # every document twice
    manifest = local_run.create_pretraining_data(
        f"{tmp_path}/*.txt",
        "vocab",
        str(tmp_path / "out"),
        make_config(VOCAB_SIZE, max_seq_length=64, dupe_factor=2, heldout_rate=0.3),
    )
    tokens = {
        split: {
            t for v in read(tmp_path / "out", split, VOCAB_SIZE) for t in in_order(v)
        }
        for split in (schema.TRAIN, schema.HELDOUT)
    }
    assert not tokens[schema.TRAIN] & tokens[schema.HELDOUT]
    num_heldout = manifest.splits[schema.HELDOUT].num_documents
    assert num_heldout % 2 == 0
    low, high = stats.binom.interval(0.999, 200, 0.3)
    assert low <= num_heldout / 2 <= high
    # Held-out documents are used once, the others once a copy.
    num_train = manifest.splits[schema.TRAIN].num_documents
    assert manifest.splits[schema.HELDOUT].num_records < 3 * num_heldout
    assert manifest.splits[schema.TRAIN].num_records >= 2 * num_train


def test_the_split_follows_the_text_and_the_seed(tmp_path, number_tokenizer):
    number_corpus(tmp_path / "a.txt", [[3, 4, 5]] * 200)
    lines = (tmp_path / "a.txt").read_text()
    # Line ends do not change the text.
    (tmp_path / "b.txt").write_text(
        "\n\n".join(" ".join(d.split("\n")) for d in lines.split("\n\n"))
    )

    def held_out(name, **data):
        local_run.create_pretraining_data(
            str(tmp_path / name),
            "vocab",
            str(tmp_path / "out"),
            make_config(VOCAB_SIZE, **({"heldout_rate": 0.5, "dupe_factor": 1} | data)),
            overwrite=True,
        )
        return {
            t
            for v in read(tmp_path / "out", schema.HELDOUT, VOCAB_SIZE)
            for t in in_order(v).tolist()
        }

    first = held_out("a.txt")
    assert held_out("a.txt", max_seq_length=16) == first
    # A document of one line, so one sentence, gives no pair.
    assert held_out("b.txt", pair_loss="none") == first
    assert held_out("a.txt", seed=1) != first
    assert held_out("a.txt", heldout_rate=0.9) > first


def command(*arguments):
    """Runs the command in this process, with its own flags."""
    values = flags.FlagValues()
    create_pretraining_data.define_flags(values)
    rest = values(["create_pretraining_data", *map(str, arguments)])
    create_pretraining_data.main(rest, values)


@pytest.mark.parametrize("has_stages", [False, True])
def test_the_command_names_what_follows_unless_records_of_more_stages_do(
    tmp_path, vocab_model, capsys, has_stages
):
    english_corpus(tmp_path / "a.txt")
    settings = ["--set=model.vocab_size=4000", "--set=data.max_seq_length=32"]
    stages = "[{'num_steps': 3}, {'num_steps': 4}]" if has_stages else "[]"
    settings += ["--set=train.num_steps=7", f"--set=train.stages={stages}"]
    output = f"{tmp_path}/out"
    command(
        f"--input={tmp_path}/a.txt",
        f"--vocab_model={vocab_model}",
        f"--output_dir={output}",
        *settings,
        "--num_workers=1",
    )
    last = capsys.readouterr().out.splitlines()[-1]
    words = ["python", "-m", "albert_tf.pretrain", "--config=RECIPE", *settings]
    words += [f"--data_dir={output}", "--model_dir=run"]
    assert (last == f"Next: {shlex.join(words)}") != has_stages


def test_with_the_settings_of_a_model_its_weights_are_what_training_starts_from(
    tmp_path, vocab_model, capsys
):
    english_corpus(tmp_path / "a.txt")
    run = tmp_path / "albert_base"
    run.mkdir()
    settings = {"model": {"vocab_size": 4000}, "data": {"max_seq_length": 32}}
    (run / "config.json").write_text(json.dumps(settings))
    (run / "checkpoint").write_text("")
    command(
        f"--input={tmp_path}/a.txt",
        f"--vocab_model={vocab_model}",
        f"--output_dir={tmp_path}/out",
        f"--config={run}/config.json",
        "--num_workers=1",
    )
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.endswith(f"--init_checkpoint={run} --model_dir=continued")
    # The batch of these settings is that of a pod, and the paper's rate is for it.
    for setting in ("train.batch_size=32", "optimizer.learning_rate=0.00016"):
        assert f" --set={setting} " in last


@pytest.mark.parametrize(
    "settings",
    [
        ["train.accumulation_steps=64"],
        ["optimizer.decay=wsd", "optimizer.decay_steps=10000"],
        ["optimizer.name=adamw", "train.num_steps=500"],
    ],
)
def test_the_settings_that_follow_fit_the_recipe(settings):
    config = config_io.load("configs/albert_base.py", settings)
    small = create_pretraining_data._small_run(config)
    run = config_io.load("configs/albert_base.py", [*settings, *small]).train
    assert (run.batch_size, run.num_steps, run.accumulation_steps) == (32, 2000, 1)


def test_what_follows_has_a_directory_that_is_not_there_yet(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert create_pretraining_data._new_name("run") == "run"
    (tmp_path / "run").mkdir()
    (tmp_path / "run-2").mkdir()
    assert create_pretraining_data._new_name("run") == "run-3"


def test_one_worker_names_bad_input_in_a_process_that_made_no_pool(
    tmp_path, vocab_model
):
    path = tmp_path / "latin.txt"
    path.write_bytes(b"One line.\n\nCaf\xe9 and more.\n")
    done = subprocess.run(
        [
            *(sys.executable, "-m", "data_prep.create_pretraining_data"),
            *(f"--input={path}", f"--vocab_model={vocab_model}"),
            *(f"--output_dir={tmp_path}/out", "--num_workers=1"),
            "--set=model.vocab_size=4000",
        ],
        cwd=binaries.ROOT,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 1
    first, last = done.stderr.splitlines()
    assert last.startswith(f"error: {path}, line 3, column 4: text must be UTF-8")
    assert "0%" in first and "100%" not in first  # where the reading began


def test_the_command_prints_a_summary(tmp_path, vocab_model, capsys):
    english_corpus(tmp_path / "a.txt")
    command(
        f"--input={tmp_path}/a.txt,{tmp_path}/*.txt",
        f"--vocab_model={vocab_model}",
        f"--output_dir={tmp_path}/out",
        "--set=model.vocab_size=4000",
        "--set=data.max_seq_length=32",
        "--set=data.heldout_rate=0.2",
        "--num_workers=1",
    )
    out = capsys.readouterr().out
    text = (tmp_path / "out" / "manifest.json").read_text()
    manifest = schema.Manifest.from_json(text)
    for split in manifest.splits.values():
        assert (
            f"{split.num_records:,} records of {split.num_documents} documents" in out
        )
    assert f"{manifest.heldout_unigram_entropy:.4f} nats" in out
    assert f"wrote {tmp_path}/out" in out
    assert str(tmp_path) not in text
    assert manifest.data["max_seq_length"] == manifest.seq_length == 32


def test_the_command_warns_where_nothing_is_held_out(tmp_path, vocab_model, capsys):
    english_corpus(tmp_path / "a.txt")
    command(
        f"--input={tmp_path}/a.txt",
        f"--vocab_model={vocab_model}",
        f"--output_dir={tmp_path}/out",
        "--set=model.vocab_size=4000",
        "--set=data.heldout_rate=0",
        "--num_workers=1",
    )
    assert (
        "warning: nothing was held out, so that no run on these records can be "
        "evaluated. data.heldout_rate is 0; 0.05 keeps about a twentieth of the "
        "documents out"
    ) in capsys.readouterr().out.splitlines()


def _bare_vocabulary(tmp_path):
    """A SentencePiece model without ALBERT's special symbols."""
    english_corpus(tmp_path / "sentences")
    sentencepiece.SentencePieceTrainer.train(
        input=str(tmp_path / "sentences"),
        model_prefix=str(tmp_path / "bare"),
        vocab_size=60,
        hard_vocab_limit=False,
        minloglevel=2,
    )
    return tmp_path / "bare.model"


def _refused(tmp_path, vocab_model, name):
    """Arguments that are refused, and parts of the message."""
    good = {
        "input": tmp_path / "a.txt",
        "vocab_model": vocab_model,
        "output_dir": tmp_path / "out",
        "set": "model.vocab_size=4000",
        "num_workers": 1,
    }
    (tmp_path / "empty.txt").write_bytes(b"")
    (tmp_path / "latin.txt").write_bytes(b"good text\n\nna\xefve text\n")
    (tmp_path / "word.txt").write_text("the\n")
    cases = {
        "no file": ({"input": tmp_path / "none*"}, ["none*", "matches no file"]),
        "empty": ({"input": tmp_path / "empty.txt"}, ["empty.txt", "no document"]),
        "not UTF-8": (
            {"input": tmp_path / "latin.txt"},
            ["latin.txt, line 3", "iconv"],
        ),
        "no pair": (
            {"input": tmp_path / "word.txt"},
            ["no training record is a pair", "data.pair_loss=none"],
        ),
        "all held out": ({"set": "data.heldout_rate=1"}, ["data.heldout_rate is 1.0"]),
        "no vocabulary": ({"vocab_model": tmp_path / "x.model"}, ["x.model"]),
        "text as vocabulary": ({"vocab_model": tmp_path / "a.txt"}, ["a.txt"]),
        "bare vocabulary": (
            {"vocab_model": _bare_vocabulary(tmp_path)},
            ["bare.model", "[CLS]", "train_vocab"],
        ),
        "vocabulary size": (
            {"set": "model.vocab_size=30000"},
            ["4000 pieces", "is 30000", "--set model.vocab_size=4000"],
        ),
        "unwritable": ({"output_dir": tmp_path / "a.txt" / "out"}, ["a.txt/out"]),
        "unknown setting": (
            {"set": "data.dup_factor=3"},
            ["data.dup_factor", "data.dupe_factor"],
        ),
        "bad value": ({"set": "data.dupe_factor=0"}, ["dupe_factor", "received 0"]),
        "no recipe": ({"config": "configs/none.py"}, ["configs/none.py"]),
    }
    changes, parts = cases[name]
    arguments = [f"--{key}={value}" for key, value in (good | changes).items()]
    if name in ("all held out", "bare vocabulary"):
        arguments.append("--set=model.vocab_size=4000")
    return arguments, parts


@pytest.mark.parametrize(
    "name",
    [
        "no file",
        "empty",
        "not UTF-8",
        "no pair",
        "all held out",
        "no vocabulary",
        "text as vocabulary",
        "bare vocabulary",
        "vocabulary size",
        "unwritable",
        "unknown setting",
        "bad value",
        "no recipe",
    ],
)
def test_bad_input_is_one_line_and_leaves_nothing(tmp_path, vocab_model, capsys, name):
    english_corpus(tmp_path / "a.txt")
    arguments, parts = _refused(tmp_path, vocab_model, name)
    with pytest.raises(SystemExit) as exit_:
        command(*arguments)
    assert exit_.value.code == 1
    lines = capsys.readouterr().err.strip().split("\n")
    assert lines[-1].startswith("error: ")
    assert "Traceback" not in "".join(lines)
    for part in parts:
        assert part in lines[-1]
    out = tmp_path / "out"
    assert not out.exists() or list(out.iterdir()) == []


def test_an_existing_output_is_refused_and_replaced_on_demand(
    tmp_path, vocab_model, capsys
):
    english_corpus(tmp_path / "a.txt")
    run(tmp_path, vocab_model)
    before = contents(tmp_path / "out")
    arguments = [
        f"--input={tmp_path}/a.txt",
        f"--vocab_model={vocab_model}",
        f"--output_dir={tmp_path}/out",
        "--set=model.vocab_size=4000",
        "--num_workers=1",
    ]
    with pytest.raises(SystemExit):
        command(*arguments)
    error = capsys.readouterr().err
    assert "manifest.json" in error and "--overwrite" in error
    assert contents(tmp_path / "out") == before
    command(*arguments, "--overwrite")
    after = contents(tmp_path / "out")
    assert "train-00007-of-00008.tfrecord" in after
    assert "train-00002-of-00003.tfrecord" not in after


def test_unquoted_globs_are_an_error(capsys):
    values = flags.FlagValues()
    create_pretraining_data.define_flags(values)
    with pytest.raises(SystemExit):
        create_pretraining_data.main(["create_pretraining_data", "b.txt"], values)
    assert "received 'b.txt'. Quote globs" in capsys.readouterr().err


def test_real_articles_give_records_as_the_paper_has_them(
    tmp_path, vocab_model, shared_data
):
    import lzma

    with lzma.open(shared_data / "wikipedia_en_good_featured.txt.xz", "rt") as file:
        (tmp_path / "a.txt").write_text(file.read(1_500_000))
    manifest = run(
        tmp_path,
        vocab_model,
        max_seq_length=128,
        **{"text.sentence_splitter": "sentencex"},
        dupe_factor=4,
    )
    statistics = manifest.splits[schema.TRAIN].statistics
    assert statistics["masked_rate"] == pytest.approx(0.15, abs=0.002)
    assert statistics["padding_rate"] < 0.3
    assert statistics["unknown_rate"] < 0.02
    drawn = np.array(list(statistics["drawn_ngram_lengths"].values()))
    assert drawn.sum() > 20000
    assert stats.chisquare(drawn, np.array([6, 3, 2]) / 11 * drawn.sum()).pvalue > 0.001


def test_remote_directories_give_the_same_bytes(tmp_path, vocab_model):
    """With TensorFlow's in-memory file system in place of gs://."""
    english_corpus(tmp_path / "a.txt")
    run(tmp_path, vocab_model)
    gfile = tf.io.gfile
    gfile.makedirs("ram://bucket/in")
    gfile.copy(str(tmp_path / "a.txt"), "ram://bucket/in/a.txt")
    gfile.copy(vocab_model, "ram://bucket/vocab.model")
    arguments = (
        "ram://bucket/in/*.txt",
        "ram://bucket/vocab.model",
        "ram://bucket/out",
    )
    config = make_config(4000, max_seq_length=64, dupe_factor=2, min_shards=3)
    with pytest.raises(ValueError, match="--work_dir must name a local directory"):
        local_run.create_pretraining_data(*arguments, config)
    local_run.create_pretraining_data(
        *arguments, config, work_dir=str(tmp_path / "work")
    )
    found = {}
    for name in gfile.listdir("ram://bucket/out"):
        with gfile.GFile(f"ram://bucket/out/{name}", "rb") as file:
            found[name] = file.read()
    assert found == contents(tmp_path / "out")
    assert list((tmp_path / "work").iterdir()) == []
    assert verification_run.verify("ram://bucket/out", deep=True) == []
