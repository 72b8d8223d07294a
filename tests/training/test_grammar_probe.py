"""A run probes its model between steps, which changes nothing else."""

import json
import shutil

import numpy as np
import pytest

from albert_tf import pretrain
from albert_tf.core import config_io
from albert_tf.probing import probe, suites
from albert_tf.serving import token_scorer
from albert_tf.training import guard, metrics_log, pretraining
from tests.support import binaries, small_run
from tests.support import training_processes as processes

PLAIN = ("model.num_layers=1", "data.dupe_factor=1")


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory):
    return small_run.write_records(tmp_path_factory.mktemp("small"), *PLAIN)


@pytest.fixture(scope="module")
def suite(tmp_path_factory):
    path = tmp_path_factory.mktemp("suite") / "pairs.jsonl"
    words = ("river", "train", "lake", "church", "brother", "city", "county", "south")
    rows = [
        {
            "sentence_good": f"The {one} lies.",
            "sentence_bad": f"{one} lies the.",
            "group": group,
        }
        for group in ("order", "other")
        for one in (words if group == "order" else words[::-1])
    ]
    path.write_text("\n".join(map(json.dumps, rows)))
    return path


def settings(suite):
    return small_run.small_config(
        *PLAIN,
        "train.probe_every_steps=6",
        f"train.probe_suite={suite}",
        "train.probe_pairs=5",
    )


@pytest.fixture(scope="module")
def run(data_dir, suite, tmp_path_factory):
    folder = tmp_path_factory.mktemp("probed") / "run"
    pretraining.train(settings(suite), str(data_dir), str(folder))
    return folder


def probe_rows(folder):
    rows = metrics_log.read_metrics(str(folder))
    return {row["step"]: row for row in rows if row["split"] == "probe"}


def test_the_rows_are_those_of_the_checkpoints(run, suite):
    rows = probe_rows(run)
    assert list(rows) == [0, 6, 12]
    pairs = suites.read(str(suite), 5)
    assert len(pairs) == 10
    for step in (6, 12):
        loaded = token_scorer.load_scorer(str(run / f"model.ckpt-{step}"))
        found = probe.probe(loaded.scorer, pairs).accuracies
        assert rows[step]["accuracy"] == found.overall.accuracy
        assert rows[step]["accuracy/order"] == found.phenomena["order"].accuracy
        assert rows[step]["accuracy/other"] == found.phenomena["other"].accuracy
    assert list((run / "summaries" / "probe").glob("events*"))


def test_the_average_is_probed_where_the_run_keeps_one(
    data_dir, suite, tmp_path, monkeypatch
):
    probed = []
    original = probe.probe

    def record(*inputs):
        probed.append(original(*inputs))
        return probed[-1]

    monkeypatch.setattr(probe, "probe", record)
    config = config_io.override(settings(suite), ["train.ema_decay=0.7"])
    pretraining.train(config, str(data_dir), str(tmp_path / "run"))
    pairs = suites.read(str(suite), 5)
    average, trained = (
        original(
            token_scorer.load_scorer(str(tmp_path / "run"), weights=weights).scorer,
            pairs,
        )
        for weights in ("averaged", "trained")
    )
    found = probed[-1].good_scores
    np.testing.assert_allclose(found, average.good_scores, atol=1e-4)
    assert np.abs(found - trained.good_scores).max() > 1e-3


def test_training_is_that_without_a_probe(run, data_dir, tmp_path):
    plain = tmp_path / "run"
    pretraining.train(small_run.small_config(*PLAIN), str(data_dir), str(plain))
    expected, found = processes.variables(plain), processes.variables(run)
    assert processes.largest_difference(expected, found) == 0.0
    names = ("heldout", "train")
    kept = [row for row in processes.computed_rows(run) if row["split"] in names]
    assert kept == processes.computed_rows(plain)


def test_a_run_that_resumes_repeats_no_probe(
    run, data_dir, suite, tmp_path, monkeypatch
):
    stopped = shutil.copytree(run, tmp_path / "run")
    # As if it had been killed after the checkpoint of step 6.
    for file in stopped.glob("model.ckpt-12*"):
        file.unlink()
    (stopped / "checkpoint").write_text(
        'model_checkpoint_path: "model.ckpt-6"\n'
        'all_model_checkpoint_paths: "model.ckpt-6"\n'
    )
    probed = []
    original = probe.probe
    monkeypatch.setattr(
        probe, "probe", lambda *inputs: probed.append(1) or original(*inputs)
    )
    pretraining.train(settings(suite), str(data_dir), str(stopped))
    assert len(probed) == 1
    assert processes.computed_rows(stopped) == processes.computed_rows(run)
    expected, found = processes.variables(run), processes.variables(stopped)
    assert processes.largest_difference(expected, found) == 0.0


def test_a_branch_is_probed_before_its_first_step(run, data_dir, suite, tmp_path):
    config = config_io.override(settings(suite), ["train.probe_every_steps=8"])
    options = pretraining.PretrainingOptions(branch_from=f"{run}/model.ckpt-6")
    pretraining.train(config, str(data_dir), str(tmp_path / "branch"), options)
    rows = probe_rows(tmp_path / "branch")
    assert list(rows) == [6, 8, 12]
    assert rows[6]["accuracy"] == probe_rows(run)[6]["accuracy"]


def test_a_run_that_does_not_learn_is_probed_at_its_end(
    data_dir, suite, tmp_path, monkeypatch
):
    monkeypatch.setattr(
        guard,
        "find_alarm",
        lambda rows, *_: (
            guard.Alarm(4, "no progress") if rows[-1]["step"] >= 4 else None
        ),
    )
    given = ("train.on_no_progress=end", "train.probe_every_steps=8")
    given += ("train.eval_every_steps=4",)
    config = config_io.override(settings(suite), given)
    with pytest.raises(guard.NoProgressError):
        pretraining.train(config, str(data_dir), str(tmp_path))
    last = max(row["step"] for row in metrics_log.read_metrics(str(tmp_path)))
    assert max(probe_rows(tmp_path)) == last and last % 8


def test_settings_that_do_not_fit_are_refused(data_dir, tmp_path, capsys):
    for override in ("train.probe_every_steps=5", "train.probe_suite=blimp"):
        with pytest.raises(ValueError, match="must be set together"):
            config_io.load("", [override])
    both = "train.probe_every_steps=5", "train.probe_suite=blimp"
    with pytest.raises(ValueError, match="must be 0 in a recipe of fine-tuning"):
        config_io.load("", [*both, "task.name=mrpc", "train.best_metric="])
    overrides = (
        *small_run.OVERRIDES,
        "train.probe_every_steps=5",
        f"train.probe_suite={tmp_path / 'absent'}",
    )
    error = binaries.error_of(
        capsys,
        pretrain,
        *(f"--set={override}" for override in overrides),
        f"--data_dir={data_dir}",
        f"--model_dir={tmp_path / 'run'}",
    )
    assert "a suite must be the directory of BLiMP or Zorro" in error
