"""Counts by arithmetic equal counts by hand, and those of models that were built."""

import dataclasses
import itertools

import pytest
import tensorflow as tf

from albert_tf.core import config, config_io
from albert_tf.model import compute as compute_lib
from albert_tf.model import costs as costs_lib
from albert_tf.model import pretraining_model

SHAPE = costs_lib.BatchShape(batch_size=3, length=7, num_predictions=5)


def small_model(**changes) -> config.ModelConfig:
    values = {
        "vocab_size": 53,
        "embedding_size": 6,
        "hidden_size": 10,
        "num_layers": 4,
        "num_heads": 2,
        "intermediate_size": 16,
        "max_positions": 11,
        "type_vocab_size": 3,
    }
    return config.ModelConfig(**{**values, **changes})


def small_recipe(**train) -> config.Config:
    return config.Config(
        model=small_model(max_positions=20),
        data=config.DataConfig(max_seq_length=20),
        optimizer=config.OptimizerConfig(warmup_steps=2),
        train=config.TrainConfig(**{"batch_size": 24, "num_steps": 9, **train}),
    )


# ---- Parameters ----


def test_parameters_by_part():
    assert costs_lib.count_parameters(small_model()) == costs_lib.Parameters(
        word_embeddings=318,
        position_embeddings=66,
        segment_embeddings=18,
        embedding_layer_norm=12,
        embedding_projection=70,
        attention=460,
        feed_forward=366,
        pooler=110,
        masked_lm=131,
        sentence_pair=22,
    )


def test_totals_are_without_pooler_of_the_encoder_and_with_heads():
    parameters = costs_lib.count_parameters(small_model())
    assert parameters.encoder_without_pooler == 1310
    assert parameters.encoder == 1420
    assert parameters.total == 1573


@pytest.mark.parametrize(
    ("sharing", "num_groups", "num_inner_groups", "attention", "feed_forward"),
    [
        ("all", 1, 1, 1, 1),
        ("all", 2, 1, 2, 2),
        ("all", 2, 3, 6, 6),
        ("attention", 1, 1, 1, 4),
        ("attention", 2, 3, 6, 12),
        ("feed_forward", 1, 1, 4, 1),
        ("feed_forward", 2, 3, 12, 6),
        ("none", 1, 1, 4, 4),
        ("none", 1, 3, 12, 12),
    ],
)
def test_sharing_says_how_many_sets_there_are(
    sharing, num_groups, num_inner_groups, attention, feed_forward
):
    model = small_model(
        sharing=sharing, num_groups=num_groups, num_inner_groups=num_inner_groups
    )
    parameters = costs_lib.count_parameters(model)
    assert parameters.attention == attention * 460
    assert parameters.feed_forward == feed_forward * 366


def test_embeddings_as_wide_as_the_hidden_layers_have_no_projection():
    model = small_model(embedding_size=10)
    assert costs_lib.count_parameters(model).embedding_projection == 0
    assert costs_lib.forward_flops(model, SHAPE).embedding_projection == 0


@pytest.mark.parametrize(
    ("recipe", "encoder"),
    [
        ("albert_base", 11_683_584),
        ("albert_large", 17_683_968),
        ("albert_xlarge", 58_724_864),
        ("albert_xxlarge", 222_595_584),
        ("bert_base", 109_081_344),
        ("bert_large", 334_607_360),
        ("bert_xlarge", 1_275_291_648),
    ],
)
def test_encoders_of_the_papers_models(recipe, encoder):
    model = config_io.load(f"configs/{recipe}.py").model
    assert costs_lib.count_parameters(model).encoder == encoder


_BUILT = [
    *itertools.product(("all", "attention", "feed_forward"), (1, 2), (1, 3)),
    *itertools.product(("none",), (1,), (1, 3)),
]


@pytest.mark.parametrize("embedding_size", [6, 10])
@pytest.mark.parametrize(("sharing", "num_groups", "num_inner_groups"), _BUILT)
def test_counts_equal_those_of_a_built_model(
    sharing, num_groups, num_inner_groups, embedding_size
):
    sizes = small_model(
        sharing=sharing,
        num_groups=num_groups,
        num_inner_groups=num_inner_groups,
        embedding_size=embedding_size,
    )
    counted = costs_lib.count_parameters(sizes)
    model = pretraining_model.build_pretraining_model(sizes, seed=1)
    assert model.encoder.count_params() == counted.encoder
    assert model.masked_lm.count_params() == counted.masked_lm
    assert model.sentence_order.count_params() == counted.sentence_pair
    assert model.count_params() == counted.total


