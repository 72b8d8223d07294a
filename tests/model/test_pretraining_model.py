"""The model equals the original in every output, loss and gradient."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.core import config, config_io
from albert_tf.model import compute as compute_lib
from albert_tf.model import pretraining_model, stateless_random
from albert_tf.training import losses, objectives, train_step
from tests.support import golden

TOLERANCE = 1e-5  # largest absolute difference, float32
# The original keeps it as [2, H]; our kernels are [inputs, units].
_TRANSPOSED = "cls/seq_relationship/output_weights"


def _largest_difference(ours, theirs) -> float:
    assert ours.shape == theirs.shape
    return float(np.max(np.abs(np.asarray(ours) - theirs)))


@pytest.fixture(params=["model_g1", "model_g2"], scope="module")
def arrays(request):
    return golden.load(request.param)


# Every form of the computation is held to the same numbers.
@pytest.fixture(
    params=[
        compute_lib.Compute(),
        compute_lib.Compute(fuse_elementwise=True),
        compute_lib.Compute(remat="attention"),
        compute_lib.Compute(fuse_elementwise=True, remat="block"),
    ],
    ids=str,
    scope="module",
)
def compute(request):
    return request.param


@pytest.fixture(scope="module")
def model(arrays, compute):
    model = pretraining_model.build_pretraining_model(
        golden.model_config(arrays), seed=1, compute=compute
    )
    golden.assign(model, golden.variables(arrays, "var/"))
    return model


@pytest.mark.parametrize("compiled", [False, True])
def test_outputs_equal_the_original(arrays, model, compiled):
    outputs = tf.function(model, jit_compile=compiled, autograph=False)(
        golden.features(arrays)
    )
    encoded = outputs.encoder
    mlm_logits = tf.reshape(outputs.mlm.logits, [-1, outputs.mlm.logits.shape[-1]])
    found = {
        "out/embedding_output": encoded.embedding_output,
        "out/sequence_output": encoded.sequence_output,
        "out/pooled_output": encoded.pooled_output,
        "out/mlm_logits": mlm_logits,
        "out/mlm_log_probs": tf.nn.log_softmax(mlm_logits),
        "out/sop_logits": outputs.pair_logits,
        "out/sop_log_probs": tf.nn.log_softmax(outputs.pair_logits),
    }
    for depth, hidden in enumerate(encoded.all_layers):
        found[f"out/all_layers/{depth}"] = hidden
    assert {name for name in arrays if name.startswith("out/all_layers")} <= set(found)
    for name, value in found.items():
        golden.assert_near(value, arrays[name], TOLERANCE, name)


def test_the_scores_of_a_step_are_those_of_the_whole_output(arrays, model):
    features = golden.features(arrays)
    found, outputs = model.scores(features), model(features)
    mlm_logits = outputs.mlm.logits
    golden.assert_near(found.mlm.logits, mlm_logits, TOLERANCE, "MLM")
    golden.assert_near(found.pair_logits, outputs.pair_logits, TOLERANCE, "pair")


@pytest.mark.parametrize("num_parts", [1, 2, 4])
def test_losses_and_gradients_equal_the_original(arrays, model, num_parts):
    features = {k: tf.constant(v) for k, v in golden.features(arrays).items()}
    mlm_weight = tf.reduce_sum(features["masked_lm_weights"])
    objective = objectives.PretrainingObjective("sop")

    @tf.function(autograph=False)
    def gradients_and_sums():
        return train_step.accumulate_gradients(
            lambda part, seed: train_step.compute_gradients(
                objective, model, part, seed, mlm_weight, 4.0
            ),
            features,
            num_parts,
            dropout_seed=tf.constant([1, 2]),
        )

    gradients, sums = gradients_and_sums()
    mlm_loss = sums["mlm_loss"] / (mlm_weight + losses.WEIGHT_EPSILON)
    golden.assert_near(mlm_loss, arrays["out/mlm_loss"], TOLERANCE, "mlm_loss")
    sop_loss = sums["pair_loss"] / 4.0
    golden.assert_near(sop_loss, arrays["out/sop_loss"], TOLERANCE, "sop_loss")
    norm = tf.linalg.global_norm(gradients)
    golden.assert_near(norm, arrays["out/global_grad_norm"], TOLERANCE, "norm")
    expected = golden.variables(arrays, "grad/")
    for gradient, variable in zip(gradients, model.trainable_variables, strict=True):
        name = variable.name
        golden.assert_near(gradient, expected.pop(name), TOLERANCE, name)
    assert not expected


def test_example_losses_equal_the_original(arrays, model):
    features = golden.features(arrays)
    outputs = model(features)
    for row in range(4):
        weights = tf.one_hot(row, 4)
        sums = losses.sentence_pair(
            outputs.pair_logits, features["next_sentence_labels"], weights
        )
        expected = arrays["out/sop_example_loss"][row]
        golden.assert_near(sums.loss, expected, TOLERANCE, "example loss")


def _small_config(**changes) -> config.ModelConfig:
    values = {
        "vocab_size": 53,
        "embedding_size": 6,
        "hidden_size": 10,
        "num_layers": 4,
        "num_heads": 2,
        "intermediate_size": 14,
        "max_positions": 11,
    }
    return config.ModelConfig(**{**values, **changes})


def _small_features(batch_size=3, length=7, predictions=5):
    rng = np.random.default_rng(0)
    return {
        "input_ids": rng.integers(5, 53, (batch_size, length), dtype=np.int32),
        "input_mask": np.ones((batch_size, length), np.int32),
        "segment_ids": rng.integers(0, 2, (batch_size, length), dtype=np.int32),
        "masked_lm_positions": rng.integers(
            0, length, (batch_size, predictions), dtype=np.int32
        ),
    }


def _ids(features):
    return {k: v for k, v in features.items() if k != "masked_lm_positions"}


def test_no_projection_where_embeddings_are_as_wide_as_the_hidden_layers():
    bert = pretraining_model.build_pretraining_model(
        _small_config(embedding_size=10), seed=1
    )
    assert bert.encoder.embedding_projection is None
    outputs = bert(_small_features())
    assert outputs.mlm.logits.shape == (3, 5, 53)


def test_padding_does_not_change_real_positions():
    model = pretraining_model.build_pretraining_model(_small_config(), seed=1)
    features = _ids(_small_features())
    padded = {name: np.pad(value, [[0, 0], [0, 3]]) for name, value in features.items()}
    padded["input_ids"][:, 7:] = 9
    ours = model.encoder(**features).sequence_output
    theirs = model.encoder(**padded).sequence_output[:, :7]
    assert _largest_difference(ours, theirs.numpy()) < TOLERANCE


def test_weights_follow_from_the_seed_and_differ_between_parts():
    first, again, other = (
        pretraining_model.build_pretraining_model(_small_config(), seed=seed)
        for seed in (7, 7, 8)
    )
    for one, same in zip(first.weights, again.weights, strict=True):
        np.testing.assert_array_equal(one.numpy(), same.numpy())
    attention = first.encoder.blocks[0].attention
    assert _largest_difference(attention.query.kernel, attention.key.kernel.numpy()) > 0
    assert (
        _largest_difference(
            first.encoder.embeddings.word_embeddings,
            other.encoder.embeddings.word_embeddings.numpy(),
        )
        > 0
    )


def test_dropout_draws_anew_for_each_layer_step_and_replica_and_only_then():
    model = pretraining_model.build_pretraining_model(
        _small_config(hidden_dropout_rate=0.5, attention_dropout_rate=0.5), seed=1
    )
    features = _ids(_small_features())

    def run(seed):
        return model.encoder(**features, dropout_seed=seed).sequence_output.numpy()

    first = run(tf.constant([1, 2]))
    np.testing.assert_array_equal(first, run(tf.constant([1, 2])))
    assert np.max(np.abs(first - run(tf.constant([1, 3])))) > 0.01
    assert np.max(np.abs(first - run(None))) > 0.01


@pytest.mark.parametrize("rate", [0.0, 0.1])
def test_seeds_are_derived_only_for_dropout(rate):
    model = pretraining_model.build_pretraining_model(
        _small_config(hidden_dropout_rate=rate, attention_dropout_rate=0.0), seed=1
    )
    features = tf.ones([2, 8], tf.int32)
    graph = tf.function(
        lambda seed: model.encoder(features, features, features, dropout_seed=seed),
        autograph=False,
    ).get_concrete_function(tf.constant([1, 2]))
    drawn = [op.type for op in graph.graph.get_operations() if "Stateless" in op.type]
    assert bool(drawn) == (rate > 0.0)


def test_every_application_step_and_replica_has_a_dropout_key_of_its_own(monkeypatch):
    model = pretraining_model.build_pretraining_model(
        _small_config(hidden_dropout_rate=0.1, attention_dropout_rate=0.1), seed=1
    )
    keys = []
    drop = stateless_random.dropout

    def recorded(inputs, rate, dropout_seed):
        keys.append(tuple(dropout_seed.numpy()))
        return drop(inputs, rate, dropout_seed)

    monkeypatch.setattr(stateless_random, "dropout", recorded)
    for step in range(3):
        for replica in range(2):
            key = stateless_random.fold_in(tf.constant([1, step]), replica)
            model.encoder(**_ids(_small_features()), dropout_seed=key)
    # Embeddings once, and for each of 4 layers probabilities and the ends of its parts.
    assert len(set(keys)) == len(keys) == 3 * 2 * (1 + 4 * 3)


def test_dropout_zeroes_its_share_and_masks_of_other_keys_are_independent():
    ones = tf.ones([10000])
    masks = [
        stateless_random.dropout(
            ones, 0.25, stateless_random.fold_in(tf.constant([1, 2]), depth)
        ).numpy()
        for depth in range(3)
    ]
    for mask in masks:
        np.testing.assert_allclose(np.unique(mask), [0.0, 4.0 / 3.0], rtol=1e-6)
        # 2500 expected, with a deviation of 43: four and a half of them.
        assert abs(np.sum(mask == 0.0) - 2500) < 195
    for one, other in ((0, 1), (0, 2), (1, 2)):
        # Independent masks both drop 625, with a deviation of 24.
        both = np.sum((masks[one] == 0.0) & (masks[other] == 0.0))
        assert abs(both - 625) < 110


def test_bfloat16_activations_stay_near_float32():
    exact = pretraining_model.build_pretraining_model(_small_config(), seed=1)
    rounded = pretraining_model.build_pretraining_model(
        _small_config(), 1, compute_lib.Compute("bfloat16")
    )
    features = _small_features()
    difference = _largest_difference(
        rounded(features).mlm.logits, exact(features).mlm.logits.numpy()
    )
    assert 0 < difference < 0.02
    assert {weight.dtype for weight in rounded.weights} == {tf.float32}


@pytest.mark.parametrize("size", ["base", "large", "xlarge", "xxlarge"])
def test_variables_have_the_originals_names_and_shapes(size):
    expected = {
        golden.our_name(name): shape[::-1] if name == _TRANSPOSED else shape
        for name, shape in golden.load_json("full_albert_variables")[size].items()
    }
    sizes = config_io.load(f"configs/albert_{size}.py").model
    with tf.Graph().as_default():  # where variables take no memory
        model = pretraining_model.build_pretraining_model(sizes, seed=1)
        found = {v.name: v.shape.as_list() for v in model.trainable_variables}
    assert found == expected


def test_permuting_a_batch_permutes_the_outputs(compute):
    model = pretraining_model.build_pretraining_model(_small_config(), 1, compute)
    features = _small_features()
    order = [2, 0, 1]
    permuted = {name: value[order] for name, value in features.items()}
    run = tf.function(model, autograph=False)
    ours, theirs = run(permuted), run(features)
    for one, other in zip(
        (ours.mlm.logits, ours.pair_logits, *ours.encoder.all_layers),
        (theirs.mlm.logits, theirs.pair_logits, *theirs.encoder.all_layers),
        strict=True,
    ):
        assert _largest_difference(one, other.numpy()[order]) < TOLERANCE


def test_a_token_that_is_masked_out_changes_nothing(compute):
    model = pretraining_model.build_pretraining_model(_small_config(), 1, compute)
    features = _small_features()
    features["input_mask"] = np.array([[1] * 7, [1] * 4 + [0] * 3, [1] * 6 + [0]])
    features["input_mask"] = features["input_mask"].astype(np.int32)
    hidden = features["input_mask"] == 0
    changed = {name: value.copy() for name, value in features.items()}
    changed["input_ids"][hidden] = 5 + (features["input_ids"][hidden] + 9) % 48
    changed["segment_ids"][hidden] = 1 - features["segment_ids"][hidden]
    run = tf.function(lambda batch: model.encoder(**_ids(batch)), autograph=False)
    before, after = run(features), run(changed)
    seen = ~hidden
    for one, other in zip(before.all_layers, after.all_layers, strict=True):
        np.testing.assert_array_equal(one.numpy()[seen], other.numpy()[seen])
        assert np.max(np.abs(one.numpy()[hidden] - other.numpy()[hidden])) > 0.01
    np.testing.assert_array_equal(before.pooled_output, after.pooled_output)
    # And where it is not masked out, it does.
    changed["input_mask"][:] = 1
    assert _largest_difference(run(changed).pooled_output, after.pooled_output) > 0.0


@pytest.mark.parametrize("ask", ["call", "scores"])
def test_rows_longer_than_the_positions_are_refused_in_words(ask):
    model = pretraining_model.build_pretraining_model(
        _small_config(max_positions=8), seed=1
    )
    ids = tf.ones([2, 9], tf.int32)
    features = {
        "input_ids": ids,
        "input_mask": ids,
        "segment_ids": tf.zeros_like(ids),
        "masked_lm_positions": ids[:, :1],
    }
    call = model if ask == "call" else model.scores
    with pytest.raises(
        ValueError, match="at most 8 tokens, the positions of the model"
    ):
        call(features)
