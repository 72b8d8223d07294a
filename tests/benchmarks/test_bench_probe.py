"""The speed of a grammar probe is extrapolated from its batches."""

import json

import pytest

from albert_tf import bench_probe
from albert_tf.benchmarks import probe_benchmark
from tests.support import binaries, small_run


def test_the_time_of_blimp_follows_from_its_rows(monkeypatch):
    monkeypatch.setattr(probe_benchmark, "BLIMP_ROWS", {5: 100, 7: 1000})
    found = probe_benchmark.extrapolate(
        "float32", 64, {5: (0.06, 0.03), 7: (0.114, 0.237)}
    )
    # 6 s and 114 s: 2 minutes for 500 + 7,000 tokens.
    assert found.blimp_minutes == pytest.approx(2.0)
    assert found.core_minutes == pytest.approx(4.0)
    assert found.tokens_per_second == pytest.approx(62.5)
    assert found.sentences_per_second == pytest.approx(134_000 / 120)
    rows = probe_benchmark.to_rows([found])
    assert rows[1] == ["float32", "64", "62", "1,117", "2.0", "10.0", "4.0"]


def test_the_table_of_lengths_has_the_sums_that_docs_name():
    """134,000 sentences of 13 tokens have 1.7 million rows, few of them equal."""
    rows = probe_benchmark.BLIMP_ROWS
    assert min(rows) == 5 and max(rows) == 48
    assert sum(rows.values()) == 1_710_793
    assert sum(length * number for length, number in rows.items()) == 29_411_639


def test_every_length_is_timed(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(probe_benchmark, "BLIMP_ROWS", {5: 3, 9: 2, 40: 1})
    overrides = [f"--set={override}" for override in small_run.OVERRIDES]
    path = tmp_path / "figures.json"
    arguments = ("--dtypes=float32", "--batch_tokens=18,60", "--rounds=1")
    binaries.run(bench_probe, "--config=", *overrides, *arguments, f"--json={path}")
    found = json.loads(path.read_text())
    assert [one["batch_tokens"] for one in found] == [18, 60]
    assert all(one["blimp_minutes"] > 0 for one in found)
    output = capsys.readouterr().out
    # The model has 32 positions only.
    assert "BLiMP has 1 row of more than 32 tokens" in output
    assert (
        len([line for line in output.splitlines() if line.startswith("float32")]) == 2
    )


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        ("--batch_tokens=0", "--batch_tokens must be numbers from 1 on"),
        ("--dtypes=float16", "--dtypes must be some of float32, bfloat16"),
    ],
)
def test_wrong_flags_are_refused(capsys, flag, message):
    assert message in binaries.error_of(capsys, bench_probe, flag)
