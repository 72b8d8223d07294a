"""The pre-training objective where some records of a batch have no pair label."""

import types

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.training import objectives, step_log

# Nats of -log softmax: of the smaller and the larger of two logits with difference 2.
WRONG, RIGHT = np.log(1 + np.exp(2.0)), np.log(1 + np.exp(-2.0))


class Model:
    """Two logits per record, which are weights; the masked tokens cost log 3 each."""

    compute = types.SimpleNamespace(fuse_elementwise=False)

    def __init__(self, pair_logits):
        self.pair_logits = tf.Variable(pair_logits)

    def scores(self, features, dropout_seed):
        scores = tf.zeros([*features["masked_lm_ids"].shape, 3])
        logits = tf.gather(self.pair_logits, features["row"])
        mlm = types.SimpleNamespace(scores=scores, bias=tf.zeros([3]))
        return types.SimpleNamespace(mlm=mlm, pair_logits=logits)


def batch(labels, rows=None):
    rows = list(range(len(labels))) if rows is None else rows
    return {
        "row": tf.constant(rows),
        "input_ids": tf.zeros([len(labels), 5], tf.int32),
        "input_mask": tf.ones([len(labels), 5], tf.int32),
        "masked_lm_ids": tf.zeros([len(labels), 2], tf.int32),
        "masked_lm_weights": tf.ones([len(labels), 2]),
        "next_sentence_labels": tf.constant(labels),
    }


def values(scalars):
    return {name: float(value) for name, value in scalars.items()}


def test_records_without_a_label_have_no_weight():
    objective = objectives.PretrainingObjective("sop")
    model = Model([[0.0, 2.0], [0.0, 2.0], [9.0, -9.0], [2.0, 0.0]])
    features = batch([1, 0, -1, 0])
    assert [float(w) for w in objective.weights(features)] == [8, 3]
    sums = objective.batch_sums(model, features, None)
    found = values(sums)
    assert (found["pair_weight"], found["pair_correct"]) == (3, 2)
    assert found["pair_loss"] == pytest.approx(2 * RIGHT + WRONG, abs=1e-6)
    loss = float(objective.mean(sums, objective.weights(features)))
    assert loss == pytest.approx(np.log(3) + (2 * RIGHT + WRONG) / 3, abs=1e-5)
    metrics = objective.metrics(found)
    assert metrics["sentence_order_accuracy"] == pytest.approx(2 / 3)
    assert metrics["sentence_order_loss"] == pytest.approx((2 * RIGHT + WRONG) / 3)


def test_examples_that_pad_an_evaluation_have_no_weight_either():
    objective = objectives.PretrainingObjective("sop")
    model = Model([[0.0, 2.0], [0.0, 2.0], [9.0, -9.0], [2.0, 0.0]])
    padding = tf.constant([1.0, 1.0, 1.0, 0.0])
    found = values(objective.batch_sums(model, batch([1, 0, -1, 0]), None, padding))
    assert (found["pair_weight"], found["pair_correct"]) == (2, 1)


def test_a_batch_without_labels_has_the_loss_of_its_masked_tokens():
    objective = objectives.PretrainingObjective("sop")
    model = Model([[0.0, 2.0], [3.0, 0.0]])
    features = batch([-1, -1])
    with tf.GradientTape() as tape:
        sums = objective.batch_sums(model, features, None)
        loss = objective.mean(sums, objective.weights(features))
    assert float(loss) == pytest.approx(np.log(3), abs=1e-5)
    gradient = tape.gradient(loss, model.pair_logits)
    assert not np.any(tf.convert_to_tensor(gradient))  # and so none is NaN
    assert set(objective.metrics(values(sums))) == {"mlm_loss", "mlm_accuracy"}


def test_parts_of_a_batch_are_divided_by_the_labels_of_all_of_it():
    """As replicas, accumulated microbatches and steps are, one of them without any."""
    objective = objectives.PretrainingObjective("sop")
    model = Model([[0.0, 2.0], [0.0, 2.0], [9.0, -9.0], [2.0, 0.0], [1.0, 0.0]])
    labels = [1, 0, -1, -1, 0]
    whole = batch(labels)
    parts = [batch(labels[a:b], list(range(a, b))) for a, b in ((0, 2), (2, 4), (4, 5))]

    def gradient(features, weights):
        with tf.GradientTape() as tape:
            sums = objective.batch_sums(model, features, None)
            loss = objective.mean(sums, weights)
        return np.array(tf.convert_to_tensor(tape.gradient(loss, model.pair_logits)))

    weights = [sum(w) for w in zip(*map(objective.weights, parts), strict=True)]
    assert [float(w) for w in weights] == [10, 3]
    expected = gradient(whole, objective.weights(whole))
    found = sum(gradient(part, weights) for part in parts)
    assert np.abs(expected[[2, 3]]).max() == 0 < np.abs(expected[[0, 1, 4]]).min()
    np.testing.assert_allclose(found, expected, atol=1e-7)


@pytest.mark.parametrize("name", ["loss", "gradient_norm", "mean_loss", "stop"])
def test_a_sum_cannot_have_the_name_of_something_else_that_is_logged(name):
    with pytest.raises(ValueError, match=f"must not have names .*; received {name}$"):
        step_log.StepLog(tf.distribute.get_strategy(), ("mlm_loss", name), 0)
