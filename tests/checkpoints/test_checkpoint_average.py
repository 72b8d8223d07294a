"""The mean of the weights of checkpoints, as whatever reads a run reads it."""

import json
import re

import numpy as np
import pytest
import tensorflow as tf

from albert_tf import average_checkpoints
from albert_tf.checkpoints import checkpoint_average, checkpointer, run_dir, warm_start
from albert_tf.core import config_io
from albert_tf.data import schema
from albert_tf.interchange import native, portable, weight_map
from albert_tf.model import pretraining_model
from albert_tf.optim import averaging
from tests.support import binaries, small_run

_CONFIG = small_run.small_config("model.num_layers=1")


def _model(seed=1):
    return pretraining_model.build_pretraining_model(_CONFIG.model, seed)


def _fill(variables, factor):
    for number, variable in enumerate(variables, 1):
        steps = np.arange(variable.shape.num_elements()).reshape(variable.shape)
        variable.assign(factor * (1000.0 * number + steps))


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Weights at steps 3, 5 and 9 are as 1 to 2 to 6, and their averages ten times."""
    folder = tmp_path_factory.mktemp("run")
    model = _model()
    average = averaging.MovingAverage(model, 0.9)
    parts = {"model": model, "average": average.tree}
    saver = checkpointer.Checkpointer(str(folder), 3, parts, is_chief=True)
    for step, factor in ((3, 1.0), (5, 2.0), (9, 6.0)):
        _fill(model.trainable_variables, 10.0 * factor)
        average.restart()
        _fill(model.trainable_variables, factor)
        saver.save(step, wait=True)
    (folder / schema.VOCAB_FILE).write_bytes(small_run.VOCAB.read_bytes())
    (folder / schema.CONFIG_FILE).write_text(config_io.to_json(_CONFIG))
    return folder


def _assert_filled(model, factor):
    expected = _model()
    _fill(expected.trainable_variables, factor)
    for found, value in zip(
        model.trainable_variables, expected.trainable_variables, strict=True
    ):
        np.testing.assert_array_equal(found, value, err_msg=found.name)


@pytest.mark.parametrize(("weights", "factor"), [("averaged", 40.0), ("trained", 4.0)])
def test_the_mean_of_two_checkpoints_is_their_mean(run, tmp_path, weights, factor):
    folder = str(tmp_path / "average")
    lines = checkpoint_average.average(str(run), [9, 5], folder, weights)
    kind = {"averaged": "moving averages", "trained": "trained weights"}[weights]
    assert lines[0].startswith(f"mean of the {kind} of 2 checkpoints, 32 variables ")
    assert lines[1:] == [
        f"  {run}/model.ckpt-5",
        f"  {run}/model.ckpt-9",
        f"in {folder}/model.ckpt-9",
    ]
    assert checkpointer.newest_path(folder) == f"{folder}/model.ckpt-9"
    model = _model(seed=7)
    checkpointer.restore_parts(f"{folder}/model.ckpt-9", model=model)
    _assert_filled(model, factor)
    said = json.loads((tmp_path / "average" / checkpoint_average.FILE).read_text())
    assert said == {"model_dir": str(run), "steps": [5, 9], "weights": weights}


@pytest.mark.parametrize("weights", ["averaged", "trained"])
def test_weights_that_are_not_trained_are_in_both_means(tmp_path, weights):
    model = _model()
    model.encoder.pooler.trainable = False
    parts = {"model": model, "average": averaging.MovingAverage(model, 0.9).tree}
    saver = checkpointer.Checkpointer(str(tmp_path / "run"), 2, parts, is_chief=True)
    for step in (3, 5):
        _fill(model.variables, step)
        saver.save(step, wait=True)
    folder = str(tmp_path / "average")
    checkpoint_average.average(str(tmp_path / "run"), [3, 5], folder, weights)
    found = _model(seed=7)
    checkpointer.restore_parts(f"{folder}/model.ckpt-5", model=found)
    expected = _model()
    _fill(expected.variables, 4.0)
    for one, other in zip(
        found.encoder.pooler.variables, expected.encoder.pooler.variables, strict=True
    ):
        np.testing.assert_array_equal(one, other)


def test_warm_start_conversion_and_parts_of_a_model_read_an_average(run, tmp_path):
    folder = str(tmp_path / "average")
    checkpoint_average.average(str(run), [3, 5, 9], folder)
    model = _model(seed=7)
    warm_start.restore_weights(model, folder, small_run.VOCAB.read_bytes())
    _assert_filled(model, 30.0)
    other = _model(seed=8)
    encoder = tf.train.Checkpoint(encoder=other.encoder)
    checkpointer.restore_parts(f"{folder}/model.ckpt-9", model=encoder)
    np.testing.assert_array_equal(
        other.encoder.pooler.kernel, model.encoder.pooler.kernel
    )
    report = weight_map.ConversionReport()
    read = native.read(folder, portable.ReadOptions(), report)
    assert read.moments is None and read.step == 9
    np.testing.assert_array_equal(
        read.weights["encoder/pooler/kernel"], model.encoder.pooler.kernel
    )


def test_an_average_is_not_resumed(run, tmp_path):
    folder = str(tmp_path / "average")
    checkpoint_average.average(str(run), [9], folder)
    with pytest.raises(ValueError, match="holds an average of checkpoints, which is"):
        run_dir.check(_CONFIG, [], folder)


def test_checkpoints_of_other_names_or_shapes_are_refused(run, tmp_path):
    for name, variables in (
        ("shape", {"a": tf.Variable([1.0]), "b": tf.Variable([1.0, 2.0])}),
        ("name", {"b": tf.Variable([1.0]), "c": tf.Variable([1.0])}),
    ):
        folder = tmp_path / name
        folder.mkdir()
        first = {"a": tf.Variable([1.0]), "b": tf.Variable([1.0])}
        for step, found in ((1, first), (2, variables)):
            part = tf.train.Checkpoint(**found)
            saver = checkpointer.Checkpointer(str(folder), 2, {"model": part}, True)
            saver.save(step, wait=True)
        with pytest.raises(ValueError, match="must have the same variables"):
            checkpoint_average.average(str(folder), [1, 2], str(tmp_path / "average"))
        assert not (tmp_path / "average").exists()


# ---- The binary ----


def _binary(run, output, *flags):
    binaries.run(
        average_checkpoints, f"--model_dir={run}", f"--output_dir={output}", *flags
    )


def test_the_last_checkpoints_are_those_of_the_latest_steps(run, tmp_path, capsys):
    _binary(run, tmp_path / "average", "--last=2")
    said = capsys.readouterr().out.splitlines()
    assert said[1:3] == [f"  {run}/model.ckpt-5", f"  {run}/model.ckpt-9"]
    assert said[-1].startswith("Next: python -m albert_tf.export --model_dir=")
    assert f"--model_dir={tmp_path / 'average'} " in said[-1]


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ((), "either --steps or --last must say .* received none"),
        (("--steps=3", "--last=1"), "received both"),
        (
            ("--steps=3,4",),
            "it holds those of steps 3, 5, 9. A run keeps its last train",
        ),
        (("--last=4",), "it holds those of steps 3, 5, 9"),
        (("--steps=3,five",), "must be numbers of steps; received 'five'"),
        (("--steps=\u00b2",), "must be numbers of steps; received '\u00b2'"),
        ((f"--steps={'9' * 5000}",), "must be numbers of steps; received '999"),
    ],
)
def test_what_cannot_be_averaged_is_one_error(run, tmp_path, capsys, flags, message):
    paths = (f"--model_dir={run}", f"--output_dir={tmp_path / 'average'}")
    assert re.search(
        message, binaries.error_of(capsys, average_checkpoints, *paths, *flags)
    )
