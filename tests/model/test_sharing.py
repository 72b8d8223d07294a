"""Every way to share parameters: what is one object, and that it learns."""

import json

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.checkpoints import checkpointer
from albert_tf.core import config
from albert_tf.model import pretraining_model, transformer
from albert_tf.training import pretraining
from tests.support import small_run

# ---- What is shared ----


def _sizes(**changes) -> config.ModelConfig:
    values = {
        "vocab_size": 53,
        "embedding_size": 6,
        "hidden_size": 10,
        "num_layers": 6,
        "num_heads": 2,
        "intermediate_size": 14,
        "max_positions": 11,
    }
    return config.ModelConfig(**{**values, **changes})


def _num_objects(objects) -> int:
    return len({id(value) for value in objects})


@pytest.mark.parametrize(
    ("changes", "blocks", "attentions", "feed_forwards"),
    [
        ({}, 1, 1, 1),
        ({"num_layers": 1}, 1, 1, 1),
        ({"num_groups": 3}, 3, 3, 3),
        ({"num_groups": 4, "uneven_groups": True}, 4, 4, 4),
        ({"num_inner_groups": 2}, 2, 2, 2),
        ({"num_groups": 3, "num_inner_groups": 2}, 6, 6, 6),
        ({"sharing": "attention"}, 6, 1, 6),
        ({"sharing": "attention", "num_groups": 2}, 6, 2, 6),
        ({"sharing": "feed_forward"}, 6, 6, 1),
        ({"sharing": "feed_forward", "num_inner_groups": 2}, 12, 12, 2),
        ({"sharing": "none"}, 6, 6, 6),
        ({"sharing": "none", "num_inner_groups": 2}, 12, 12, 12),
    ],
)
def test_a_shared_part_is_one_object(changes, blocks, attentions, feed_forwards):
    model = pretraining_model.build_pretraining_model(_sizes(**changes), seed=1)
    parts = model.encoder.blocks
    assert all(
        isinstance(block, transformer.TransformerEncoderBlock) for block in parts
    )
    assert len(parts) == _num_objects(parts) == blocks
    assert _num_objects(block.attention for block in parts) == attentions
    assert _num_objects(block.feed_forward for block in parts) == feed_forwards
    in_attention = [v for v in model.trainable_variables if "/attention/" in v.name]
    in_feed_forward = [
        v for v in model.trainable_variables if "/feed_forward/" in v.name
    ]
    # Four dense layers and a layer norm; two and a layer norm.
    assert len(in_attention) == _num_objects(in_attention) == 10 * attentions
    assert len(in_feed_forward) == _num_objects(in_feed_forward) == 6 * feed_forwards
    names = [variable.name for variable in model.trainable_variables]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("inner_groups", [1, 2])
@pytest.mark.parametrize(
    ("sharing", "grows"),
    [("all", False), ("attention", True), ("feed_forward", True), ("none", True)],
)
def test_parameters_depend_on_depth_unless_all_is_shared(sharing, grows, inner_groups):
    shallow, deep = (
        pretraining_model.build_pretraining_model(
            _sizes(sharing=sharing, num_layers=depth, num_inner_groups=inner_groups),
            seed=1,
        )
        for depth in (1, 7)
    )
    assert (deep.count_params() > shallow.count_params()) == grows
    ids = tf.zeros([3, 5], tf.int32)
    assert len(deep.encoder(ids, ids, ids).all_layers) == 7 * inner_groups


def _calls(model) -> list[int]:
    """Which block serves each depth, as seen by calling the encoder."""
    calls = []
    for number, block in enumerate(model.encoder.blocks):
        call = block.call

        def recorded(*args, number=number, call=call, **kwargs):
            calls.append(number)
            return call(*args, **kwargs)

        block.call = recorded
    ids = tf.zeros([1, 2], tf.int32)
    model.encoder(ids, ids, ids)
    return calls


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, [0, 0, 0, 0, 0, 0]),
        ({"num_groups": 2}, [0, 0, 0, 1, 1, 1]),
        ({"num_groups": 4, "uneven_groups": True}, [0, 0, 1, 2, 2, 3]),
        ({"num_inner_groups": 2}, [0, 1] * 6),
        ({"num_groups": 2, "num_inner_groups": 2}, [0, 1] * 3 + [2, 3] * 3),
        ({"sharing": "attention"}, [0, 1, 2, 3, 4, 5]),
        ({"sharing": "none", "num_layers": 2}, [0, 1]),
        ({"num_layers": 49, "num_groups": 49}, list(range(49))),
    ],
)
def test_blocks_serve_the_depth_in_this_order(changes, expected):
    model = pretraining_model.build_pretraining_model(_sizes(**changes), seed=1)
    assert _calls(model) == expected


