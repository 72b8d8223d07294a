"""Learning rates by depth, and what fine-tuning leaves alone."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.core import config
from albert_tf.model import task_model
from albert_tf.optim import layer_decay, optimizers
from albert_tf.training import objectives, train_step

CLASSES = {"num_classes": 3, "dropout_rate": 0.0}


def _model(kind="classification", head=CLASSES, **sizes):
    settings = config.ModelConfig(
        vocab_size=11,
        embedding_size=5,
        hidden_size=6,
        num_heads=2,
        intermediate_size=7,
        max_positions=8,
        **sizes,
    )
    return task_model.build_task_model(settings, kind, 1, **head)


def _rates(model, decay=0.5):
    """By part of the model: the rate that all its variables have."""
    found = {}
    for name, rate in layer_decay.rate_scales(model, decay).items():
        part = name.removeprefix("albert/").split("/")
        part = part[1] if part[0] == "encoder" else part[0]
        assert found.setdefault(part, rate) == rate, name
    return found


def test_without_sharing_the_rate_falls_with_each_layer():
    assert _rates(_model(num_layers=3, sharing="none")) == {
        "embeddings": 1 / 16,
        "embedding_projection": 1 / 16,
        "block_0": 1 / 8,
        "block_1": 1 / 4,
        "block_2": 1 / 2,
        "pooler": 1.0,
        "classifier": 1.0,
    }


def test_a_shared_block_counts_as_the_last_layer_that_uses_it():
    assert _rates(_model(num_layers=3))["block_0"] == 1 / 2
    in_groups = _rates(_model(num_layers=4, num_groups=2, num_inner_groups=2))
    assert [in_groups[f"block_{number}"] for number in range(4)] == [
        1 / 8,
        1 / 8,
        1 / 2,
        1 / 2,
    ]


def _step(model, kind, features, decay=1.0):
    """Changes of all variables in one step with weight decay and a large rate."""
    settings = config.Config(
        optimizer=config.OptimizerConfig(
            name="adamw", learning_rate=0.1, warmup_steps=0, decay="constant"
        ),
        train=config.TrainConfig(num_steps=5, jit_compile="off"),
    )
    rates = layer_decay.rate_scales(model, decay)
    adam = optimizers.create(settings.optimizer, 5, rate_scales=rates)
    adam.build(model.trainable_variables)
    before = {v.name: v.numpy() for v in model.variables}
    step = train_step.make_train_step(
        model, adam, settings, objectives.TaskObjective(kind)
    )
    tf.function(step)(features, tf.constant(0.0), tf.constant(float("inf")))
    return {v.name: v.numpy() - before[v.name] for v in model.variables}


def _features(**labels):
    ids = np.array([[2, 5, 3, 7, 8, 3], [2, 6, 3, 4, 9, 3]], np.int32)
    mask = np.ones_like(ids)
    values = {"input_ids": ids, "input_mask": mask, "segment_ids": mask, **labels}
    return {name: tf.constant(value) for name, value in values.items()}


def test_the_step_of_each_variable_is_scaled_by_its_rate():
    features = _features(label_ids=np.array([1, 2], np.int32))
    plain = _step(_model(num_layers=2), "classification", features)
    scaled = _step(_model(num_layers=2), "classification", features, decay=0.5)
    rates = layer_decay.rate_scales(_model(num_layers=2), 0.5)
    assert set(rates.values()) == {1.0, 0.5, 0.125}
    for name, rate in rates.items():
        np.testing.assert_allclose(
            scaled[name], rate * plain[name], atol=1e-7, err_msg=name
        )


@pytest.mark.parametrize(
    ("kind", "head", "labels"),
    [
        ("span", {}, {"start_positions": [2], "end_positions": [2]}),
        (
            "token_classification",
            CLASSES,
            {"token_label_ids": [2, 6]},
        ),
    ],
)
def test_a_pooler_that_the_head_does_not_read_is_not_even_decayed(kind, head, labels):
    values = {name: np.ones(shape, np.int32) for name, shape in labels.items()}
    model = _model(kind, head, num_layers=2)
    changes = _step(model, kind, _features(**values))
    pooler = [name for name in changes if "pooler" in name]
    assert len(pooler) == 2
    assert all(np.all(changes[name] == 0) for name in pooler)
    others = set(changes) - set(pooler)
    assert all(np.any(changes[name] != 0) for name in others)
