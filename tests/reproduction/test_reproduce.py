"""The binary with its smallest budget, from text to tables, as CI runs it."""

import json
import os
import random
import re
import shutil
import subprocess
import sys
import time

import pytest

from albert_tf import reproduce
from albert_tf.core import binaries as processes
from albert_tf.reproduction import runner
from tests.support import binaries, training_processes


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    """A file of documents, each about its own few words, so that NSP can be learnt."""
    rng = random.Random(7)
    vocabulary = [
        "".join(rng.choice("abcdefghijklmnoprstuvw") for _ in range(rng.randint(2, 8)))
        for _ in range(800)
    ]
    documents = []
    for _ in range(150):
        own = rng.sample(vocabulary, 25)
        sentences = [
            " ".join(rng.choices(own, k=rng.randint(5, 14))).capitalize() + "."
            for _ in range(rng.randint(6, 14))
        ]
        documents.append("\n".join(sentences))
    path = tmp_path_factory.mktemp("text") / "text.txt"
    path.write_text("\n\n".join(documents) + "\n", encoding="utf-8")
    return path


@pytest.mark.slow
def test_the_smallest_budget_ends_in_a_table_and_trains_nothing_twice(
    text, tmp_path, capfd
):
    flags = ("--table=pair_loss", f"--input={text}", f"--output_dir={tmp_path / 'out'}")
    binaries.run(reproduce, *flags)
    printed = capfd.readouterr().out
    assert re.findall(r"^\[\d/3\] (\S+), seed 1$", printed, re.M) == [
        *("pair-none", "pair-nsp", "pair-sop")
    ]
    results = json.loads((tmp_path / "out" / "results.json").read_text())
    (table,) = results["tables"]
    for row in table["rows"]:
        values = row["values"]
        assert set(values) == {
            *("mlm_accuracy", "nsp/next_sentence_accuracy"),
            "sop/sentence_order_accuracy",
        }
        assert all(0 <= one["mean"] <= 1 for one in values.values())
    page = (tmp_path / "out" / "index.html").read_text()
    assert "The tables of the ALBERT paper" in page and "sentence order" in page
    markdown = (tmp_path / "out" / "tables.md").read_text()
    # One seed decides nothing.
    assert "| Loss of the pair (table 5) | 0 | " in markdown.partition("###")[0]
    assert "| sentence order |" in markdown

    binaries.run(reproduce, *flags)
    again = capfd.readouterr().out
    assert "seed 1" not in again
    assert again.strip().splitlines() == printed.strip().splitlines()[-7:]
    assert "budget smoke: its figures say nothing" in again
    assert "This budget shows that everything runs" in page
    assert json.loads((tmp_path / "out" / "results.json").read_text()) == results


@pytest.fixture
def judged(tmp_path):
    """Directories of BLiMP and GLUE, as flags; each has a few sentences."""
    (tmp_path / "blimp" / "data").mkdir(parents=True)
    pairs = [("A b.", "B a."), ("C d.", "D c."), ("The e f.", "E the f.")]
    rows = [
        {"sentence_good": good, "sentence_bad": bad, "UID": f"paradigm_{number}"}
        for number, (good, bad) in enumerate(pairs)
    ]
    for number, row in enumerate(rows):
        row |= {"linguistics_term": "islands", "pairID": "0"}
        path = tmp_path / "blimp" / "data" / f"{number}.jsonl"
        path.write_text(json.dumps(row) + "\n")
    task = tmp_path / "glue" / "SST-2"
    task.mkdir(parents=True)
    for split, count in (("train", 40), ("dev", 10)):
        lines = [f"film {'bad good'.split()[n % 2]} {n}\t{n % 2}" for n in range(count)]
        (task / f"{split}.tsv").write_text("\n".join(["sentence\tlabel", *lines, ""]))
    (task / "test.tsv").write_text("index\tsentence\n0\ta film\n")
    return f"--blimp_dir={tmp_path}/blimp", f"--glue_dir={tmp_path}/glue"


def _kill_when_there_is(path, *flags):
    """Starts the command, and kills it, not what it started, once a file is there."""
    words = [sys.executable, "-m", "albert_tf.reproduce", *flags]
    with open(os.devnull, "wb") as output:
        started = subprocess.Popen(
            words, stdout=output, stderr=output, env=processes.environment()
        )
    deadline = time.monotonic() + training_processes.TIMEOUT
    try:
        while not path.exists():
            assert started.poll() is None and time.monotonic() < deadline
            time.sleep(0.05)
    finally:
        started.kill()
        started.wait()


