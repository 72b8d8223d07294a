"""Runs in stages: other batches after a boundary, one log, resumed exactly."""

import json
import shutil

import numpy as np
import pytest

from albert_tf.checkpoints import checkpointer, run_dir
from albert_tf.core import config, config_io, stages
from albert_tf.data import schema, sources
from albert_tf.model import costs
from albert_tf.training import metrics_log, pretraining
from tests.support import counting_run, small_run
from tests.support import training_processes as processes

# Two lengths, batches, rates of masks and learning rates; everything random is on.
SETTINGS = (
    "model.num_layers=1",
    "model.hidden_dropout_rate=0.1",
    "data.masking=dynamic",
    "data.dupe_factor=1",
    "train.num_steps=9",
    "train.save_every_steps=3",
    "train.keep_checkpoints=9",
    "train.records=24/records=3,other/records",
    "train.stages=[{'num_steps': 5}, {'num_steps': 4, 'batch_size': 4,"
    " 'max_seq_length': 32, 'records': '32/records', 'masked_lm_rate': 0.3,"
    " 'learning_rate_factor': 0.5}]",
)


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory):
    folder = tmp_path_factory.mktemp("small")
    dynamic = ("data.masking=dynamic", "data.dupe_factor=1")
    small_run.write_records(folder / "24", *dynamic)
    small_run.write_records(folder / "other", "data.seed=7", *dynamic)
    small_run.write_records(folder / "32", "data.max_seq_length=32", *dynamic)
    return folder


def _train(data_dir, model_dir, *overrides):
    return pretraining.train(
        small_run.small_config(*SETTINGS, *overrides), str(data_dir), str(model_dir)
    )


