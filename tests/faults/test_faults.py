"""The short form of the fault suite, its runner, and the page with its results."""

import collections
import json
import os
import random
import subprocess
import sys

import pytest

from tests.faults import bench, damage, experiment, parsers, run, table
from tests.faults import fuzz as fuzz_lib
from tests.support import gcs_server


@pytest.mark.slow
def test_in_the_short_form_nothing_is_lost(tmp_path):
    """A few faults of each experiment that takes seconds.

    Runs of training that are killed and resumed have tests of their own.
    """
    environment = {
        name: value for name, value in os.environ.items() if name != "TMPDIR"
    }
    results = tmp_path / "results.json"
    ended = subprocess.run(
        [
            *(sys.executable, "-m", "tests.faults.run", "--short"),
            *(f"--results={results}", f"--folder={tmp_path / 'bench'}"),
        ],
        env=environment,
        capture_output=True,
        text=True,
        timeout=1500,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr[-3000:]
    found = json.loads(results.read_text())
    assert {name for name, values in found.items() if values["failures"]} == set()
    wanted = {one.name for one in run.EXPERIMENTS if one.num_short}
    assert set(found) <= wanted and len(found) > 8
    for values in found.values():
        counts = sum(values["outcomes"].values())
        assert counts == values["num_faults"] >= values["wanted"]


# ---- The runner ----


@pytest.mark.parametrize(
    ("wanted", "seed", "num_faults", "failures", "expected"),
    [
        (5, 1, 5, [], True),
        (5, 1, 65, [], True),
        (5, 1, 2, [], False),  # fewer than wanted were injected
        (5, 1, 5, ["lost"], False),
        (6, 1, 6, [], False),
        (5, 2, 5, [], False),
    ],
)
def test_an_experiment_is_repeated_unless_it_is_whole(
    wanted, seed, num_faults, failures, expected
):
    before = {
        "wanted": 5,
        "seed": 1,
        "num_faults": num_faults,
        "failures": failures,
    }
    assert run._is_done(before, wanted, seed) == expected


def _experiment(outcome: str) -> experiment.Experiment:
    def disturb(_, num_faults, rng):
        tally = experiment.Tally(num_runs=3, num_faults=num_faults)
        tally.notes.append(f"{rng.random():.3f}")
        if outcome == experiment.FAILED:
            tally.fail("lost")
        else:
            tally.add(outcome, num_faults)
        return tally

    return experiment.Experiment("a", "subject", "fault", "then", 5, 2, disturb)


def _main(monkeypatch, tmp_path, chosen, *arguments) -> tuple[int, dict]:
    monkeypatch.setattr(run, "EXPERIMENTS", (chosen,))
    monkeypatch.setattr(run, "_with_own_mounts", lambda: None)
    monkeypatch.setattr(sys, "argv", ["run", f"--results={tmp_path}/r", *arguments])
    monkeypatch.setenv("TMPDIR", os.environ.get("TMPDIR", "/tmp"))
    code = run.main()
    return code, json.loads((tmp_path / "r").read_text())["a"]


def test_what_is_done_is_not_done_again_and_the_seed_decides(
    monkeypatch, tmp_path, capsys
):
    one = _experiment(experiment.SAME)
    code, first = _main(monkeypatch, tmp_path, one)
    assert (code, first["num_faults"], first["seed"]) == (0, 5, 1)
    assert "a (seed 1): 5 faults" in capsys.readouterr().out
    _main(monkeypatch, tmp_path, one)
    assert "a (seed" not in capsys.readouterr().out
    _, again = _main(monkeypatch, tmp_path, one, "--again")
    assert again["notes"] == first["notes"]
    _, other = _main(monkeypatch, tmp_path, one, "--seed=2")
    assert other["notes"] != first["notes"]


def test_a_failure_is_kept_said_and_tried_again(monkeypatch, tmp_path, capsys):
    one = _experiment(experiment.FAILED)
    for _ in range(2):
        code, found = _main(monkeypatch, tmp_path, one, "--short")
        assert (code, found["failures"]) == (1, ["lost"])
        assert "FAILED: lost" in capsys.readouterr().out


# ---- What is counted as a failure ----


def test_an_end_is_a_refusal_with_one_line_and_no_traceback():
    assert bench.Ended(1, "x\nerror: no space\n").is_refusal
    assert bench.Ended(75, "error: away").is_refusal
    assert not bench.Ended(1, "Traceback (most recent\nerror: x\n").is_refusal
    assert not bench.Ended(-9, "error: x").is_refusal
    assert not bench.Ended(1, "ValueError: x").is_refusal


def _format(read, may_differ="") -> damage.Format:
    def make(folder, seed):
        (folder / "a").write_bytes(bytes([seed]) * 100)

    return damage.Format("a", make, read, may_differ=may_differ)


class _Bench:
    def __init__(self, folder):
        self._folder = folder

    def new_path(self, name):
        return self._folder / name


def _harm(tmp_path, one) -> experiment.Tally:
    return damage.harm(lambda: [one])(_Bench(tmp_path), 20, random.Random(1))


def test_damage_that_is_read_in_silence_is_a_failure(tmp_path):
    tally = _harm(tmp_path, _format(lambda folder: (folder / "a").read_bytes()))
    assert tally.outcomes == {experiment.FAILED: 20} and len(tally.failures) == 20
    assert "read as something else" in tally.failures[0]


def test_damage_of_a_format_without_checksums_is_counted_as_unseen(tmp_path):
    one = _format(lambda folder: (folder / "a").read_bytes(), "no checksum")
    tally = _harm(tmp_path, one)
    assert tally.outcomes == {experiment.UNSEEN: 20}
    assert tally.notes == ["a: 20 unseen: no checksum"]


def _read_fixed(folder):
    if (folder / "a").read_bytes() != b"\1" * 100:
        raise ValueError(f"{folder}/a is damaged")
    return 3


def test_damage_that_is_named_is_no_failure_and_without_a_name_it_is(tmp_path):
    assert _harm(tmp_path / "named", _format(_read_fixed)).outcomes == {
        experiment.NAMED: 20
    }

    def read(folder):
        try:
            return _read_fixed(folder)
        except ValueError:
            raise ValueError("damaged") from None

    tally = _harm(tmp_path / "unnamed", _format(read))
    assert tally.outcomes == {experiment.FAILED: 20}


@pytest.mark.parametrize("kind", damage.KINDS)
def test_damage_changes_the_content(kind):
    content, twin = bytes(range(1, 256)) * 4, b"another"
    rng = random.Random(5)
    for _ in range(50):
        assert damage.damaged(kind, content, twin, rng) != content


def _fed(tmp_path, read, names_file=False) -> experiment.Tally:
    parser = parsers.Parser("p", read, b'{"a": 1}', names_file)
    return fuzz_lib.run_parser(parser, tmp_path / "fuzz", 30, random.Random(2))


def _fail_with(error):
    def read(_, content):
        if content != b'{"a": 1}':
            raise error

    return read


def test_a_parser_may_refuse_in_a_line_and_nothing_else(tmp_path):
    cases = (
        (ValueError("not a number"), False),
        (KeyError("a"), True),
        (ValueError("two\nlines"), True),
        (ValueError("x" * 5000), True),
    )
    for error, fails in cases:
        tally = _fed(tmp_path, _fail_with(error))
        assert tally.num_faults == 30
        assert (tally.outcomes[experiment.FAILED] > 0) == fails, error
    named = _fed(tmp_path, _fail_with(ValueError("nameless")), names_file=True)
    assert "does not name the file" in named.failures[0]


def test_a_parser_that_hangs_is_stopped(tmp_path, monkeypatch):
    monkeypatch.setattr(fuzz_lib, "MAX_SECONDS", 0.05)

    def read(_, content):
        while content != b'{"a": 1}':
            pass

    tally = _fed(tmp_path, read)
    assert "no answer" in tally.failures[0]


@pytest.mark.parametrize("group", list(parsers.GROUPS))
def test_parsers_take_the_content_that_is_damaged(tmp_path, group):
    for one in parsers.GROUPS[group](tmp_path / "valid"):
        folder = tmp_path / one.name.replace("/", " ")
        folder.mkdir()
        if one.is_taken:
            one.read(folder, one.valid)


def test_each_cut_is_also_an_input_by_itself():
    cuts = [(0.0, b"x", 0), (1.0, b"y", 0)]
    assert list(fuzz_lib.inputs(b"ab", cuts)) == [b"xaby", b"xab", b"aby"]
    assert list(fuzz_lib.inputs(b"ab", cuts[:1])) == [b"xab"]


def test_what_is_left_of_an_outage_meets_the_next_command():
    outage = {"match": "b", "fault": "503", "seconds": 100}
    faults = gcs_server.Faults(rules=(outage,))
    assert faults.draw("GET a", False) is None
    assert faults.outages() == []
    assert [faults.draw(f"GET {name}", False) for name in "ba"] == ["503", "503"]
    (left,) = faults.outages()
    assert 90 < left["seconds"] <= 100
    assert gcs_server.Faults(rules=(left,)).draw("GET a", False) == "503"


# ---- The page ----


def test_the_page_has_the_results():
    page, found = table.PAGE.read_text(), json.loads(table.RESULTS.read_text())
    assert page == table.render(page, found), "run python -m tests.faults.table"
    assert set(found) <= {one.name for one in run.EXPERIMENTS}


def test_a_table_has_counts_outcomes_and_limits(monkeypatch):
    monkeypatch.setattr(run, "EXPERIMENTS", (_experiment(experiment.SAME),))
    outcomes = collections.Counter({"same result": 1200, "unseen": 34})
    notes = ["f: 34 unseen: no checksum"]
    found = {
        "a": {"num_faults": 1234, "num_runs": 3, "outcomes": outcomes, "notes": notes}
    }
    text = table.tables(found)
    row = "| subject | fault | then | 1,234 | 1,200 same result, 34 unseen |"
    assert row in text.splitlines()
    assert "Together 1,234 faults in 3 runs and readings; 0 failed." in text
    assert "- f: 34 unseen: no checksum" in text
