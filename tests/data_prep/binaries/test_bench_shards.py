"""The simulated corpora: their sizes, and that merging bounds what is read."""

import json

from data_prep import bench_shards
from data_prep.benchmarks import simulated_blocks
from data_prep.pipeline import record_file, work_dir
from tests.support import binaries, small_run


def costs_of(folder, *flags):
    small_run.write_corpus(folder / "text.txt", num_documents=400)
    binaries.run(
        bench_shards,
        "--config=",
        *(f"--set={override}" for override in small_run.OVERRIDES),
        *(f"--input={folder}/text.txt", f"--vocab_model={small_run.VOCAB}"),
        *(f"--work_dir={folder}", "--kilobytes=16", f"--json={folder}/costs.json"),
        *flags,
    )
    return json.loads((folder / "costs.json").read_text())


def test_each_corpus_has_all_records_of_its_blocks(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(simulated_blocks, "_HELDOUT_RATE", 0.2)
    few, many = costs_of(tmp_path, "--blocks=6,60", "--blocks_per_run=20")
    assert (few["num_blocks"], few["num_runs"]) == (6, 0)
    assert (many["num_blocks"], many["num_runs"]) == (60, 3)
    assert many["num_records"] == 10 * few["num_records"] > 0
    # The table is printed again after each corpus.
    costs = [simulated_blocks.Cost(**one) for one in (few, many)]
    _, *cells = simulated_blocks.table(costs)
    printed = capsys.readouterr().out.splitlines()[-2:]
    assert [line.split() for line in printed] == cells
    # Constants are as before.
    assert record_file.CHUNK_BYTES == 256 << 10
    assert work_dir.PIECE_BYTES == 64 << 20


def test_a_row_has_the_cost_of_a_record_relative_to_the_first():
    few = simulated_blocks.Cost(500, 0, 2000, 4, 0.5, 1.5, 300_000_000, 7)
    many = simulated_blocks.Cost(20_000, 3, 80_000, 160, 20.0, 100.0, 1_250_000_000, 9)
    _, *rows = simulated_blocks.table([few, many])
    assert [" ".join(row) for row in rows] == [
        "500 0 2,000 4 0.5 1.5 1000.00 1.00 300 7",
        "20,000 3 80,000 160 20.0 100.0 1500.00 1.50 1,250 9",
    ]


def test_nothing_is_merged_with_0(tmp_path):
    (cost,) = costs_of(tmp_path, "--blocks=300", "--blocks_per_run=0")
    assert cost["num_runs"] == 0


def test_a_text_that_is_too_short_is_an_error(tmp_path, capsys):
    small_run.write_corpus(tmp_path / "text.txt", num_documents=3)
    error = binaries.error_of(
        capsys,
        bench_shards,
        "--config=",
        *(f"--set={override}" for override in small_run.OVERRIDES),
        *(f"--input={tmp_path}/text.txt", f"--vocab_model={small_run.VOCAB}"),
    )
    assert error.startswith("--input must give 262,144 bytes of records; it gives ")
