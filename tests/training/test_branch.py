"""Runs that continue another run from its checkpoint, and averages of weights."""

import json
import shutil

import numpy as np
import pytest
import tensorflow as tf

from albert_tf import pretrain
from albert_tf.checkpoints import branching, checkpointer
from albert_tf.core import config_io
from albert_tf.data import schema, sources
from albert_tf.serving import load
from albert_tf.training import metrics_log, pretraining
from albert_tf.training import trainer as trainer_lib
from tests.support import binaries, small_run
from tests.support import training_processes as processes

SETTINGS = (
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


@pytest.fixture
def counting(monkeypatch):
    """Makes steps that only count, and evaluations that compute nothing.

    Returns a list that gets the first step of each reading of records.
    """

    def make_loop(trainer):
        def loop(batches, num_steps):
            scalars = {"bad_loss": 0.0, "bad_norm": 0.0, "input_seconds": 0.0}
            ended = {"failed": False, "stopped": False, "num_steps": num_steps}
            return {k: tf.constant(value) for k, value in {**scalars, **ended}.items()}

        return loop

    firsts, make_input_fn = [], pretraining.input_pipeline.run_input_fn

    def note(run, step, begin):
        firsts.append(step - begin)
        return make_input_fn(run, step, begin)

    monkeypatch.setattr(trainer_lib.Trainer, "make_loop", make_loop)
    monkeypatch.setattr(
        trainer_lib.trust_ratios, "make_trust_ratios", lambda *_: lambda skipped: {}
    )
    monkeypatch.setattr(
        pretraining.held_out.HeldOut, "evaluate", lambda *_: {"mlm_loss": 1.0}
    )
    monkeypatch.setattr(pretraining.input_pipeline, "run_input_fn", note)
    return firsts


def test_a_branch_of_the_same_recipe_equals_the_run_bitwise(
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
        "records_begin_at": 0,
    }
    assert checkpointer.newest_path(str(branch)) == f"{branch}/model.ckpt-12"
    expected = processes.variables(whole)
    assert any(name.startswith("average/") for name in expected)
    assert processes.largest_difference(expected, processes.variables(branch)) == 0.0
    assert _rows(branch, 4) == _rows(whole, 4)
    # It is evaluated where it begins, in its own directory.
    first = metrics_log.read_metrics(str(branch))[0]
    assert (first["split"], first["step"], first["begun_at"]) == ("heldout", 4, 4)
    assert _contents(whole) == before


def _lose_all_checkpoints(branch):
    """As if it had been killed in its first save, after its first row."""
    for path in branch.glob("model.ckpt-*"):
        path.unlink()
    (branch / "checkpoint").unlink()
    (branch / "model.ckpt-4.data-00000-of-00001").write_bytes(b"a part")
    rows = (branch / metrics_log.METRICS_FILE).read_text().splitlines(keepends=True)
    (branch / metrics_log.METRICS_FILE).write_text(rows[0])


def _lose_the_last(branch):
    for path in branch.glob("model.ckpt-12*"):
        path.unlink()
    (branch / "checkpoint").write_text('model_checkpoint_path: "model.ckpt-8"\n')


@pytest.mark.parametrize(
    ("lose", "first"), [(_lose_all_checkpoints, 4), (_lose_the_last, 8)]
)
def test_the_same_command_without_the_flag_resumes_a_branch(
    data_dir, whole, tmp_path, counting, lose, first
):
    branch = tmp_path / "branch"
    _train(data_dir, branch, branch_from=whole / "model.ckpt-4")
    expected, rows = processes.variables(branch), _rows(branch)
    assert {row["step"] for row in rows} == {4, 6, 8, 9, 12}
    lose(branch)
    _train(data_dir, branch)
    assert counting == [4, first]
    assert processes.largest_difference(expected, processes.variables(branch)) == 0.0
    assert _rows(branch) == rows


def test_other_records_are_read_from_their_beginning(whole, tmp_path, capsys, counting):
    own = small_run.write_records(tmp_path, *SETTINGS, "data.seed=7")
    branch = tmp_path / "branch"
    settings = ("optimizer.decay=wsd", "optimizer.decay_steps=4", "train.num_steps=16")
    _train(own, branch, *settings, branch_from=whole)
    said = capsys.readouterr().err
    assert "read from their beginning: they are not those of that run" in said
    assert "other settings: optimizer.decay was constant and is wsd, " in said
    rows = metrics_log.read_metrics(str(branch))
    assert [row["step"] for row in rows if row["split"] == "heldout"] == [12, 16]
    reader = tf.train.load_checkpoint(f"{branch}/model.ckpt-12")
    of_loop = {
        name: reader.get_tensor(f"loop/{name}/.ATTRIBUTES/VARIABLE_VALUE")
        for name in ("mean_loss", "row_step", "evaluated_step")
    }
    assert of_loop == {"mean_loss": np.inf, "row_step": 12, "evaluated_step": 12}
    (branch / "model.ckpt-16.index").unlink()
    (branch / "checkpoint").unlink()
    _train(own, branch, *settings)
    assert counting == [0, 0]
    read = branching.Branch(**json.loads((branch / branching.FILE).read_text()))
    assert (read.step, read.records_begin_at) == (12, 12)
    # A branch of the branch reads on where that one stands.
    longer = (*settings[:2], "train.num_steps=18")
    _train(own, tmp_path / "second", *longer, branch_from=branch)
    assert counting == [0, 0, 4]


def test_with_other_records_the_average_starts_again(whole, tmp_path, capsys):
    own = small_run.write_records(tmp_path, *SETTINGS, "data.seed=7")
    branch = tmp_path / "branch"
    every = ("train.save_every_steps=1", "train.keep_checkpoints=9")
    settings = (*every, "train.num_steps=16")
    _train(own, branch, *settings, branch_from=whole)
    noted = "branch: the average of the weights starts again"
    assert noted in capsys.readouterr().err
    by_step = {
        step: processes.variables(f"{branch}/model.ckpt-{step}")
        for step in range(12, 17)
    }
    names = [name for name in by_step[12] if name.startswith("average/")]
    expected = {name: by_step[12][_trained(name)] for name in names}
    # The decay of a new run, instead of 0.7: nothing of the old average is left.
    for decay, step in zip(
        (1 / 10, 2 / 11, 3 / 12, 4 / 13), range(13, 17), strict=True
    ):
        for name in names:
            weights = by_step[step][_trained(name)]
            expected[name] = decay * expected[name] + (1 - decay) * weights
    for name in names:
        np.testing.assert_allclose(by_step[16][name], expected[name], atol=1e-6)
    # After a restart the steps are counted from the same one.
    for step in (14, 15, 16):
        (branch / f"model.ckpt-{step}.index").unlink()
    (branch / "checkpoint").write_text('model_checkpoint_path: "model.ckpt-13"\n')
    _train(own, branch, *settings)
    assert noted not in capsys.readouterr().err
    assert processes.largest_difference(by_step[16], processes.variables(branch)) == 0.0


def _trained(name):
    return name.replace("average/", "model/", 1)


def test_with_another_seed_the_same_records_are_read_from_their_beginning(
    data_dir, whole, tmp_path, capsys, counting
):
    settings = ("train.seed=3", "train.num_steps=13")
    _train(data_dir, tmp_path / "branch", *settings, branch_from=whole)
    assert counting == [0]
    said = capsys.readouterr().err
    assert "from their beginning: train.seed was 1 and is 3" in said


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("model.num_heads=3", "must have the model of its run: model.num_heads was 2"),
        ("train.num_steps=7", "num_steps must not be less than the checkpoint's step"),
    ],
)
def test_a_branch_that_does_not_fit_is_refused_and_writes_nothing(
    data_dir, whole, tmp_path, override, message
):
    with pytest.raises(ValueError, match=message):
        _train(data_dir, tmp_path / "branch", override, branch_from=whole)
    assert not (tmp_path / "branch" / schema.CONFIG_FILE).exists()
    assert not (tmp_path / "branch" / branching.FILE).exists()


