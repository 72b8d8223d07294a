"""An experiment of the ablations: training and all that it measures, by a request."""

import itertools
import json
import re
import subprocess
import sys
import time

import pytest

from albert_tf.core import binaries, config_io, strict_json
from albert_tf.reproduction import measuring
from albert_tf.training import metrics_log, pretraining
from tests.support import process_end, small_run, training_processes

SETTINGS = ("train.num_steps=8", "train.eval_every_steps=8", "train.eval_batches=2")


@pytest.fixture(scope="module")
def records(tmp_path_factory):
    folder = tmp_path_factory.mktemp("records")
    for kind in ("sop", "nsp"):
        made = small_run.write_records(folder / kind, f"data.pair_loss={kind}")
        made.rename(folder / f"main-{kind}")
    return folder


def request(records, run_dir, *settings, **more):
    config = small_run.small_config(
        *SETTINGS, "train.records={'main-sop': 1.0}", *settings
    )
    return {
        "config": config_io.to_dict(config),
        "records_dir": str(records),
        "run_dir": str(run_dir),
        "start": None,
        "evaluated_on": {},
        "blimp_dir": "",
        "blimp_pairs": 0,
        "tasks": {},
        "cache_dir": str(run_dir.parent / "features"),
        "cores": [],
        **more,
    }


NSP = ["data.pair_loss=nsp", "train.records={'main-nsp': 1.0}"]
SOP = ["data.pair_loss=sop", "train.records={'main-sop': 1.0}"]


def test_a_model_is_evaluated_on_records_of_both_kinds(records, tmp_path):
    found = measuring.measure(
        request(records, tmp_path / "run", evaluated_on={"sop": SOP, "nsp": NSP})
    )
    assert found["num_steps"] == 8
    (row,) = [
        row
        for row in metrics_log.read_metrics(str(tmp_path / "run"))
        if row["split"] == "heldout" and row["step"] == 8
    ]
    names = ("mlm_loss", "mlm_accuracy", "sentence_order_accuracy")
    for name in names:
        assert found[name] == row[name]
        # The same records, and the same weights, in a model that was built again.
        assert found[f"sop/{name}"] == pytest.approx(row[name], abs=1e-6)
    assert "nsp/next_sentence_accuracy" in found
    assert "nsp/sentence_order_accuracy" not in found
    assert found["nsp/mlm_loss"] != found["sop/mlm_loss"]


def test_the_same_request_again_gives_the_same_values(records, tmp_path):
    asked = request(records, tmp_path / "run", evaluated_on={"nsp": NSP})
    first = measuring.measure(asked)
    assert measuring.measure(asked) == first


def test_it_continues_another_run(records, tmp_path):
    measuring.measure(request(records, tmp_path / "first"))
    more = ("train.num_steps=12", "train.eval_every_steps=12")
    start = str(tmp_path / "first")
    measuring.measure(request(records, tmp_path / "branch", *more, start=start))
    assert strict_json.load(str(tmp_path / "branch" / "branch.json"))["step"] == 8


def test_steps_of_several_recipes_are_timed(records, tmp_path):
    configs = {}
    for name, hidden_size in (("one", 8), ("other", 16)):
        settings = (*SETTINGS, f"model.hidden_size={hidden_size}")
        configs[name] = request(records, tmp_path / name, *settings)["config"]
    asked = {
        "configs": configs,
        "records_dir": str(records),
        "run_dir": str(tmp_path / "timing"),
    }
    found = measuring.time_steps(asked)
    assert list(found) == ["one", "other"]
    for name, seconds in found.items():
        rows = metrics_log.read_metrics(str(tmp_path / "timing" / name))
        rows = [row for row in rows if row["split"] == "train"]
        assert rows[-1]["step"] == 20
        parts = [
            (after["seconds"] - before["seconds"]) / (after["step"] - before["step"])
            for before, after in itertools.pairwise(rows)
        ]
        assert seconds == min(parts) > 0
    # What an earlier call left, perhaps of other settings and interrupted, has no part.
    del configs["other"]
    configs["one"]["train"]["batch_size"] *= 2
    assert list(measuring.time_steps(asked)) == ["one"]
    rows = metrics_log.read_metrics(str(tmp_path / "timing" / "one"))
    assert {row["begun_at"] for row in rows} == {0}
    assert rows[-1]["step"] == 20


# Starts the process of a request, and prints its id.
PARENT = """
import os, subprocess, sys
module = "albert_tf.reproduction.experiment_process"
words = sys.executable, "-m", module, sys.argv[1], str(os.getpid())
child = subprocess.Popen(words)
print(child.pid, flush=True)
child.wait()
"""


@pytest.mark.slow
def test_it_saves_and_ends_once_its_parent_is_killed(records, tmp_path):
    steps = ("train.num_steps=1000000", "train.save_every_steps=1000000")
    asked = request(records, tmp_path / "run", *steps)
    path = tmp_path / "request.json"
    path.write_text(json.dumps(asked))
    with (tmp_path / "output").open("wb") as output:
        parent = subprocess.Popen(
            [sys.executable, "-c", PARENT, str(path)],
            stdout=subprocess.PIPE,
            stderr=output,
            env=binaries.environment(),
        )
    child = int(parent.stdout.readline())
    deadline = time.monotonic() + training_processes.TIMEOUT
    while not _num_train_rows(tmp_path / "run"):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    parent.kill()
    parent.wait()
    parent.stdout.close()
    process_end.wait_for_end(child)
    # Asked to end, it saved.
    assert list((tmp_path / "run").glob("model.ckpt-*.index"))
    assert not re.search(r"^[IWE]\d{4} ", (tmp_path / "output").read_text(), re.M)


def _num_train_rows(run_dir):
    if not (run_dir / "metrics.jsonl").exists():
        return 0
    rows = metrics_log.read_metrics(str(run_dir))
    return sum(row["split"] == "train" for row in rows)


def test_evaluating_without_a_checkpoint_is_an_error(records, tmp_path):
    config = config_io.from_dict(request(records, tmp_path / "run")["config"])
    with pytest.raises(ValueError, match="must have a checkpoint; it has none"):
        pretraining.evaluate(config, str(records), str(tmp_path / "run"))
