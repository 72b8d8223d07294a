"""Packed rows are timed beside rows of one sequence, on records of the same text."""

import json

import pytest

from albert_tf import bench_packing
from albert_tf.benchmarks import packing_benchmark, rounds
from albert_tf.core import config
from tests.support import binaries, small_run


def test_a_batch_has_as_many_positions_packed_or_not():
    recipes = packing_benchmark.recipes(config.Config(), 64, [1, 4], 1024)
    shapes = [(one.train.batch_size, one.data.row.length) for one in recipes]
    assert shapes == [(16, 64), (16, 64), (4, 256)]
    assert [one.data.pack_sequences for one in recipes] == [0, 1, 4]
    [one, _] = packing_benchmark.recipes(config.Config(), 1024, [1], 2048)
    assert (one.train.batch_size, one.model.max_positions) == (2, 1024)


@pytest.mark.slow
def test_tokens_without_padding_are_counted(tmp_path, monkeypatch, capsys):
    timed = rounds.time_steps

    def time_steps(steps, num_rounds, seconds):
        """Runs them, and says that those of packed rows are twice as fast."""
        assert timed(steps, num_rounds, seconds).keys() == {"0", "2"}
        return {
            "0": [rounds.StepTimes(2.0, 4.0), rounds.StepTimes(4.0, 8.0)],
            "2": [rounds.StepTimes(1.0, 2.0), rounds.StepTimes(2.0, 4.0)],
        }

    monkeypatch.setattr(rounds, "time_steps", time_steps)
    small_run.write_corpus(tmp_path / "text.txt", num_documents=200)
    path = tmp_path / "figures.json"
    binaries.run(
        bench_packing,
        "--config=",
        *(f"--set={override}" for override in small_run.OVERRIDES),
        f"--input={tmp_path}/*.txt",
        f"--vocab_model={small_run.VOCAB}",
        f"--work_dir={tmp_path / 'work'}",
        *("--lengths=24", "--packings=2", "--positions=384", "--rounds=2"),
        *("--turn_seconds=0.01", f"--json={path}"),
    )
    alone, packed = json.loads(path.read_text())
    assert (alone["batch_size"], alone["row_length"], alone["ratio"]) == (16, 24, 1.0)
    assert (packed["batch_size"], packed["row_length"]) == (8, 48)
    assert packed["padding_rate"] < alone["padding_rate"] - 0.05
    for one, seconds in ((alone, (2.0, 4.0)), (packed, (1.0, 2.0))):
        tokens = 384 * (1 - one["padding_rate"])
        expected = sum(tokens / each for each in seconds) / 2
        assert one["tokens_per_second"] == pytest.approx(expected, rel=1e-4)
    padding = [one["padding_rate"] for one in (packed, alone)]
    ratio = 2 * (1 - padding[0]) / (1 - padding[1])
    assert packed["ratio"] == pytest.approx(ratio, rel=1e-4)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in lines[2:4]] == [["24", "no"], ["24", "2"]]


@pytest.mark.parametrize("flag", ["--lengths=a", "--packings=0"])
def test_wrong_flags_are_refused(capsys, flag):
    assert "a multiple of each row, such as 2048; received 1000" in (
        binaries.error_of(capsys, bench_packing, "--positions=1000")
    )
    name = flag.partition("=")[0]
    error = binaries.error_of(capsys, bench_packing, flag)
    assert f"{name} must be numbers from 1 on" in error