def test_a_branch_may_leave_the_average_behind(data_dir, whole, tmp_path, capsys):
    branch = tmp_path / "branch"
    settings = ("train.ema_decay=0", "train.num_steps=13")
    _train(data_dir, branch, *settings, branch_from=whole)
    said = capsys.readouterr().err
    assert "branch: the average of the other run is omitted" in said
    names = processes.variables(branch)
    assert not [name for name in names if name.startswith("average/")]
    # What is kept is that of the other run: without an average a step is the same.
    _train(data_dir, tmp_path / "same", "train.num_steps=13", branch_from=whole)
    same = processes.variables(tmp_path / "same")
    for name in names:
        if name.startswith("model/"):
            np.testing.assert_array_equal(names[name], same[name], err_msg=name)
    # The branch alone is asked: a run does not lose its average.
    with pytest.raises(ValueError, match="has an average of the weights, which this"):
        _train(data_dir, tmp_path / "same", *settings)


def test_a_branch_needs_the_vocabulary_and_a_new_directory(data_dir, whole, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(whole, run)
    with pytest.raises(ValueError, match="holds one that began otherwise"):
        _train(data_dir, run, branch_from=whole)
    (run / schema.VOCAB_FILE).write_bytes(b"another")
    with pytest.raises(ValueError, match="must have the vocabulary of its run"):
        _train(data_dir, tmp_path / "branch", branch_from=run)


def test_a_step_that_is_not_there_is_answered_with_those_that_are(
    data_dir, whole, tmp_path, capsys
):
    flags = (
        f"--data_dir={data_dir}",
        f"--model_dir={tmp_path / 'new'}",
        f"--branch_from={whole}/model.ckpt-5",
        *(f"--set={setting}" for setting in (*small_run.OVERRIDES, *SETTINGS)),
    )
    assert binaries.error_of(capsys, pretrain, *flags) == (
        "--branch_from must be the directory of a run, or the prefix of a checkpoint "
        f"such as RUN/model.ckpt-500; there is no {whole}/model.ckpt-5.index. {whole} "
        "holds model.ckpt-0, model.ckpt-4, model.ckpt-6, model.ckpt-8, model.ckpt-12"
    )
    assert not (tmp_path / "new").exists()


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


def test_averages_are_evaluated(data_dir, whole, tmp_path):
    losses = {}
    trainer = pretraining.make_trainer(
        small_run.small_config(*SETTINGS, "train.ema_decay=0"), str(tmp_path)
    )
    run = sources.read(str(data_dir), trainer.config)
    evaluation = pretraining._held_out_evaluation(trainer, run)
    for weights in ("averaged", "trained"):
        path = checkpointer.newest_path(str(whole))
        checkpointer.restore_parts(path, weights, model=trainer.model)
        losses[weights] = evaluation.evaluate()["mlm_loss"]
    last = metrics_log.read_metrics(str(whole))[-1]
    assert (last["split"], last["step"]) == ("heldout", 12)
    assert last["mlm_loss"] == losses["averaged"] != losses["trained"]
