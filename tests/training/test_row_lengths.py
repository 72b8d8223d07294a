"""Steps on batches that are cut to one of several lengths."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.training import objectives, row_lengths, train_step
from tests.support import small_rows


def test_features_are_cut_to_the_length_that_the_batch_names():
    features = {
        "input_ids": tf.reshape(tf.range(12), [2, 6]),
        "label_ids": tf.constant([1, 0]),
        row_lengths.LENGTH_INDEX: tf.constant([1, 1]),
    }
    shapes = []

    def compute(cut):
        assert set(cut) == {"input_ids", "label_ids"}
        shapes.append(cut["input_ids"].shape.as_list())
        return tf.reduce_sum(cut["input_ids"]) + 100 * tf.reduce_sum(cut["label_ids"])

    run = tf.function(
        lambda: row_lengths.at_own_length(compute, features, (2, 4, 6)),
        autograph=False,
    )
    assert int(run()) == 0 + 1 + 2 + 3 + 6 + 7 + 8 + 9 + 100
    assert shapes == [[2, 2], [2, 4], [2, 6]]


@pytest.mark.slow
# Padding has a share in the scores of spans: several lengths are refused there.
@pytest.mark.parametrize("kind", [k for k in small_rows.KINDS if k != "span"])
def test_a_batch_at_its_own_length_has_the_same_loss_and_gradients(kind):
    training = small_rows.Training(
        tf.distribute.OneDeviceStrategy("/cpu:0"),
        kind,
        "task.num_lengths=2",
        "train.batch_size=2",
    )
    batcher = training.batcher
    assert batcher.lengths == (16, 24)
    order = batcher.order(training.config.train)
    taken = (order.take(step) for step in range(20))
    items = next(items for items in taken if batcher.length_index(items) == 0)
    batch = {name: tf.constant(v) for name, v in batcher.batch(items).items()}
    objective = objectives.TaskObjective(kind, batcher.lengths)
    weights = objective.weights(batch)

    def compute(features):
        return train_step.compute_gradients(
            objective, training.model, features, None, *weights
        )

    expected, expected_sums = compute(batch)
    found, sums = row_lengths.at_own_length(
        compute,
        {**batch, row_lengths.LENGTH_INDEX: tf.constant([0, 0])},
        batcher.lengths,
    )
    # Means: per example, or per word that has a label.
    found_loss, expected_loss = (
        float(objective.mean(values, weights)) for values in (sums, expected_sums)
    )
    assert found_loss == pytest.approx(expected_loss, rel=0, abs=1e-6)
    for name in ("task_correct", "task_weight", "num_tokens"):
        assert float(sums[name]) == float(expected_sums[name]), name
    assert max(float(tf.reduce_max(tf.abs(g))) for g in expected) > 1e-3
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-6)