@pytest.fixture(scope="module")
def whole(data_dir, tmp_path_factory):
    """A run that no test changes, and its last metrics."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    return folder, _train(data_dir, folder)


def _rows(run, split):
    return [r for r in metrics_log.read_metrics(str(run)) if r["split"] == split]


def test_rows_say_their_stage_and_none_mixes_two(whole):
    train, heldout = _rows(whole[0], "train"), _rows(whole[0], "heldout")
    assert [(row["step"], row["stage"]) for row in train] == [
        *((step, 1) for step in (3, 4, 5)),
        *((step, 2) for step in (6, 8, 9)),
    ]
    # The end of a stage is evaluated on its own records.
    assert [(row["step"], row["stage"]) for row in heldout] == [
        *((step, 1) for step in (0, 5)),
        *((step, 2) for step in (6, 9)),
    ]
    shares = [row["masked_share"] for row in train]
    assert max(shares[:3]) < 0.2 < 0.25 < min(shares[3:])
    assert {k: heldout[-1][k] for k in whole[1]} == whole[1]
    for row in train:
        stage = stages.split(small_run.small_config(*SETTINGS))[row["stage"] - 1]
        flops = costs.recipe_costs(stage.config).step_flops
        found = row["model_flops_per_second"] / row["steps_per_second"]
        assert found == pytest.approx(flops.forward + flops.backward)


def test_the_learning_rate_has_the_factor_of_its_stage(whole):
    rates = {row["step"]: row["learning_rate"] for row in _rows(whole[0], "train")}
    # From 0.02 at the start, linearly to 0 at step 9; a row has that of its last step.
    for step, rate in rates.items():
        factor = 1.0 if step <= 5 else 0.5
        assert rate == pytest.approx(factor * 0.02 * (1 - (step - 1) / 9), rel=1e-5)


def test_each_source_of_a_mixture_is_evaluated_under_its_name(whole):
    first, *_, last = _rows(whole[0], "heldout")
    names = ("24/records", "other/records")
    for metric in ("mlm_loss", "mlm_accuracy", "sentence_order_loss"):
        parts = [first[f"{metric}/{name}"] for name in names]
        assert min(parts) <= first[metric] <= max(parts)
    assert first["mlm_loss/24/records"] != first["mlm_loss/other/records"]
    assert not any("/" in name for name in last)


def test_a_run_keeps_what_it_read(whole, data_dir):
    read = config_io.read(str(whole[0] / schema.CONFIG_FILE))
    assert read == small_run.small_config(*SETTINGS)
    manifests = json.loads((whole[0] / schema.MANIFESTS_FILE).read_text())
    assert list(manifests) == ["24/records", "other/records", "32/records"]
    path = data_dir / "32" / "records" / schema.MANIFEST_FILE
    assert manifests["32/records"] == json.loads(path.read_text())
    assert not (whole[0] / schema.MANIFEST_FILE).exists()


@pytest.mark.parametrize("step", [3, 5, 6])
def test_a_run_killed_before_at_or_after_a_boundary_resumes_exactly(
    data_dir, whole, tmp_path, step, capsys
):
    run = tmp_path / "run"
    shutil.copytree(whole[0], run)
    # As if it had been killed after the checkpoint of `step`.
    for later in {5, 6, 9} - set(range(step + 1)):
        for file in run.glob(f"model.ckpt-{later}.*"):
            file.unlink()
    (run / schema.CHECKPOINT_FILE).write_text(
        f'model_checkpoint_path: "model.ckpt-{step}"\n'
    )
    assert _train(data_dir, run) == whole[1]
    expected, found = processes.variables(whole[0]), processes.variables(run)
    assert len(expected) > 60 and expected.keys() == found.keys()
    for name, value in expected.items():
        np.testing.assert_array_equal(value, found[name], err_msg=name)
    assert processes.computed_rows(run) == processes.computed_rows(whole[0])
    best = [(folder / checkpointer.BEST_FILE).read_text() for folder in (run, whole[0])]
    assert best[0] == best[1] and json.loads(best[0])["step"] in (6, 9)
    said = capsys.readouterr().err
    second = "stage 2 of 2: 4 steps of 4 sequences of 32 tokens from 32/records"
    assert said.count(second) == 1


@pytest.mark.slow
def test_two_devices_and_streams_take_the_stages_of_one(data_dir, tmp_path):
    settings = (
        *SETTINGS,
        "train.num_streams=2",
        "model.hidden_dropout_rate=0",
        "train.stages.2.accumulation_steps=2",
    )
    devices = ("--strategy=mirrored", "--num_cpu_devices=2")
    for name, flags in (("one", ()), ("two", devices)):
        words = processes.command(data_dir, tmp_path / name, settings, *flags)
        with processes.running([words], tmp_path / "log") as started:
            assert processes.exit_codes(started) == [0]
    one, two = (processes.computed_rows(tmp_path / name) for name in ("one", "two"))
    for row, other in zip(one, two, strict=True):
        assert row.keys() == other.keys()
        for name in {"step", "stage", "mlm_loss", "mlm_accuracy"} & row.keys():
            assert row[name] == pytest.approx(other[name], abs=1e-5), (row, name)


# ---- Between steps, with a fake loop ----

_STAGES = (config.StageConfig(num_steps=7), config.StageConfig(num_steps=13))


def test_a_loop_ends_with_a_stage_and_the_best_is_of_the_last_one(tmp_path):
    losses = {0: 9.0, 5: 1.0, 7: 2.0, 10: 8.0, 15: 6.0, 20: 7.0}
    held_out = {step: {"mlm_loss": loss} for step, loss in losses.items()}
    run = counting_run.Run(tmp_path, held_out, stages=_STAGES)
    made = []
    run.trainer.make_loop = lambda: made.append(run.step) or run.loop
    run.execute()
    assert run.loops == [3, 5, 6, 7, 9, 10, 12, 15, 18, 20]
    assert made == [0, 7]
    best = json.loads((tmp_path / checkpointer.BEST_FILE).read_text())
    assert best == {"step": 15, "metric": 6.0}
    again = counting_run.Run(tmp_path, held_out, stages=_STAGES)
    again.execute()
    assert (again.restored, again.loops) == (20, [])


def test_the_mean_loss_starts_again_with_a_stage(tmp_path):
    held_out = {step: {"mlm_loss": 1.0} for step in range(21)}
    run = counting_run.Run(tmp_path, held_out, stages=_STAGES)
    means, good = {}, run.loop

    def loop(batches, num_steps):
        means[run.step] = float(run.trainer.state.mean_loss)
        run.trainer.state.mean_loss.assign(float(run.step))
        return good(batches, num_steps)

    run.loop = loop
    run.execute()
    assert means[0] == means[7] == float("inf")
    assert [means[step] for step in (5, 9, 10)] == [3.0, 7.0, 9.0]


# ---- What may change in a run ----


@pytest.mark.parametrize(
    ("override", "refused_from"),
    [
        ("train.stages.1.batch_size=16", 0),
        ("train.stages.1.learning_rate_factor=2", 0),
        ("train.stages.1.max_seq_length=20", 0),
        ("train.stages.1.masked_lm_rate=0.2", 0),
        ("train.stages.1.random_token_rate=0.2", 0),
        # Of 5 steps; then of 4.
        ("train.stages.1.num_steps=3", 4),
        ("train.stages.1.num_steps=6", 6),
        ("train.stages.2.batch_size=16", 6),
        ("train.stages.2.num_steps=9", None),
        ("train.stages.2.accumulation_steps=2", None),
        ("train.stages=[]", 6),
    ],
)
@pytest.mark.parametrize("step", [0, 4, 5, 6])
def test_what_a_run_has_begun_stays_and_what_comes_may_change(
    whole, data_dir, tmp_path, override, refused_from, step
):
    for name in (schema.CONFIG_FILE, schema.VOCAB_FILE, schema.MANIFESTS_FILE):
        shutil.copy(whole[0] / name, tmp_path / name)
    (tmp_path / f"model.ckpt-{step}.index").touch()
    key, _, value = override.rpartition("=")
    total = 9
    if key.endswith("num_steps"):
        total += int(value) - {"1": 5, "2": 4}[key.split(".")[2]]
    changed = small_run.small_config(*SETTINGS, override, f"train.num_steps={total}")
    records = sources.read(str(data_dir), small_run.small_config(*SETTINGS))
    if refused_from is not None and step >= refused_from:
        with pytest.raises(ValueError, match="train.stages were .* and are "):
            run_dir.check(changed, records, str(tmp_path))
    else:
        notes = run_dir.check(changed, records, str(tmp_path))
        assert any("train.stages was" in note for note in notes)
