"""The benchmark of data preparation: its tables, not its times."""

import shutil
import subprocess

import pytest

from data_prep import bench_data
from data_prep.benchmarks import process_meter, runner, stages, tables
from data_prep.pipeline import block_processor
from data_prep.text import sentences
from tests.repository import project_files
from tests.support import binaries, small_run

_BLOCK_STAGES = (
    "read and cut",
    "parse",
    "clean",
    "fingerprint",
    "split sentences",
    "tokenize",
    "cut spans",
    "rest of the block",
    "make records",
    "sort",
    "checksums of chunks",
    "write files",
)
_SHARD_STAGES = (
    "sort",
    "check chunks",
    "select",
    "count tokens",
    "checksums",
    "frame",
    "rest of assembling",
    "write, SHA-256",
)


@pytest.fixture
def corpus(tmp_path):
    path = tmp_path / "corpus.txt"
    small_run.write_corpus(path)
    return path


def test_a_stage_has_the_time_of_none_within_it():
    times = iter([10.0, 11.0, 15.0, 16.5])
    clock = stages.Clock(lambda: next(times))
    with clock.stage("outer"), clock.stage("inner"):
        pass
    assert clock.seconds == {"outer": 1.0 + 1.5, "inner": 4.0}


def test_the_tables_hold_each_stage_and_each_number_of_workers(
    corpus, monkeypatch, capsys
):
    calls = []

    def fake_run(module, *arguments):
        calls.append((module, arguments))
        return process_meter.Run(2.0, 1.5, 3_000_000)

    monkeypatch.setattr(process_meter, "run", fake_run)
    small = [f"--set={override}" for override in small_run.OVERRIDES]
    binaries.run(
        bench_data,
        "--config=",
        *small,
        f"--input={corpus}",
        f"--vocab_model={small_run.VOCAB}",
        "--num_workers=1,2",
    )
    output = capsys.readouterr().out
    rows = [line.split("  ")[0] for line in output.splitlines()]
    expected = [f"block: {stage}" for stage in _BLOCK_STAGES]
    expected += [f"shard: {stage}" for stage in _SHARD_STAGES]
    first = rows.index("stage") + 1
    assert rows[first : first + len(expected) + 3] == [
        *expected,
        "all stages",
        "(split with sentencex)",
        "(tokenize with encode_batch)",
    ]
    # Next to nothing and the text, with each number of workers.
    workers = [arguments[-2] for _, arguments in calls[:: runner.NUM_REPEATS]]
    assert workers == ["--num_workers=1", "--num_workers=2"] * 2


def test_the_stages_make_what_a_run_makes(corpus, tmp_path):
    config = small_run.small_config()
    before = sentences.split_sentences
    vocab_model = small_run.VOCAB.read_bytes()
    settings = block_processor.PipelineSettings(
        config.text, config.data, vocab_model, config.model.vocab_size
    )
    folder = tmp_path / "work"
    _, num_records = stages.time_stages(str(corpus), settings, str(folder))
    assert sentences.split_sentences is before
    records = small_run.write_records(tmp_path / "run")
    made = {path.name: path.read_bytes() for path in folder.glob("*.tfrecord")}
    assert num_records > 0
    assert made == {path.name: path.read_bytes() for path in records.glob("*.tfrecord")}


def test_rates_are_those_of_the_text():
    table = tables.stage_table({"a": 0.5, "b": 1.5}, {"c": 8.0}, 4_000_000, 600)
    assert [line.split() for line in table.splitlines()] == [
        ["stage", "seconds", "share", "MB/s", "records/s"],
        ["a", "0.500", "25.0%", "8.0", "1,200"],
        ["b", "1.500", "75.0%", "2.7", "400"],
        ["all", "stages", "2.000", "100.0%", "2.0", "300"],
        ["c", "8.000", "0.5", "75"],
    ]
    runs = {
        1: process_meter.Run(10.0, 9.0, 500_000_000),
        2: process_meter.Run(6.0, 11.0, 900_000_000),
    }
    starts = {1: process_meter.Run(2.0, 2.0, 1), 2: process_meter.Run(2.0, 4.0, 1)}
    table = tables.run_table(runs, starts, 30_000_000, 156_000)
    rows = [line.split() for line in table.splitlines()[1:]]
    assert rows == [
        "1 10.00 2.00 9.00 3.00 15,600 15,600 120 150 1.00 1.00 500".split(),
        "2 6.00 2.00 11.00 5.00 26,000 13,000 100 150 1.67 2.00 900".split(),
    ]


def test_text_is_one_sentence_a_line_and_whole_documents(tmp_path):
    source, path = tmp_path / "source.txt", tmp_path / "text.txt"
    source.write_text("One here. Two there.\nThree.\n\nFour.\n\nFive.\n")
    text = small_run.small_config("text.sentence_splitter=sentencex").text
    runner.write_text([str(source)], text, str(path), 30)
    assert path.read_text() == "One here.\nTwo there.\nThree.\n\nFour.\n\n"


def test_make_finds_a_benchmark_in_either_package():
    def make(*arguments):
        command = [str(shutil.which("make")), "--no-print-directory", *arguments]
        return subprocess.run(
            command, cwd=project_files.ROOT, capture_output=True, text=True
        )

    assert "-m data_prep.bench_data" in make("-n", "bench-data").stdout
    result = make("bench-nothing")
    assert result.returncode == 2
    assert result.stdout == ""
    assert "no benchmark nothing; there are" in result.stderr
    assert "data_prep/bench_data.py" in result.stderr


def test_a_run_that_fails_says_why(tmp_path):
    with pytest.raises(ValueError, match="demo_corpus failed: .*nowhere"):
        process_meter.run("demo_corpus", f"--output={tmp_path}/nowhere/corpus.txt")


def test_a_number_of_workers_must_be_one(capsys):
    error = binaries.error_of(capsys, bench_data, "--num_workers=1,two")
    assert error.endswith("must be whole numbers above 0, such as 1,2; received 1,two")
