"""Rows of several sequences of one length: each is encoded as if it were alone."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.core import config as config_lib
from albert_tf.model import compute as compute_lib
from albert_tf.model import encoder, pretraining_model

NUM_ROWS, IN_ROW, LENGTH, PADDING = 3, 2, 4, 3
SIZES = config_lib.ModelConfig(
    vocab_size=30,
    embedding_size=6,
    hidden_size=20,
    num_layers=3,
    num_heads=2,
    intermediate_size=28,
    max_positions=LENGTH,
    hidden_dropout_rate=0.0,
    attention_dropout_rate=0.0,
)


@pytest.mark.parametrize(
    ("dtype", "fuses", "remat", "tolerance"),
    [
        ("float32", False, "none", 2e-5),
        ("float32", False, "block", 2e-5),
        ("float32", True, "attention", 2e-5),
        ("bfloat16", True, "none", 0.1),
    ],
)
def test_they_are_encoded_as_single_rows(dtype, fuses, remat, tolerance):
    form = compute_lib.Compute(dtype, fuses, remat)
    encode = pretraining_model.build_pretraining_model(SIZES, 1, form).encoder
    rng = np.random.default_rng(2)
    for variable in encode.variables:
        variable.assign(
            rng.normal(float("gamma" in variable.name), 0.3, variable.shape)
        )
    ids = rng.integers(0, SIZES.vocab_size, [NUM_ROWS * IN_ROW, LENGTH], np.int32)
    zeros = np.zeros_like(ids)
    places = np.array([[0, 2], [3, 1], [2, 2], [0, 3], [1, 2], [3, 0]], np.int32)

    def joined(rows, fill):
        rows = rows.reshape(NUM_ROWS, IN_ROW * LENGTH)
        return np.pad(rows, [[0, 0], [0, PADDING]], constant_values=fill)

    table = encode.embeddings.word_embeddings
    with tf.GradientTape(persistent=True) as tape:
        alone = encode.encode_at(ids, zeros + 1, zeros, places)
        of_row = places.reshape(NUM_ROWS, IN_ROW, 2)
        of_row = of_row + LENGTH * np.arange(IN_ROW, dtype=np.int32)[:, None]
        together = encode.encode_at(
            joined(ids, 7),  # padding is some token, which nothing must see
            None,
            joined(zeros, 1),
            of_row.reshape(NUM_ROWS, -1),
            packing=encoder.Packing(
                joined(zeros + np.arange(LENGTH, dtype=np.int32), 0),
                sequence_length=tf.constant(LENGTH),
            ),
        )
        losses = [tf.reduce_sum(one[..., :3] ** 2) for one in (alone, together)]
    assert together.shape == [NUM_ROWS, IN_ROW * places.shape[1], SIZES.hidden_size]
    found = tf.reshape(together, alone.shape)
    np.testing.assert_allclose(found, alone, atol=tolerance)
    expected, found = (
        tf.convert_to_tensor(tape.gradient(loss, table)).numpy() for loss in losses
    )
    scale = np.abs(expected).max()
    np.testing.assert_allclose(found / scale, expected / scale, atol=tolerance)
