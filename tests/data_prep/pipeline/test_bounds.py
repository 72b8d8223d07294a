"""Input beyond the bounds of `text.max_…`, through the commands that read text."""

import gzip
import json

import pytest
from absl import flags

from albert_tf.core import config as config_lib
from albert_tf.core import config_io
from albert_tf.data import schema
from data_prep import create_pretraining_data, train_vocab
from data_prep.pipeline import common, local_run
from data_prep.reading import blocks
from tests.support import small_run

PLAIN = (
    "model.vocab_size=4000",
    "data.max_seq_length=32",
    "data.dupe_factor=2",
    "data.heldout_rate=0.2",
    "data.min_shards=2",
)
SMALL = (
    "text.max_line_characters=300",
    "text.max_document_bytes=4096",
    "text.max_unpacked_ratio=1",
)
COUNTS = {"cut_documents": 2, "cut_files": 1, "cut_lines": 1}


@pytest.fixture
def corpus(tmp_path):
    """Ordinary files, and one each of what exceeds the bounds."""
    folder = tmp_path / "corpus"
    folder.mkdir()
    for number in range(3):
        small_run.write_corpus(folder / f"{number}.txt", num_documents=20, seed=number)
    line = "the river of the town was small . " * 3
    (folder / "document.txt").write_text(f"{line}\n" * 100)
    (folder / "line.txt").write_text(f"A small town.\n{line * 4}\n")
    (folder / "bomb.txt.gz").write_bytes(gzip.compress(b"A bird.\nOld.\n\n" * 9000))
    return folder


def run(corpus, output, *overrides, num_workers=1, **arguments):
    return local_run.create_pretraining_data(
        f"{corpus}/*",
        str(small_run.VOCAB),
        str(output),
        config_io.override(config_lib.Config(), [*PLAIN, *overrides]),
        num_workers,
        **arguments,
    )


def contents(folder):
    return {p.name: p.read_bytes() for p in folder.iterdir() if p.is_file()}


def main(binary, *arguments):
    values = flags.FlagValues()
    binary.define_flags(values)
    rest = values([binary.__name__, *map(str, arguments)])
    binary.main(rest, values)


def test_what_exceeds_a_bound_is_counted_in_the_manifest_and_named(
    corpus, tmp_path, capsys
):
    main(
        create_pretraining_data,
        f"--input={corpus}/*",
        f"--vocab_model={small_run.VOCAB}",
        f"--output_dir={tmp_path}/out",
        "--num_workers=1",
        *(f"--set={setting}" for setting in (*PLAIN, *SMALL)),
    )
    said = capsys.readouterr()
    named = [line for line in said.err.splitlines() if line.startswith(str(corpus))]
    assert sorted(line.partition(": ")[0] for line in named) == [
        f"{corpus}/bomb.txt.gz, line 877",
        f"{corpus}/document.txt, line 1",
        f"{corpus}/document.txt, line 40",
        f"{corpus}/line.txt, line 1",
    ]
    assert (
        "over a bound of text.max_…, named on stderr: 1 cut lines, 2 cut documents, "
        "1 cut files\n"
    ) in said.out
    text = (tmp_path / "out" / schema.MANIFEST_FILE).read_text()
    manifest = schema.Manifest.from_json(text)
    assert manifest.characters["input"] == COUNTS
    # 60 ordinary ones, 3 parts, that of the long line, and 292 of the compressed file.
    assert manifest.documents["read"] == 60 + 3 + 1 + 292
    assert manifest.text["max_line_characters"] == 300


@pytest.mark.slow
def test_the_bytes_are_the_same_for_any_number_of_workers(
    corpus, tmp_path, monkeypatch
):
    for num_workers in (1, 2, 3):
        manifest = run(
            corpus, tmp_path / str(num_workers), *SMALL, num_workers=num_workers
        )
        assert manifest.characters["input"] == COUNTS
    assert contents(tmp_path / "1") == contents(tmp_path / "2")
    assert contents(tmp_path / "1") == contents(tmp_path / "3")


