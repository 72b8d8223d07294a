"""Scores of single tokens equal those of the whole model."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.model import compute as compute_lib
from albert_tf.model import pretraining_model, token_scores
from albert_tf.serving import scaled_weights
from tests.support import portable_models


@pytest.mark.parametrize("sharing", ["all", "inner", "bert"])
def test_the_encoder_at_some_positions_is_the_encoder_there(sharing):
    """Of the last layer only the positions are computed, also where blocks differ."""
    model = portable_models.draw(sharing)
    network = portable_models.network_of(model)
    features = portable_models.batch(model.config)
    positions = features.pop("masked_lm_positions")
    whole = network.encoder(**features).sequence_output  # [B, S, H]
    expected = tf.gather(whole, positions, batch_dims=1)
    for encoder in (network.encoder, scaled_weights.ScaledEncoder(network.encoder)):
        found = encoder.encode_at(**features, positions=positions)
        assert found.shape == [3, 2, 12]
        np.testing.assert_allclose(found, expected, atol=2e-5)


@pytest.mark.parametrize("sharing", ["all", "inner", "bert"])
def test_the_pooled_output_alone_is_that_of_the_call(sharing):
    model = portable_models.draw(sharing)
    network = portable_models.network_of(model)
    features = portable_models.batch(model.config)
    features.pop("masked_lm_positions")
    expected = network.encoder(**features).pooled_output  # [B, H]
    for encoder in (network.encoder, scaled_weights.ScaledEncoder(network.encoder)):
        found = encoder.pooled_output(**features)
        assert found.shape == [3, 12]
        np.testing.assert_allclose(found, expected, atol=2e-5)


def test_the_last_layer_is_computed_at_the_positions_alone(monkeypatch):
    network = portable_models.network_of(portable_models.draw())
    shapes = []
    call = type(network.encoder.blocks[0].feed_forward).call
    monkeypatch.setattr(
        type(network.encoder.blocks[0].feed_forward),
        "call",
        lambda self, hidden, *args, **more: (
            shapes.append(hidden.shape.as_list()) or call(self, hidden, *args, **more)
        ),
    )
    features = portable_models.batch(network.encoder.config)
    network.encoder.encode_at(
        features["input_ids"],
        features["input_mask"],
        features["segment_ids"],
        tf.constant([[1], [2], [3]]),
    )
    assert shapes == [[3, 7, 12]] * 3 + [[3, 1, 12]]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_log_probabilities_are_those_of_the_logits(dtype):
    settings = portable_models.draw().config
    network = pretraining_model.build_pretraining_model(
        settings, 5, compute_lib.Compute(dtype)
    )
    features = portable_models.batch(settings)
    features["segment_ids"] = np.zeros_like(features["segment_ids"])
    # Rows may have no target or several, and padding changes nothing.
    target_rows, target_ids = [0, 0, 2], [7, 99, 12]
    positions = np.int32([1, 3, 6])
    table = network.encoder.embeddings.word_embeddings
    found = token_scores.log_probabilities(
        network.encoder.encode_at,
        lambda hidden: network.masked_lm.scores_of(hidden, table).logits,
        *(tf.constant(features[name]) for name in ("input_ids", "input_mask")),
        *map(tf.constant, (positions, target_rows, target_ids)),
    )
    features["masked_lm_positions"] = positions[:, None]
    logits = network(features).mlm.logits[:, 0]  # [B, V]
    every = tf.nn.log_softmax(logits).numpy()
    expected = [
        every[row, target] for row, target in zip(target_rows, target_ids, strict=True)
    ]
    assert found.dtype == tf.float32
    tolerance = 1e-5 if dtype == "float32" else 0.05
    np.testing.assert_allclose(found, expected, atol=tolerance)
