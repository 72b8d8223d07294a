"""The exported checkpoint of a fine-tuning, and directories that are refused."""

import json
import shutil

import numpy as np
import pytest
import tensorflow as tf

from albert_tf import export
from albert_tf.checkpoints import checkpointer
from albert_tf.core import config as config_lib
from albert_tf.core import config_io
from albert_tf.finetuning import run_dir
from albert_tf.serving import load
from tests.support import binaries, fine_tuned

KINDS = ("classification", "regression", "span")


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    return {kind: fine_tuned.write(folder / kind, kind) for kind in KINDS}


@pytest.mark.slow
def test_the_best_checkpoint_is_taken_unless_another_is_named(runs, tmp_path, capsys):
    run = runs["regression"]
    module, path = load.load_serving(str(run))
    assert path == str(run / "model.ckpt-2")
    other, path = load.load_serving(str(run), str(run / "model.ckpt-3"))
    assert path == str(run / "model.ckpt-3")
    texts, none = tf.constant(fine_tuned.TEXTS), tf.constant([""] * 4)
    best = module.classify(texts, none)["score"].numpy()
    assert np.abs(best - other.classify(texts, none)["score"].numpy()).max() > 1e-3
    copy = shutil.copytree(run, tmp_path / "copy")
    (copy / checkpointer.BEST_FILE).unlink()
    assert load.load_serving(str(copy))[1] == str(copy / "model.ckpt-3")


def edit(path, **values):
    """Changes values of a JSON file, or removes those that are None."""
    content = json.loads(path.read_text()) | values
    path.write_text(json.dumps({k: v for k, v in content.items() if v is not None}))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (
            lambda run: (run / "task.json").unlink(),
            "which writes task.json",
        ),
        (
            lambda run: (run / "task.json").write_text('{"kind": '),
            "task.json must be JSON",
        ),
        (
            lambda run: (run / "task.json").write_text("[1]"),
            "must hold name as albert_tf.finetune writes it; received [1]",
        ),
        (
            lambda run: edit(run / "task.json", kind="ranking"),
            "kind as albert_tf.finetune",
        ),
        (lambda run: edit(run / "task.json", labels=None), "must hold labels"),
        (
            lambda run: edit(run / "task.json", labels=["a", "b"]),
            "2 labels for 3 classes",
        ),
        (
            lambda run: edit(run / "task.json", head_settings={"num_classes": 3}),
            "head_settings that classification takes",
        ),
        (
            lambda run: edit(
                run / "task.json",
                kind="regression",
                head_settings={"dropout_rate": 0.1},
            ),
            "model.ckpt-2 cannot be restored into this model",
        ),
        (
            lambda run: (run / checkpointer.BEST_FILE).write_text('{"metric": 1}'),
            "must name the step of the best checkpoint",
        ),
        (
            lambda run: (run / "model.ckpt-2.index").unlink(),
            "model.ckpt-2 cannot be restored",
        ),
    ],
)
def test_damaged_folders_are_refused(runs, tmp_path, capsys, damage, message):
    run = shutil.copytree(runs["classification"], tmp_path / "run")
    damage(run)
    error = binaries.error_of(
        capsys, export, f"--model_dir={run}", f"--output_dir={tmp_path / 'new'}"
    )
    assert message in error
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("there", "folders", "found"),
    [
        (["seed-1", "seed-2"], [""], "seed-1, seed-2"),
        (["."], ["seed-1", "seed-2"], "a run of one seed"),
        (["seed-1", "seed-2", "seed-3"], ["seed-1", "seed-2"], "seed-3"),
        (["seed-1"], ["seed-5", "seed-6"], "seed-1"),
    ],
)
def test_runs_of_other_seeds_are_refused(tmp_path, there, folders, found):
    for name in there:
        (tmp_path / name).mkdir(exist_ok=True)
        (tmp_path / name / "config.json").touch()
    with pytest.raises(ValueError, match=f"contains {found}, which this command does"):
        run_dir.check_seeds(str(tmp_path), folders)


@pytest.mark.parametrize(
    ("there", "folders"),
    [
        ([], [""]),
        (["."], [""]),
        (["seed-1"], ["seed-1", "seed-2"]),
        (["features"], ["seed-1", "seed-2"]),
    ],
)
def test_runs_of_these_seeds_are_resumed(tmp_path, there, folders):
    for name in there:
        (tmp_path / name).mkdir(exist_ok=True)
        (tmp_path / name / "config.json").touch()
    run_dir.check_seeds(str(tmp_path), folders)


def test_checkpoints_without_their_configuration_are_refused(tmp_path):
    (tmp_path / "model.ckpt-3.index").touch()
    with pytest.raises(ValueError, match="the config.json of their run is missing"):
        run_dir.check(config_lib.Config(), b"", "", str(tmp_path))


def test_a_question_that_leaves_no_room_for_its_context_is_refused(
    runs, tmp_path, capsys
):
    run = shutil.copytree(runs["span"], tmp_path / "run")
    config = config_io.from_json((run / "config.json").read_text())
    task = json.loads(config_io.to_json(config))["task"] | {"max_query_length": 21}
    edit(run / "config.json", task=task)
    error = binaries.error_of(
        capsys, export, f"--model_dir={run}", f"--output_dir={tmp_path / 'new'}"
    )
    assert "task.max_seq_length must hold a question" in error
    assert "received 24 and 21" in error