def test_bounds_change_nothing_of_text_within_them(tmp_path):
    folder = tmp_path / "corpus"
    folder.mkdir()
    small_run.write_corpus(folder / "a.txt", num_documents=60)
    manifest = run(folder, tmp_path / "default")
    assert manifest.characters["input"] == {}
    run(folder, tmp_path / "small", *SMALL, "text.max_markup_work=1")
    default, small = contents(tmp_path / "default"), contents(tmp_path / "small")
    changed = {name for name in default if default[name] != small[name]}
    assert changed == {schema.MANIFEST_FILE}


def test_unfinished_work_with_other_bounds_is_not_resumed(
    corpus, tmp_path, monkeypatch
):
    class Crash(BaseException):
        pass

    def crash(*_):
        raise Crash

    with monkeypatch.context() as patch:
        patch.setattr(local_run, "_make_shards", crash)
        with pytest.raises(Crash):
            run(corpus, tmp_path / "out")
    for setting, message in (
        (SMALL[0], "text.max_line_characters was 262144 and is 300"),
        (SMALL[1], "text.max_document_bytes was 67108864 and is 4096"),
        (SMALL[2], "text.max_unpacked_ratio was 100 and is 1"),
        ("text.max_markup_work=7", "text.max_markup_work was 100000000 and is 7"),
    ):
        with pytest.raises(ValueError, match=message):
            run(corpus, tmp_path / "out", setting)


def test_a_block_of_which_all_is_dropped_gives_no_documents(tmp_path, monkeypatch):
    monkeypatch.setattr(blocks, "GROUP_BYTES", 1)  # one file each
    (tmp_path / "a.jsonl").write_text(json.dumps({"text": "z" * 9000}))
    (tmp_path / "b.jsonl").write_text(json.dumps({"text": "One.\nTwo."}))
    settings = (
        *("text.input_format=jsonl", "text.max_document_bytes=4096"),
        "data.heldout_rate=0",
    )
    config = config_io.override(config_lib.Config(), [*PLAIN, *settings])
    manifest = local_run.create_pretraining_data(
        f"{tmp_path}/*.jsonl", str(small_run.VOCAB), str(tmp_path / "out"), config
    )
    assert manifest.documents == {"read": 1, "dropped": {}, "kept": 1}
    assert manifest.characters["input"] == {"huge_documents": 1}


def test_the_evaluation_set_is_cleaned_as_the_documents_are(tmp_path, capsys):
    path = tmp_path / "evaluation.txt"
    path.write_text(
        "one soft\u00adened line of eight words it is\n\n"
        "\uff57\uff49\uff44\uff45 words are made narrow for everyone who reads\n"
    )
    overrides = ["text.unicode_normalization=NFKC", "text.min_document_characters=99"]
    text = config_io.override(config_lib.Config(), overrides).text
    index = common._read_evaluation(str(path), text)
    assert index.matches(["one softened line of eight words it is"])
    assert index.matches(["wide words are made narrow", "for everyone who reads"])
    assert not index.matches(["wide words are made narrow for everyone who writes"])
    said = capsys.readouterr().err
    assert said == "evaluation set: 2 texts of 8 to 9 words, at empty lines\n"


def test_an_evaluation_set_in_another_format_is_refused(tmp_path):
    path = tmp_path / "evaluation.jsonl"
    path.write_text('{"text": "some words"}\n')
    with pytest.raises(ValueError, match="named as jsonl, but the texts of an eval"):
        common._read_evaluation(str(path), config_lib.Config().text)


def test_the_evaluation_set_is_within_the_bounds_too(tmp_path, capsys):
    path = tmp_path / "evaluation.txt"
    path.write_text("word " * 100)
    config = config_io.override(config_lib.Config(), [*PLAIN, *SMALL])
    common.make_settings(str(small_run.VOCAB), config, str(path))
    assert f"{path}, line 1: a line of 499 characters is cut" in capsys.readouterr().err


def test_the_vocabulary_is_trained_on_text_within_the_bounds(corpus, tmp_path, capsys):
    main(
        train_vocab,
        f"--input={corpus}/*",
        f"--output={tmp_path}/vocab.model",
        "--vocab_size=70",
        "--num_workers=1",
        *(f"--set={setting}" for setting in SMALL),
    )
    said = capsys.readouterr().err
    assert (
        "; over a bound of text.max_…: 1 cut lines, 2 cut documents, 1 cut files\n"
    ) in said
    assert f"{corpus}/line.txt, line 1: a line of 407 characters is cut" in said
