"""Runs that continue another run from one of its checkpoints, and averages of weights.

All is in one run, because to trace a step takes longer than to take these.
"""

import json
import shutil

import numpy as np
import pytest

from albert_tf import pretrain
from albert_tf.checkpoints import branching, checkpointer
from albert_tf.core import config_io
from albert_tf.data import schema
from albert_tf.serving import load
from albert_tf.training import metrics_log, pretraining
from tests.support import binaries, small_run
from tests.support import training_processes as processes

SETTINGS = (
    "data.masking=dynamic",
    "data.dupe_factor=1",
    "model.num_layers=1",
    "model.hidden_dropout_rate=0.1",
    "optimizer.decay=constant",
    "train.ema_decay=0.7",
    "train.steps_per_loop=3",
    "train.save_every_steps=4",
    # After a branch from step 4 that is no step of an evaluation.
    "train.eval_every_steps=6",
)


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory):
    return small_run.write_records(tmp_path_factory.mktemp("small"), *SETTINGS)


def _train(data_dir, model_dir, *overrides, branch_from=""):
    return pretraining.train(
        small_run.small_config(*SETTINGS, *overrides),
        str(data_dir),
        str(model_dir),
        pretraining.PretrainingOptions(branch_from=str(branch_from)),
    )


@pytest.fixture(scope="module")
def whole(data_dir, tmp_path_factory):
    """Twelve steps, with checkpoints at 0, 4, 8 and 12; no test changes it."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    _train(data_dir, folder)
    return folder


def _contents(folder):
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def _rows(folder, first=0):
    """Rows after a step, which do not depend on the clock."""
    return [row for row in processes.computed_rows(folder) if row["step"] > first]


def _stop_at(folder, step, later):
    """Leaves a run as if it had been killed after a checkpoint."""
    for path in folder.glob(f"model.ckpt-{later}*"):
        path.unlink()
    (folder / "checkpoint").write_text(f'model_checkpoint_path: "model.ckpt-{step}"\n')


def test_a_branch_of_the_same_recipe_equals_the_run_bitwise_also_if_it_is_killed(
    data_dir, whole, tmp_path, capsys
):
    before = _contents(whole)
    branch = tmp_path / "branch"
    _train(data_dir, branch, branch_from=whole / "model.ckpt-4")
    said = capsys.readouterr().err
    path = f"{whole}/model.ckpt-4"
    assert f"step 4 and state of the loop are those of {path}" in said
    assert "records are read from the position of this step, as there" in said
    assert json.loads((branch / branching.FILE).read_text()) == {
        "path": path,
        "step": 4,
        "restarts_records": False,
    }
    assert checkpointer.newest_path(str(branch)) == f"{branch}/model.ckpt-12"
    expected = processes.variables(whole)
    assert any(name.startswith("average/") for name in expected)
    assert processes.largest_difference(expected, processes.variables(branch)) == 0.0
    assert _rows(branch, 4) == _rows(whole, 4)
    # It is evaluated where it begins, in its own directory.
    first = metrics_log.read_metrics(str(branch))[0]
    assert (first["split"], first["step"], first["begun_at"]) == ("heldout", 4, 4)

    _stop_at(branch, 8, later=12)
    _train(data_dir, branch)
    assert processes.largest_difference(expected, processes.variables(branch)) == 0.0
    assert _rows(branch, 4) == _rows(whole, 4)
    assert _contents(whole) == before


def test_a_branch_killed_in_its_first_save_begins_again(data_dir, whole, tmp_path):
    branch = tmp_path / "branch"
    settings = ("train.num_steps=6", "train.eval_batches=1")
    _train(data_dir, branch, *settings, branch_from=whole / "model.ckpt-4")
    expected = processes.variables(branch)
    for path in branch.glob("model.ckpt-*"):
        path.unlink()
    (branch / "checkpoint").unlink()
    (branch / "model.ckpt-4.data-00000-of-00001").write_bytes(b"a part")
    rows = (branch / metrics_log.METRICS_FILE).read_text().splitlines(keepends=True)
    (branch / metrics_log.METRICS_FILE).write_text(rows[0])
    _train(data_dir, branch, *settings)
    assert processes.largest_difference(expected, processes.variables(branch)) == 0.0


def test_other_records_are_read_from_their_beginning_and_the_rate_decays(
    whole, tmp_path, capsys
):
    small_run.write_corpus(tmp_path / "own.txt", num_documents=50, seed=9)
    own = tmp_path / "own"
    small_run.local_run.create_pretraining_data(
        str(tmp_path / "own.txt"),
        str(small_run.VOCAB),
        str(own),
        small_run.small_config(*SETTINGS),
    )
    firsts = []
    make_input_fn = pretraining.input_pipeline.train_input_fn

    def note(data_dir, manifest, config, step):
        firsts.append(step)
        return make_input_fn(data_dir, manifest, config, step)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pretraining.input_pipeline, "train_input_fn", note)
        _train(
            own,
            tmp_path / "branch",
            "optimizer.decay=wsd",
            "optimizer.decay_steps=4",
            "train.num_steps=16",
            "train.steps_per_loop=2",
            branch_from=whole,
        )
    assert firsts == [0]
    said = capsys.readouterr().err
    assert "read from their beginning: they are not those of that run" in said
    assert "other settings: optimizer.decay was constant and is wsd, " in said
    rows = metrics_log.read_metrics(str(tmp_path / "branch"))
    assert [row["step"] for row in rows if row["split"] == "heldout"] == [12, 16]
    rates = {r["step"]: r["learning_rate"] for r in rows if r["split"] == "train"}
    assert rates == pytest.approx({14: 0.015, 16: 0.005}, abs=1e-6)
    read = json.loads((tmp_path / "branch" / branching.FILE).read_text())
    assert read["restarts_records"] is True and read["step"] == 12


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("model.num_heads=3", "must have the model of its run: model.num_heads was 2"),
        ("train.num_steps=7", "num_steps must not be less than the checkpoint's step"),
        ("train.ema_decay=0", "has an average of the weights, which this run would"),
    ],
)
def test_a_branch_that_does_not_fit_is_refused_and_writes_nothing(
    data_dir, whole, tmp_path, override, message
):
    with pytest.raises(ValueError, match=message):
        _train(data_dir, tmp_path / "branch", override, branch_from=whole)
    assert not (tmp_path / "branch" / schema.CONFIG_FILE).exists()
    assert not (tmp_path / "branch" / branching.FILE).exists()


def test_a_branch_needs_the_vocabulary_and_a_new_directory(data_dir, whole, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(whole, run)
    with pytest.raises(ValueError, match="holds one that began otherwise"):
        _train(data_dir, run, branch_from=whole)
    (run / schema.VOCAB_FILE).write_bytes(b"another")
    with pytest.raises(ValueError, match="must have the vocabulary of its run"):
        _train(data_dir, tmp_path / "branch", branch_from=run)


def test_one_of_two_beginnings_must_be_chosen(data_dir, tmp_path, capsys):
    flags = (
        f"--data_dir={data_dir}",
        f"--model_dir={tmp_path / 'new'}",
        f"--init_checkpoint={tmp_path}",
        f"--branch_from={tmp_path}",
        *(f"--set={setting}" for setting in (*small_run.OVERRIDES, *SETTINGS)),
    )
    assert "give one of them" in binaries.error_of(capsys, pretrain, *flags)


# ---- Averages ----


def _weights(folder, part):
    return {
        name.removeprefix(f"{part}/"): value
        for name, value in processes.variables(folder).items()
        if name.startswith(f"{part}/")
    }


def test_whoever_reads_a_run_gets_the_averages_unless_told_otherwise(whole):
    config = config_io.read(str(whole / schema.CONFIG_FILE))
    for weights, part in (("averaged", "average"), ("trained", "model")):
        model, _ = load.load_pretrained(str(whole), config, weights=weights)
        expected = _weights(whole, part)
        names = {v.name: v.numpy() for v in model.trainable_variables}
        assert len(names) == len(expected)
        total = sum(np.abs(value).sum() for value in names.values())
        assert total == pytest.approx(
            sum(np.abs(value).sum() for value in expected.values()), rel=1e-6
        )
        found = model.encoder.embeddings.word_embeddings.numpy()
        key = "encoder/embeddings/word_embeddings/.ATTRIBUTES/VARIABLE_VALUE"
        np.testing.assert_array_equal(found, expected[key])
    model, _ = load.load_pretrained(str(whole), config)
    np.testing.assert_array_equal(
        model.encoder.embeddings.word_embeddings,
        _weights(whole, "average")[key],
    )


def test_averages_are_evaluated_and_training_is_as_without(data_dir, whole, tmp_path):
    without = tmp_path / "without"
    _train(data_dir, without, "train.ema_decay=0")
    for name, value in _weights(without, "model").items():
        np.testing.assert_array_equal(value, _weights(whole, "model")[name])
    ours, theirs = _rows(whole), _rows(without)
    train = [
        [row for row in rows if row["split"] == "train"] for rows in (ours, theirs)
    ]
    assert train[0] == train[1]
    held_out = [
        {row["step"]: row["mlm_loss"] for row in rows if row["split"] == "heldout"}
        for rows in (ours, theirs)
    ]
    assert all(held_out[0][step] != held_out[1][step] for step in (6, 12))
    # The model with the averages has the loss of the run's last row.
    trainer = pretraining.make_trainer(
        small_run.small_config(*SETTINGS, "train.ema_decay=0"), str(tmp_path)
    )
    checkpointer.restore_parts(
        checkpointer.newest_path(str(whole)), model=trainer.model
    )
    manifest = pretraining.manifest_lib.read_manifest(str(data_dir))
    evaluation = pretraining._held_out_evaluation(trainer, str(data_dir), manifest)
    assert evaluation.evaluate()["mlm_loss"] == held_out[0][12]