def _query_gradients(model) -> list[np.ndarray]:
    """Of each block's query kernel."""
    ids = tf.constant([[5, 6, 7], [8, 9, 5]])
    with tf.GradientTape() as tape:
        output = model.encoder(ids, tf.ones_like(ids), ids * 0).sequence_output
        loss = tf.reduce_sum(output[..., 0] ** 3)
    kernels = [block.attention.query.kernel for block in model.encoder.blocks]
    return [gradient.numpy() for gradient in tape.gradient(loss, kernels)]


def test_a_shared_part_gets_the_gradient_of_every_layer():
    sizes = {"num_layers": 2, "initializer_range": 0.5}
    shared = pretraining_model.build_pretraining_model(_sizes(**sizes), seed=1)
    own = pretraining_model.build_pretraining_model(
        _sizes(**sizes, sharing="none"), seed=1
    )
    for block in own.encoder.blocks:
        block.set_weights(shared.encoder.blocks[0].get_weights())
    (total,), parts = _query_gradients(shared), _query_gradients(own)
    assert np.max(np.abs(parts[0])) > 1e-3 and np.max(np.abs(parts[1])) > 1e-3
    np.testing.assert_allclose(total, parts[0] + parts[1], rtol=1e-4, atol=1e-5)


# ---- That it learns ----

_SIXTY = (
    "train.num_steps=60",
    "train.save_every_steps=60",
    "train.eval_every_steps=60",
    "train.jit_compile=auto",
)


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory):
    return small_run.write_records(tmp_path_factory.mktemp("small"))


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    [
        (),
        ("model.num_groups=2",),
        ("model.num_inner_groups=2",),
        ("model.sharing=attention",),
        ("model.sharing=feed_forward",),
        ("model.sharing=none",),
        ("model.sharing=none", "model.embedding_size=12"),
    ],
    ids=lambda changes: ",".join(changes) or "all",
)
def test_it_learns_and_comes_back_bitwise_from_its_checkpoint(
    data_dir, tmp_path, changes
):
    recipe = small_run.small_config(*_SIXTY, *changes)
    records, run = str(data_dir), str(tmp_path / "run")
    after = pretraining.train(recipe, records, run)
    metrics = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    held_out = [json.loads(line) for line in metrics if '"heldout"' in line]
    assert [entry["step"] for entry in held_out] == [0, 60]
    assert after["mlm_loss"] == held_out[1]["mlm_loss"]
    assert after["mlm_loss"] < held_out[0]["mlm_loss"] - 0.3

    # Called again it restores and evaluates, for nothing is left to train.
    assert pretraining.train(recipe, records, run) == after

    trained, other = (
        pretraining_model.build_pretraining_model(recipe.model, seed) for seed in (1, 2)
    )
    checkpointer.restore_parts(checkpointer.newest_path(run), model=trained)
    saved = tf.train.Checkpoint(model=trained).save(str(tmp_path / "copy" / "model"))
    copy = str(tmp_path / "copy")
    checkpointer.restore_parts(checkpointer.newest_path(copy), model=other)
    assert saved.startswith(str(tmp_path / "copy"))
    ids = tf.constant(np.random.default_rng(3).integers(5, 600, (3, 32)), tf.int32)
    features = {
        "input_ids": ids,
        "input_mask": tf.ones_like(ids),
        "segment_ids": tf.zeros_like(ids),
        "masked_lm_positions": ids[:, :5] % 32,
    }
    for one, same in zip(
        tf.nest.flatten(trained(features)),
        tf.nest.flatten(other(features)),
        strict=True,
    ):
        np.testing.assert_array_equal(one.numpy(), same.numpy())