# ---- Matrix products ----


def test_forward_flops_by_part():
    assert costs_lib.forward_flops(small_model(), SHAPE) == costs_lib.Flops(
        embedding_projection=2520,  # 2 * 21 * 6 * 10
        # Three blocks at 21 positions and the last at 3 * (1 + 5): 81.
        query_key_value=49800,  # 2 * 81 * 10 * 10 + 4 * 2 * 2 * 21 * 10 * 10
        scores_and_context=22680,  # 2 * 2 * 81 * 10 * 7
        attention_output=16200,  # 2 * 81 * 10 * 10
        feed_forward=51840,  # 2 * 2 * 81 * 10 * 16
        pooler=600,  # 2 * 3 * 10 * 10
        masked_lm=11340,  # 2 * 15 * 10 * 6 + 2 * 15 * 6 * 53
        sentence_pair=120,  # 2 * 3 * 10 * 2
    )


def test_inference_applies_the_last_block_everywhere():
    everywhere = costs_lib.forward_flops(small_model(), SHAPE, everywhere=True)
    assert everywhere == dataclasses.replace(
        costs_lib.forward_flops(small_model(), SHAPE),
        query_key_value=50400,  # 4 * 3 * 2 * 21 * 10 * 10
        scores_and_context=23520,  # 4 * 3 * 2 * 2 * 7 * 10 * 7
        attention_output=16800,  # 4 * 2 * 21 * 10 * 10
        feed_forward=53760,  # 4 * 2 * 2 * 21 * 10 * 16
    )


@pytest.mark.parametrize(
    ("remat", "recomputed"), [("none", 0), ("attention", 88680), ("block", 140520)]
)
def test_a_step_is_the_forward_pass_three_times_and_what_is_recomputed(
    remat, recomputed
):
    step = costs_lib.step_flops(small_model(), SHAPE, remat)
    assert (step.forward, step.backward) == (155100, 310200)
    assert step.recomputed == recomputed
    assert step.total == 465300 + recomputed


@pytest.mark.parametrize(
    ("remat", "queries_at_once", "recomputed"),
    [
        # 2 * rows * 10 * 7 with 21 rows of three blocks, and 18 of the last.
        ("none", 5, 11340),
        ("none", 6, 8820),
        ("none", 7, 0),
        ("attention", 5, 88680 + 11340),
    ],
)
def test_scores_of_attention_in_parts_are_computed_again(
    remat, queries_at_once, recomputed
):
    step = costs_lib.step_flops(small_model(), SHAPE, remat, queries_at_once)
    assert step.recomputed == recomputed


def test_sharing_changes_no_products_and_inner_groups_multiply_those_of_blocks():
    shared, own, inner = (
        costs_lib.forward_flops(small_model(**changes), SHAPE, everywhere=True)
        for changes in ({}, {"sharing": "none"}, {"num_inner_groups": 3})
    )
    assert own == shared
    assert inner.feed_forward == 3 * shared.feed_forward
    assert inner.total == 3 * shared.total - 2 * 14580  # what is not in blocks, once


# ---- Memory ----


def test_activations_of_a_block_by_part():
    found = costs_lib.block_activations(small_model(), SHAPE, "float32")
    assert found == costs_lib.BlockActivations(
        block_input=840,  # 21 * 10 * 4
        read_input=0,
        query_key_value=2520,
        attention_probabilities=1176,  # 3 * 2 * 7 * 7 * 4
        context=840,
        attention_output=840,
        attention_layer_norm=840,
        intermediate=1344,  # 21 * 16 * 4
        activated_intermediate=1344,
        feed_forward_output=840,
    )
    found = costs_lib.block_activations(small_model(), SHAPE, "float32", last=True)
    assert found == costs_lib.BlockActivations(
        block_input=840,
        read_input=720,  # 3 * (1 + 5) * 10 * 4
        query_key_value=2400,  # 720 + 2 * 840
        attention_probabilities=1008,  # 3 * 2 * 6 * 7 * 4
        context=720,
        attention_output=720,
        attention_layer_norm=720,
        intermediate=1152,  # 18 * 16 * 4
        activated_intermediate=1152,
        feed_forward_output=720,
    )