@pytest.mark.slow
def test_a_command_that_is_killed_twice_ends_in_the_same_figures(
    text, judged, tmp_path, capfd
):
    flags = ("--table=dropout", f"--input={text}", *judged)
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    binaries.run(reproduce, *flags, f"--output_dir={whole}")
    measures = (whole / "measures.json").read_text()
    of_seed = json.loads(measures)["dropout-without"]["seeds"]["1"]
    assert {"mlm_accuracy", "mlm_loss", "blimp", "sst2"} <= set(of_seed)
    # All that the trainings start from.
    shutil.copytree(
        whole, killed, ignore=lambda *_: ["runs", "features", "measures.json"]
    )
    flags = (*flags, f"--output_dir={killed}")
    runs = killed / "runs" / "seed-1"
    _kill_when_there_is(runs / "dropout-start" / "metrics.jsonl", *flags)
    assert not (killed / "measures.json").exists()
    _kill_when_there_is(runs / "dropout-without-sst2" / "config.json", *flags)
    assert list(json.loads((killed / "measures.json").read_text())) == ["dropout-with"]
    capfd.readouterr()
    binaries.run(reproduce, *flags)
    assert re.findall(r"^\[\d/\d\] (\S+), seed 1$", capfd.readouterr().out, re.M) == [
        *("dropout-start", "dropout-without")
    ]
    assert (killed / "measures.json").read_text() == measures


def test_the_tables_are_written_from_what_was_measured(tmp_path, capsys):
    measured = {"e16-h32-l3-all": {"digest": "", "seeds": {"1": {"mlm_loss": 5.25}}}}
    (tmp_path / "measures.json").write_text(json.dumps(measured))
    binaries.run(
        reproduce,
        *("--table=width", "--budget=hour", "--notrain"),
        *(f"--measures={tmp_path}/measures.json", f"--output_dir={tmp_path}/out"),
    )
    printed = capsys.readouterr().out
    assert "missing: 11 trainings, of width" in printed
    markdown = (tmp_path / "out" / "tables.md").read_text()
    assert "Missing: 11 trainings." in markdown
    page = (tmp_path / "out" / "index.html").read_text()
    assert "Missing: 11 trainings of this table." in page
    assert re.search(r"H 32 \(paper: 1024\) .* 5\.250$", printed, re.M)
    assert not (tmp_path / "out" / "runs").exists()


@pytest.mark.parametrize(
    ("name", "budget", "message"),
    [
        # Those of smoke's steps.
        ("e16-h32-l3-all", "hour", "has figures of e16-h32-l3-all after 8 steps; the "),
        ("e16-h32-l3-all", "smoke", "must have figures of the tables; it has none"),
        ("", "hour", "must be a file of what was measured; it does not exist"),
    ],
)
def test_what_was_measured_with_other_settings_is_not_shown(
    name, budget, message, tmp_path, capsys
):
    measured = {name: {"digest": "", "seeds": {"1": {"num_steps": 8}}}} if name else {}
    path = tmp_path / "measures.json"
    if name:
        path.write_text(json.dumps(measured))
    flags = ("--table=width", f"--budget={budget}", "--notrain")
    error = binaries.error_of(
        capsys, reproduce, *flags, f"--measures={path}", f"--output_dir={tmp_path}/out"
    )
    assert error.startswith(f"{path} {message}")
    assert not (tmp_path / "out").exists()


def test_more_trainings_than_cores_are_an_error(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    # It would train otherwise.
    monkeypatch.setattr(runner.Runner, "run", lambda _: [])
    flags = ("--table=dropout", f"--output_dir={tmp_path}", "--num_parallel=3")
    error = binaries.error_of(capsys, reproduce, *flags)
    assert error.endswith("cores that this process may use, 2; received 3")


def test_tables_are_written_before_a_failure_is_named(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(runner.Runner, "run", lambda _: ["dropout-with (seed 1)"])
    flags = ("--table=dropout", f"--output_dir={tmp_path}")
    error = binaries.error_of(capsys, reproduce, *flags)
    assert error.startswith("dropout-with (seed 1): failed, with the reasons above.")
    assert "dropout removed late" in (tmp_path / "tables.md").read_text()
