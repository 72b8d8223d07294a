"""The exported encoder gives all its layers, and learns on in Keras."""

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from albert_tf import export
from albert_tf.serving import hub_encoder, load
from tests.support import binaries, fine_tuned, small_task


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    # With dropout, so that training and asking differ.
    return small_task.write_pretrained(
        tmp_path_factory.mktemp("runs") / "run", "model.hidden_dropout_rate=0.2"
    )


@pytest.fixture(scope="module")
def saved(run):
    folder = run.parent / "encoder"
    binaries.run(
        export, f"--model_dir={run}", f"--output_dir={folder}", "--form=encoder"
    )
    return folder


def batch() -> dict[str, tf.Tensor]:
    """Three rows, the second padded."""
    rng = np.random.default_rng(3)
    ids = rng.integers(5, 4000, [3, 7])
    mask, segments = np.ones([3, 7]), np.tile([0, 0, 0, 1, 1, 1, 1], [3, 1])
    mask[1, 4:] = 0
    values = (ids, mask, segments)
    return {
        name: tf.constant(value, tf.int32)
        for name, value in zip(hub_encoder.INPUTS, values, strict=True)
    }


def assert_near(found, expected):
    """A graph may round otherwise than its parts one after another."""
    np.testing.assert_allclose(found, expected, atol=1e-6, rtol=0)


def test_it_gives_what_the_run_computes(run, saved):
    encoder, _ = load.load_encoder(str(run))
    expected = encoder(*batch().values())
    found = tf.saved_model.load(str(saved))(batch())
    assert_near(found["default"], expected.pooled_output)
    assert_near(found["pooled_output"], expected.pooled_output)
    assert_near(found["sequence_output"], expected.sequence_output)
    assert len(found["encoder_outputs"]) == 2
    for ours, theirs in zip(found["encoder_outputs"], expected.all_layers, strict=True):
        assert_near(ours, theirs)


def test_its_vocabulary_is_beside_it(run, saved):
    extra = saved / "assets.extra"
    vocab = (run / "vocab.model").read_bytes()
    assert (extra / "vocab.model").read_bytes() == vocab
    assert (extra / "config.json").exists()


def test_values_are_dropped_in_training_alone(saved):
    loaded = tf.saved_model.load(str(saved))
    asked = [loaded(batch(), training=False)["default"] for _ in range(2)]
    trained = [loaded(batch(), training=True)["default"] for _ in range(2)]
    np.testing.assert_array_equal(*asked)
    assert np.max(np.abs(trained[0] - trained[1])) > 1e-3


def test_a_keras_model_trains_it(saved):
    loaded = tf.saved_model.load(str(saved))

    class Encoder(tf_keras.layers.Layer):
        def __init__(self):
            super().__init__()
            self.loaded = loaded
            self._trainable_weights.extend(loaded.trainable_variables)

        def call(self, inputs, training=False):
            return self.loaded(inputs, training=training)["pooled_output"]

    inputs = {
        name: tf_keras.Input([None], dtype=tf.int32, name=name)
        for name in hub_encoder.INPUTS
    }
    logits = tf_keras.layers.Dense(2)(Encoder()(inputs))
    model = tf_keras.Model(inputs, logits)
    model.compile(
        tf_keras.optimizers.Adam(0.01),
        tf_keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )
    before = [variable.numpy() for variable in loaded.trainable_variables]
    history = model.fit(batch(), tf.constant([0, 1, 0]), epochs=20, verbose=0)
    assert history.history["loss"][-1] < 0.3 < history.history["loss"][0]
    changed = [
        np.any(now.numpy() != was)
        for now, was in zip(loaded.trainable_variables, before, strict=True)
    ]
    assert all(changed)


def test_a_fine_tuned_run_gives_its_encoder(tmp_path):
    run = fine_tuned.write(tmp_path / "run", "classification")
    encoder, path = load.load_encoder(str(run))
    assert path.endswith("model.ckpt-2")  # the best of three
    _, other = load.load_encoder(str(run), str(run / "model.ckpt-3"))
    assert other.endswith("model.ckpt-3")
    assert len(encoder.blocks) == 1


def test_a_version_is_a_folder_of_its_own(run, capsys):
    folder = run.parent / "versions"
    for version in (1, 2):
        binaries.run(
            export,
            f"--model_dir={run}",
            f"--output_dir={folder}",
            f"--version={version}",
            "--form=encoder",
        )
    assert sorted(path.name for path in folder.iterdir()) == ["1", "2"]
    for path in folder.iterdir():
        assert tf.saved_model.contains_saved_model(str(path))
    error = binaries.error_of(
        capsys, export, f"--model_dir={run}", f"--output_dir={folder}", "--version=2"
    )
    assert "must be new or empty" in error