@pytest.mark.parametrize(
    ("remat", "kept", "recomputed"),
    [
        ("none", 3 * 10584 + 10152, 0),
        ("attention", 3 * 5208 + 4584, 5568),
        ("block", 4 * 840, 9312),
    ],
)
def test_activation_memory_by_remat(remat, kept, recomputed):
    memory = costs_lib.activation_memory(small_model(), SHAPE, remat, "float32")
    assert (memory.kept, memory.recomputed) == (kept, recomputed)
    assert memory.logits == 6360  # 2 * 15 * 53 * 4
    assert memory.total == kept + recomputed + 6360


@pytest.mark.parametrize(
    ("remat", "queries_at_once", "kept", "recomputed"),
    [
        ("none", 3, 3 * 9408 + 9144, 0),  # 10584 - 1176 and 10152 - 1008
        ("none", 6, 3 * 9408 + 10152, 0),
        ("block", 3, 4 * 840, 8304),
    ],
)
def test_attention_in_parts_keeps_no_probabilities(
    remat, queries_at_once, kept, recomputed
):
    memory = costs_lib.activation_memory(
        small_model(), SHAPE, remat, "float32", queries_at_once
    )
    assert (memory.kept, memory.recomputed) == (kept, recomputed)


def test_the_probabilities_of_a_part_are_held_with_a_block_before_the_last():
    shape = dataclasses.replace(SHAPE, num_predictions=1)
    arguments = small_model(), shape, "block", "float32"
    memory = costs_lib.activation_memory(*arguments, queries_at_once=5)
    # 9744 - 1176, and 3 * 2 * 5 * 7 * 4
    assert (memory.kept, memory.recomputed) == (3 * 840, 8568 + 840)


def test_the_most_may_be_held_after_the_last_block():
    shape = dataclasses.replace(SHAPE, num_predictions=1)
    last = costs_lib.block_activations(small_model(), shape, "float32", last=True)
    assert last.total < 9744
    memory = costs_lib.activation_memory(small_model(), shape, "block", "float32")
    assert (memory.kept, memory.recomputed) == (3 * 840, 9744)
    alone = small_model(num_layers=1)
    memory = costs_lib.activation_memory(alone, shape, "block", "float32")
    assert memory.kept + memory.recomputed == last.total


def test_bfloat16_halves_the_activations_of_blocks_and_not_the_logits():
    memory = costs_lib.activation_memory(small_model(), SHAPE, "none", "bfloat16")
    assert (memory.kept, memory.logits) == (20952, 6360)


@pytest.mark.parametrize("num_layers", [1, 2, 24])
def test_more_recomputation_takes_more_products_and_less_memory(num_layers):
    model = small_model(num_layers=num_layers)
    memory, products = (
        [count(remat) for remat in config.REMATS]
        for count in (
            lambda remat: (
                costs_lib.activation_memory(model, SHAPE, remat, "float32").total
            ),
            lambda remat: costs_lib.step_flops(model, SHAPE, remat).total,
        )
    )
    assert products == sorted(set(products))
    if num_layers == 1:
        # All of the only block is held at once, in whichever way it came about.
        assert len(set(memory)) == 1
    else:
        assert memory == sorted(set(memory), reverse=True)


# ---- Recipes ----


def test_a_recipe_costs_all_its_steps_and_reduces_all_its_gradients():
    costs = costs_lib.recipe_costs(small_recipe())
    shape = costs_lib.BatchShape(24, 20, 3)
    model = small_recipe().model
    assert costs.forward_flops == costs_lib.forward_flops(model, shape)
    assert costs.step_flops.total == 3 * costs.forward_flops.total
    assert costs.training_flops == 9 * costs.step_flops.total
    assert costs.tokens_per_step == 480
    assert costs.parameters.total == 1573 + 9 * 6  # nine positions more
    assert costs.reduced_gradient_bytes == 4 * 1627
    assert costs.weight_and_slot_bytes == 12 * 1627
    with_average = config_io.override(small_recipe(), ["train.ema_decay=0.99"])
    assert costs_lib.recipe_costs(with_average).weight_and_slot_bytes == 16 * 1627


def test_packed_rows_cost_what_their_shape_does():
    recipe = small_recipe()
    packed = dataclasses.replace(
        recipe, data=dataclasses.replace(recipe.data, pack_sequences=2)
    )
    # Twice 20 tokens, 8 sequences, and 0.15 * 40 + 8 * 0.55 masked tokens.
    shape = costs_lib.BatchShape(24, 40, 10, 8)
    assert shape.num_read == 24 * 18
    costs = costs_lib.recipe_costs(packed)
    assert costs.tokens_per_step == 960
    assert costs.forward_flops == costs_lib.forward_flops(recipe.model, shape)
    hidden = recipe.model.hidden_size
    assert costs.forward_flops.pooler == 2 * 24 * 8 * hidden * hidden
    assert costs.forward_flops.sentence_pair == 2 * 24 * 8 * hidden * 2


