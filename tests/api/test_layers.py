"""The encoder as a layer of Keras: values, dropout, and gradients."""

import numpy as np
import pytest
import tensorflow as tf

import albert_tf
from albert_tf.serving import load
from tests.support import small_task

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pretrained") / "run"
    settings = "model.initializer_range=0.5", "model.hidden_dropout_rate=0.3"
    return small_task.write_pretrained(folder, *settings)


@pytest.fixture(scope="module")
def batch():
    rng = np.random.default_rng(0)
    return {
        "input_ids": rng.integers(5, 4000, [3, 7]).astype(np.int32),
        "input_mask": np.array([[1] * 7, [1] * 5 + [0] * 2, [1] * 7], np.int32),
        "segment_ids": np.array([[0] * 4 + [1] * 3] * 3, np.int32),
    }


@pytest.fixture(scope="module")
def layer(run):
    return albert_tf.load_encoder(str(run))


def test_it_computes_what_the_encoder_of_the_run_does(run, layer, batch):
    encoder, _ = load.load_encoder(str(run))
    expected = encoder(*batch.values())
    found = layer(batch)
    assert set(found) == {"sequence_output", "pooled_output"}
    for name, value in found.items():
        np.testing.assert_allclose(value, getattr(expected, name), rtol=0, atol=1e-6)


def test_dropout_is_drawn_at_each_call_of_training(layer, batch):
    still = [layer(batch)["pooled_output"].numpy() for _ in range(2)]
    np.testing.assert_array_equal(*still)
    first, second = (
        layer(batch, training=True)["pooled_output"].numpy() for _ in range(2)
    )
    assert np.abs(first - second).max() > 1e-3
    assert np.abs(first - still[0]).max() > 1e-3


def test_all_variables_are_trained_but_with_a_frozen_layer(layer, batch):
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(layer(batch)["pooled_output"] ** 2)
    gradients = tape.gradient(loss, layer.trainable_variables)
    assert len(gradients) == len(layer.encoder.variables) > 20
    assert all(gradient is not None for gradient in gradients)
    layer.trainable = False
    assert layer.trainable_variables == []
    layer.trainable = True


def test_a_layer_from_its_configuration_has_the_same_initial_weights(run):
    config = albert_tf.load_config(str(run / "config.json")).model
    first = albert_tf.EncoderLayer(config, seed=5)
    first.build(None)
    again = albert_tf.EncoderLayer.from_config(first.get_config())
    again.build(None)
    for one, other in zip(first.get_weights(), again.get_weights(), strict=True):
        np.testing.assert_array_equal(one, other)


def test_rows_longer_than_the_model_has_positions_are_an_error(layer):
    shape = [2, 33]
    rule = "rows must have at most 32 tokens, the positions of the model; received 33"
    for row in (np.zeros(shape, np.int32), tf.zeros(shape, tf.int32)):
        with pytest.raises(ValueError, match=rule):
            layer({name: row for name in ("input_ids", "input_mask", "segment_ids")})


def test_inputs_that_the_layer_cannot_take_are_an_error(layer, batch):
    rule = "must be called with a dict of input_ids, input_mask, segment_ids; received"
    with pytest.raises(ValueError, match=f"{rule} input_ids, segment_ids$"):
        layer({name: batch[name] for name in ("input_ids", "segment_ids")})
    packed = {name: batch[name] for name in ("input_ids", "segment_ids")}
    packed["sequence_numbers"] = batch["input_mask"]
    with pytest.raises(ValueError, match=rf"{rule} packed rows.*pack_sequences=0$"):
        layer(packed)
    with pytest.raises(ValueError, match=rf"{rule} \[1, 2\]$"):
        layer([1, 2])
