"""An experiment's process: training, and all that it measures, from a request."""

import pytest

from albert_tf.core import config_io, strict_json
from albert_tf.reproduction import experiment_process
from albert_tf.training import metrics_log, pretraining
from tests.support import small_run

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
        "start_as": "weights",
        "seconds": 0.0,
        "evaluated_on": {},
        "blimp_dir": "",
        "blimp_pairs": 0,
        "tasks": {},
        "cache_dir": str(run_dir.parent / "features"),
        **more,
    }


NSP = ["data.pair_loss=nsp", "train.records={'main-nsp': 1.0}"]
SOP = ["data.pair_loss=sop", "train.records={'main-sop': 1.0}"]


def test_a_model_is_evaluated_on_records_of_both_kinds(records, tmp_path):
    found = experiment_process.measure(
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
    first = experiment_process.measure(asked)
    assert experiment_process.measure(asked) == first


def test_it_starts_from_another_run(records, tmp_path):
    experiment_process.measure(request(records, tmp_path / "first"))
    start = {"start": str(tmp_path / "first")}
    more = ("train.num_steps=12", "train.eval_every_steps=12")
    experiment_process.measure(
        request(records, tmp_path / "branch", *more, **start, start_as="branch")
    )
    assert strict_json.load(str(tmp_path / "branch" / "branch.json"))["step"] == 8
    experiment_process.measure(
        request(
            records,
            tmp_path / "again",
            "train.records={'main-nsp': 1.0}",
            "data.pair_loss=nsp",
            **start,
        )
    )
    losses = [
        row["mlm_loss"]
        for folder in ("first", "again")
        for row in metrics_log.read_metrics(str(tmp_path / folder))
        if row["split"] == "heldout"
    ]
    # Before its first step it has the other run's weights, but other records.
    assert losses[2] < losses[0] and abs(losses[2] - losses[1]) < 0.2


def test_the_number_of_steps_that_fit_into_a_time_is_kept(
    records, tmp_path, monkeypatch
):
    monkeypatch.setattr(metrics_log, "step_seconds", lambda folder: 0.125)
    asked = request(records, tmp_path / "run", seconds=2.5)
    assert experiment_process.measure(asked)["num_steps"] == 20
    rows = metrics_log.read_metrics(str(tmp_path / "run"))
    assert rows[-1]["step"] == 20
    # A machine that has become slower changes nothing.
    monkeypatch.setattr(metrics_log, "step_seconds", lambda folder: 1.0)
    assert experiment_process.measure(asked)["num_steps"] == 20


def test_evaluating_without_a_checkpoint_is_an_error(records, tmp_path):
    config = config_io.from_dict(request(records, tmp_path / "run")["config"])
    with pytest.raises(ValueError, match="must have a checkpoint; it has none"):
        pretraining.evaluate(config, str(records), str(tmp_path / "run"))