def test_replicas_and_accumulation_divide_the_activations_and_nothing_else():
    whole = costs_lib.recipe_costs(small_recipe())
    part = costs_lib.recipe_costs(small_recipe(accumulation_steps=2), num_replicas=3)
    assert part.activation_bytes.total * 6 == whole.activation_bytes.total
    activations = dataclasses.asdict(part)["activation_bytes"]
    assert dataclasses.asdict(part) == (
        dataclasses.asdict(whole) | {"activation_bytes": activations}
    )


@pytest.mark.parametrize("num_replicas", [0, 5])
def test_a_batch_that_cannot_be_divided_is_refused(num_replicas):
    message = f"must be a multiple.*received 24, {num_replicas} and 2"
    with pytest.raises(ValueError, match=message):
        costs_lib.recipe_costs(small_recipe(accumulation_steps=2), num_replicas)


_SAME_MEMORY = {"Reshape", "Identity", "IdentityN", "ExpandDims", "Squeeze"}
_HELD_ANYWAY = {"Placeholder", "Const", "ReadVariableOp"}


def _bytes_kept(
    sizes: config.ModelConfig, compute: compute_lib.Compute, positions=None
) -> int:
    """What ops of the backward pass read of what those of the forward pass made."""
    model = pretraining_model.build_pretraining_model(sizes, seed=1, compute=compute)
    num_forward = 0

    @tf.function(autograph=False)
    def gradients(ids):
        nonlocal num_forward
        with tf.GradientTape() as tape:
            if positions is None:
                encoded = model.encoder(ids, ids, ids).sequence_output
            else:
                encoded = model.encoder.encode_at(ids, ids, ids, positions)
            loss = tf.reduce_sum(encoded)
        num_forward = len(tf.compat.v1.get_default_graph().get_operations())
        found = tape.gradient(loss, model.encoder.trainable_variables)
        return [tf.convert_to_tensor(g) for g in found if g is not None]

    ids = tf.TensorSpec([SHAPE.batch_size, SHAPE.length], tf.int32)
    operations = gradients.get_concrete_function(ids).graph.get_operations()
    forward = set(operations[:num_forward])

    def origin(tensor):
        while tensor.op.type in _SAME_MEMORY:
            outputs = [output.ref() for output in tensor.op.outputs]
            place = outputs.index(tensor.ref()) if len(outputs) > 1 else 0
            tensor = tensor.op.inputs[place]
        return tensor

    read = {
        origin(tensor).ref()
        for operation in operations[num_forward:]
        for tensor in operation.inputs
        if tensor.op in forward
    }
    tensors = [reference.deref() for reference in read]
    return sum(
        tensor.shape.num_elements() * tensor.dtype.size
        for tensor in tensors
        if tensor.dtype.is_floating and tensor.op.type not in _HELD_ANYWAY
    )


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize(
    ("remat", "queries_at_once"),
    [*((remat, 0) for remat in config.REMATS), ("none", 3)],
)
def test_a_layer_keeps_what_the_arithmetic_says(remat, queries_at_once, dtype):
    compute = compute_lib.Compute(
        dtype,
        fuse_elementwise=True,
        remat=remat,
        queries_at_once=queries_at_once,
    )
    four, five = (small_model(sharing="all", num_layers=depth) for depth in (4, 5))
    counted = [
        costs_lib.activation_memory(sizes, SHAPE, remat, dtype, queries_at_once).kept
        for sizes in (four, five)
    ]
    found = [_bytes_kept(sizes, compute) for sizes in (four, five)]
    assert found[1] - found[0] == counted[1] - counted[0]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_last_layer_keeps_what_the_arithmetic_says(dtype):
    compute = compute_lib.Compute(dtype, fuse_elementwise=True)
    positions = tf.zeros([SHAPE.batch_size, 1 + SHAPE.num_predictions], tf.int32)
    everywhere, read = (
        costs_lib.block_activations(small_model(), SHAPE, dtype, last).total
        for last in (False, True)
    )
    found = [_bytes_kept(small_model(), compute, where) for where in (None, positions)]
    assert found[0] - found[1] == everywhere - read
