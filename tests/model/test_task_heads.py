"""The heads of fine-tuning equal the original in outputs and losses."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.core import config
from albert_tf.model import compute, pretraining_model, task_model
from albert_tf.training import task_losses
from tests.support import golden

TOLERANCE = 1e-5  # largest absolute difference, float32

# The settings under which each head is built here, without dropout.
SETTINGS = {
    "classification": {"num_classes": 3, "dropout_rate": 0.0},
    "regression": {"dropout_rate": 0.0},
    "token_classification": {"num_classes": 5, "dropout_rate": 0.0},
    "span": {},
    "answerable_span": {"num_starts": 3, "num_ends": 2, "dropout_rate": 0.0},
    "multiple_choice": {"dropout_rate": 0.0},
}
WITH_DROPOUT = [kind for kind in SETTINGS if "dropout_rate" in SETTINGS[kind]]

# What adds the same to all the scores of a softmax changes nothing.
UNFELT = {
    "classification": ("attention/key/bias:0",),
    "regression": ("attention/key/bias:0",),
    "token_classification": ("attention/key/bias:0",),
    "span": ("attention/key/bias:0", "span/output/bias:0"),
    "answerable_span": (
        "attention/key/bias:0",
        "start_output/bias:0",
        "end_layer_norm/beta:0",
        "end_output/bias:0",
    ),
    "multiple_choice": ("attention/key/bias:0", "multiple_choice/output/bias:0"),
}

# The original's variables in each of its graphs, and ours below `albert/`.
ORIGINAL_NAMES = {
    "head_classifier3": {
        "output_weights": "classifier/output/kernel",
        "output_bias": "classifier/output/bias",
    },
    "head_regression_stsb": {
        "output_weights": "regression/output/kernel",
        "output_bias": "regression/output/bias",
    },
    "head_squad1": {
        "cls/squad/output_weights": "span/output/kernel",
        "cls/squad/output_bias": "span/output/bias",
    },
    "head_squad2_train": {
        f"{original}/{last}": f"answerable_span/{ours}/{last}"
        for original, ours, lasts in (
            ("start_logits/dense", "start_output", ("kernel", "bias")),
            ("end_logits/dense_0", "end_transform", ("kernel", "bias")),
            ("end_logits/LayerNorm", "end_layer_norm", ("gamma", "beta")),
            ("end_logits/dense_1", "end_output", ("kernel", "bias")),
            ("answer_class/dense_0", "answer_transform", ("kernel", "bias")),
            ("answer_class/dense_1", "answer_output", ("kernel",)),
        )
        for last in lasts
    },
}
ORIGINAL_NAMES["head_squad2_infer"] = ORIGINAL_NAMES["head_squad2_train"]


def _largest_difference(ours, theirs) -> float:
    ours, theirs = np.asarray(ours), np.asarray(theirs)
    assert ours.shape == theirs.shape
    return float(np.max(np.abs(ours - theirs)))


def _original(name: str, kind: str, **settings):
    """A model with the original's weights, its batch, and the original's results."""
    encoder_arrays, arrays = golden.load("model_g1"), golden.load(name)
    model = task_model.build_task_model(
        golden.model_config(encoder_arrays), kind, seed=1, **settings
    )
    values = {
        variable: value
        for variable, value in golden.variables(encoder_arrays, "var/").items()
        if variable.startswith("albert/encoder/")
    }
    for original, ours in ORIGINAL_NAMES[name].items():
        value = arrays[f"var/{original}"]
        # There, [classes, H].
        value = value.T if original.endswith("output_weights") else value
        values[f"albert/{ours}:0"] = value
    golden.assign(model, values)
    features = golden.features(encoder_arrays)
    for extra, value in arrays.items():
        if extra.startswith("extra/"):
            features[extra.removeprefix("extra/")] = value
    return model, features, arrays


def _means_of_examples(sums_fn) -> list[float]:
    """The loss of each of four examples, by weights that leave out the others."""
    rows = [sums_fn(tf.one_hot(row, 4)) for row in range(4)]
    assert [float(row.weight) for row in rows] == [1.0] * 4
    return [float(row.loss) for row in rows]


@pytest.mark.parametrize("compiled", [False, True])
def test_classifier_equals_the_original(compiled):
    model, features, arrays = _original(
        "head_classifier3", "classification", num_classes=3, dropout_rate=0.1
    )
    outputs = tf.function(model, jit_compile=compiled, autograph=False)(features)
    golden.assert_near(outputs.logits, arrays["out/logits"], TOLERANCE, "logits")
    golden.assert_near(outputs.probabilities, arrays["out/probs"], TOLERANCE, "probs")
    found = np.argmax(outputs.logits, -1)
    np.testing.assert_array_equal(found, arrays["out/pred"])
    labels = features["labels"]
    sums = task_losses.classification(outputs.logits, labels, tf.ones([4]))
    golden.assert_near(sums.loss / sums.weight, arrays["out/loss"], TOLERANCE, "loss")
    assert float(sums.correct) == np.sum(arrays["out/pred"] == labels)
    losses = _means_of_examples(
        lambda weights: task_losses.classification(outputs.logits, labels, weights)
    )
    golden.assert_near(losses, arrays["out/per_example"], TOLERANCE, "per_example")


@pytest.mark.parametrize("compiled", [False, True])
def test_regression_equals_the_original(compiled):
    model, features, arrays = _original(
        "head_regression_stsb", "regression", dropout_rate=0.1
    )
    found = tf.function(model, jit_compile=compiled, autograph=False)(
        features
    ).predictions
    golden.assert_near(found, arrays["out/pred"], TOLERANCE, "pred")
    targets = features["labels"]
    sums = task_losses.regression(found, targets, tf.ones([4]))
    golden.assert_near(sums.loss / sums.weight, arrays["out/loss"], TOLERANCE, "loss")
    losses = _means_of_examples(
        lambda weights: task_losses.regression(found, targets, weights)
    )
    golden.assert_near(losses, arrays["out/per_example"], TOLERANCE, "per_example")


@pytest.mark.parametrize("compiled", [False, True])
def test_span_equals_the_original(compiled):
    model, features, arrays = _original("head_squad1", "span")
    outputs = tf.function(model, jit_compile=compiled, autograph=False)(features)
    for name in ("start_logits", "end_logits"):
        found = getattr(outputs, name)
        golden.assert_near(found, arrays[f"out/{name}"], TOLERANCE, name)


@pytest.mark.parametrize("compiled", [False, True])
def test_answerable_span_equals_the_original_in_training(compiled):
    model, features, arrays = _original(
        "head_squad2_train",
        "answerable_span",
        num_starts=5,
        num_ends=5,
        dropout_rate=0.1,
    )
    outputs = tf.function(model, jit_compile=compiled, autograph=False)(features)
    for name, expected in (
        ("start_log_probs", arrays["out/start_log_probs"]),
        ("end_log_probs", arrays["out/end_log_probs"]),
        ("impossible_logits", arrays["out/cls_logits"]),
    ):
        golden.assert_near(getattr(outputs, name), expected, TOLERANCE, name)
    labels = [
        features[name] for name in ("start_positions", "end_positions", "is_impossible")
    ]
    whole = task_losses.answerable_span(*outputs, *labels, tf.ones([4]))
    expected = arrays["out/total_loss"]
    golden.assert_near(whole.loss / whole.weight, expected, TOLERANCE, "loss")
    # However the batch is cut.
    losses = _means_of_examples(
        lambda weights: task_losses.answerable_span(*outputs, *labels, weights)
    )
    golden.assert_near(np.mean(losses), expected, TOLERANCE, "mean loss")


@pytest.mark.parametrize("compiled", [False, True])
def test_answerable_span_finds_the_beams_of_the_original(compiled):
    model, features, arrays = _original(
        "head_squad2_infer",
        "answerable_span",
        num_starts=5,
        num_ends=5,
        dropout_rate=0.1,
    )
    del features["start_positions"], features["end_positions"]
    beams = tf.function(model.infer, jit_compile=compiled, autograph=False)(features)
    assert beams.end_positions.shape == (4, 5, 5)
    flat = [4, 25]
    for found, name in (
        (beams.start_positions, "start_top_index"),
        (tf.reshape(beams.end_positions, flat), "end_top_index"),
    ):
        assert found.dtype == tf.int32
        np.testing.assert_array_equal(found, arrays[f"out/{name}"], name)
    for found, name in (
        (beams.start_log_probs, "start_top_log_probs"),
        (tf.reshape(beams.end_log_probs, flat), "end_top_log_probs"),
        (beams.impossible_logits, "cls_logits"),
    ):
        golden.assert_near(found, arrays[f"out/{name}"], TOLERANCE, name)


def test_classification_loss_is_the_cross_entropy():
    # 1 + 3 = 4: the right class has a quarter, then three quarters.
    logits = np.log([[1.0, 3.0], [1.0, 3.0], [5.0, 5.0]])
    labels = np.array([0, 1, 1], np.int32)
    sums = task_losses.classification(logits, labels, np.float32([1, 1, 0]))
    assert abs(float(sums.loss) - np.log(4) - np.log(4 / 3)) < 1e-6
    assert (float(sums.correct), float(sums.weight)) == (1.0, 2.0)


def test_regression_loss_is_the_squared_error():
    found, targets = np.float32([1, 2, 9]), np.float32([3, 2.5, 0])
    sums = task_losses.regression(found, targets, np.float32([1, 1, 0]))
    assert [float(value) for value in sums] == [4.25, 0.0, 2.0]


def test_span_loss_is_the_mean_of_start_and_end():
    start, end = np.log([[2.0, 1.0, 1.0]]), np.log([[1.0, 1.0, 6.0]])
    sums = task_losses.span(start, end, [0], [2], [1.0])
    assert abs(float(sums.loss) - 0.5 * (np.log(4 / 2) + np.log(8 / 6))) < 1e-6
    assert float(sums.correct) == 1.0
    for half_right in ([0], [1]), ([1], [2]):
        sums = task_losses.span(start, end, *half_right, [1.0])
        assert float(sums.correct) == 0.0


def test_answerable_span_is_right_only_with_the_answerability():
    log_probs = np.log([[0.5, 0.25, 0.25]])
    sums = task_losses.answerable_span(
        log_probs, log_probs, [0.0], [0], [0], [0], [1.0], impossible_weight=3.0
    )
    # ln 2 for the span, and three times ln 2 for an answerability of one half.
    assert abs(float(sums.loss) - 4 * np.log(2)) < 1e-6
    assert float(sums.correct) == 1.0
    for is_impossible, correct in ((0, 0.0), (1, 1.0)):
        sums = task_losses.answerable_span(
            log_probs, log_probs, [0.1], [0], [0], [is_impossible], [1.0]
        )
        assert float(sums.correct) == correct


def _small_config(**changes) -> config.ModelConfig:
    values = {
        "vocab_size": 53,
        "embedding_size": 6,
        "hidden_size": 10,
        "num_layers": 2,
        "num_heads": 2,
        "intermediate_size": 14,
        "max_positions": 11,
        # As wide as to spread what is scored.
        "initializer_range": 0.3,
    }
    return config.ModelConfig(**{**values, **changes})


def _build(kind: str, **changes) -> task_model.TaskModel:
    settings = {**SETTINGS[kind], **changes}
    return task_model.build_task_model(_small_config(), kind, seed=1, **settings)


def _ways_of(model: task_model.TaskModel):
    """What computes outputs: two ways where finding them takes a search."""
    return (model, model.infer) if model.head.name == "answerable_span" else (model,)


def _small_features(kind: str) -> dict[str, np.ndarray]:
    """Three texts of length 7; for choices, four texts in each example."""
    rng = np.random.default_rng(0)
    shape = (3, 4, 7) if kind == "multiple_choice" else (3, 7)
    p_mask = np.float32([[0, 1, 1, 0, 0, 0, 1]] * 3)
    return {
        "input_ids": rng.integers(5, 53, shape, dtype=np.int32),
        "input_mask": np.ones(shape, np.int32),
        "segment_ids": rng.integers(0, 2, shape, dtype=np.int32),
        "p_mask": p_mask,
        "start_positions": np.array([0, 3, 4], np.int32),
    }


def _loss(kind: str, outputs) -> tf.Tensor:
    ones, starts = tf.ones([3]), tf.constant([0, 3, 4])
    ends, labels = tf.constant([0, 5, 4]), tf.constant([1, 0, 2])
    if kind == "regression":
        targets = tf.constant([0.5, 2.0, 5.0])
        return task_losses.regression(*outputs, targets, ones).loss
    if kind == "span":
        return task_losses.span(*outputs, starts, ends, ones).loss
    if kind == "answerable_span":
        impossible = tf.constant([1, 0, 0])
        return task_losses.answerable_span(
            *outputs, starts, ends, impossible, ones
        ).loss
    if kind == "token_classification":
        labels, ones = tf.tile(labels[:, None], [1, 7]), tf.ones([3, 7])
    return task_losses.classification(outputs.logits, labels, ones).loss


@pytest.mark.parametrize(
    ("kind", "shapes"),
    [
        ("classification", [(3, 3), (3, 3)]),
        ("regression", [(3,)]),
        ("token_classification", [(3, 7, 5), (3, 7, 5)]),
        ("span", [(3, 7), (3, 7)]),
        ("answerable_span", [(3, 3), (3, 3), (3, 3, 2), (3, 3, 2), (3,)]),
        ("multiple_choice", [(3, 4), (3, 4)]),
    ],
)
def test_shapes(kind, shapes):
    outputs = _build(kind).infer(_small_features(kind))
    assert [tuple(output.shape) for output in outputs] == shapes


def test_probabilities_of_the_choices_add_up_to_one_over_the_choices():
    outputs = _build("multiple_choice")(_small_features("multiple_choice"))
    sums = tf.reduce_sum(outputs.probabilities, axis=1)
    assert _largest_difference(sums, np.ones(3)) < TOLERANCE


@pytest.mark.parametrize("kind", SETTINGS)
def test_gradients_reach_every_variable(kind):
    model, features = _build(kind), _small_features(kind)

    @tf.function(jit_compile=True, autograph=False)
    def gradients(features):
        with tf.GradientTape() as tape:
            loss = _loss(kind, model(features, dropout_seed=tf.constant([1, 2])))
        found = tape.gradient(loss, model.trainable_variables)
        return {
            variable.name: tf.convert_to_tensor(gradient)
            for variable, gradient in zip(model.trainable_variables, found, strict=True)
            if gradient is not None
        }

    found = gradients(features)
    unused = {variable.name for variable in model.variables} - set(found)
    expected = set()
    if kind in ("token_classification", "span", "answerable_span"):
        # They read the sequence, and the pooler is behind it.
        expected = {"albert/encoder/pooler/kernel:0", "albert/encoder/pooler/bias:0"}
    assert unused == expected
    for name, gradient in found.items():
        largest = np.max(np.abs(gradient))
        if name.endswith(UNFELT[kind]):
            assert largest < TOLERANCE, name
        else:
            assert TOLERANCE < largest < 1e3, name


@pytest.mark.parametrize("kind", SETTINGS)
def test_the_last_layer_is_computed_where_the_head_reads_it(kind, monkeypatch):
    model, features = _build(kind), _small_features(kind)
    feed_forward = type(model.encoder.blocks[0].feed_forward)
    call, lengths = feed_forward.call, []

    def record(self, hidden, *args, **more):
        lengths.append(hidden.shape[1])
        return call(self, hidden, *args, **more)

    monkeypatch.setattr(feed_forward, "call", record)
    model(features)
    last = 1 if kind in ("classification", "regression", "multiple_choice") else 7
    assert lengths == [7] * (len(lengths) - 1) + [last]
    assert len(lengths) > 1


@pytest.mark.parametrize("kind", SETTINGS)
def test_compiled_outputs_equal_uncompiled(kind):
    model, features = _build(kind), _small_features(kind)
    for call in _ways_of(model):
        for ours, theirs in zip(
            tf.function(call, jit_compile=True, autograph=False)(features),
            call(features),
            strict=True,
        ):
            assert _largest_difference(ours, theirs) < TOLERANCE


@pytest.mark.parametrize("kind", WITH_DROPOUT)
def test_head_drops_out_only_with_a_seed_and_as_the_seed_says(kind):
    model, features = _build(kind, dropout_rate=0.5), _small_features(kind)
    plain = _build(kind)(features)[-1]
    assert _largest_difference(model(features)[-1], plain) == 0.0
    one, again, other = (
        model(features, dropout_seed=tf.constant(seed))[-1]
        for seed in ([1, 2], [1, 2], [1, 3])
    )
    assert _largest_difference(one, again) == 0.0
    assert _largest_difference(one, plain) > TOLERANCE
    assert _largest_difference(one, other) > TOLERANCE


def test_dropout_of_the_head_is_its_own():
    """The encoder's outputs, here the span scores, know nothing of the head's rate."""
    kind, seed = "answerable_span", tf.constant([1, 2])
    features = _small_features(kind)
    outputs = _build(kind, dropout_rate=0.5)(features, dropout_seed=seed)
    plain = _build(kind)(features)
    assert _largest_difference(outputs.end_log_probs, plain.end_log_probs) == 0.0


def test_a_position_that_is_ruled_out_is_never_chosen():
    model = _build("answerable_span", num_starts=4, num_ends=4)
    features = _small_features("answerable_span")
    beams = model.infer(features)
    for positions in (beams.start_positions, tf.reshape(beams.end_positions, [-1, 4])):
        for row in positions.numpy():
            assert sorted(row) == [0, 3, 4, 5]
    # With one place more than there are free positions, its probability is 0.
    wider = _build("answerable_span", num_starts=5, num_ends=5).infer(features)
    assert np.all(np.exp(wider.start_log_probs[:, :4]) > 0.0)
    assert np.all(np.exp(wider.start_log_probs[:, 4]) == 0.0)
    assert np.all(np.exp(wider.end_log_probs[:, :, 4]) == 0.0)


def test_what_is_ruled_out_does_not_change_the_answer():
    """The states at ruled-out positions reach neither probabilities nor summary."""
    model = _build("answerable_span")
    features = _small_features("answerable_span")
    hidden = model.encoder(
        features["input_ids"], features["input_mask"], features["segment_ids"]
    ).sequence_output
    ruled_out = features["p_mask"][:, :, None] > 0
    other = tf.where(ruled_out, 3.0, hidden)
    assert _largest_difference(other, hidden) > 1.0
    for ours, theirs in zip(
        model.head.infer(other, features),
        model.head.infer(hidden, features),
        strict=True,
    ):
        assert _largest_difference(ours, theirs) < TOLERANCE


def test_ends_of_a_beam_are_those_after_its_start():
    """Training, given a start that the search found, scores the same ends."""
    model = _build("answerable_span", num_starts=3, num_ends=4)
    features = _small_features("answerable_span")
    beams = model.infer(features)
    for beam in range(3):
        given = {**features, "start_positions": beams.start_positions[:, beam]}
        log_probs = model(given).end_log_probs
        expected = tf.gather(log_probs, beams.end_positions[:, beam], batch_dims=1)
        found = beams.end_log_probs[:, beam]
        assert _largest_difference(found, expected) < TOLERANCE
        assert np.all(np.diff(found) <= 0.0)


def test_tokens_without_weight_do_not_change_the_loss():
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(3, 7, 5)).astype(np.float32)
    labels = rng.integers(0, 5, (3, 7), dtype=np.int32)
    weights = np.float32([[1, 1, 1, 1, 0, 0, 0]] * 3)
    expected = task_losses.classification(logits[:, :4], labels[:, :4], np.ones([3, 4]))
    logits[:, 4:] += 9.0
    labels[:, 4:] = -100  # no class at all
    sums = task_losses.classification(logits, labels, weights)
    for ours, theirs in zip(sums, expected, strict=True):
        assert abs(float(ours) - float(theirs)) < TOLERANCE
    assert float(sums.weight) == 12.0


def test_padding_does_not_change_the_classes_of_real_tokens():
    model, features = (
        _build("token_classification"),
        _small_features("token_classification"),
    )
    names = ("input_ids", "input_mask", "segment_ids")
    padded = {name: np.pad(features[name], [[0, 0], [0, 2]]) for name in names}
    padded["input_ids"][:, 7:] = 9
    ours, theirs = model(padded).logits[:, :7], model(features).logits
    assert _largest_difference(ours, theirs) < TOLERANCE


def test_sums_over_parts_are_the_sums_of_the_whole():
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(4, 7, 5)).astype(np.float32)
    labels = rng.integers(0, 5, (4, 7), dtype=np.int32)
    # Parts of unlike weight, so that a mean of means would be another number.
    weights = np.float32(np.arange(7) < [[1], [2], [5], [7]])
    whole = task_losses.classification(logits, labels, weights)
    parts = [
        task_losses.classification(logits[part], labels[part], weights[part])
        for part in (slice(0, 1), slice(1, 4))
    ]
    for total, *values in zip(whole, *parts, strict=True):
        assert abs(float(total) - sum(map(float, values))) < TOLERANCE


def test_choices_are_scored_as_if_alone():
    model, features = _build("multiple_choice"), _small_features("multiple_choice")
    together = model(features).logits
    for choice in range(4):
        alone = {
            name: value[:, [choice]]
            for name, value in features.items()
            if name in ("input_ids", "input_mask", "segment_ids")
        }
        found = model(alone).logits
        assert _largest_difference(found[:, 0], together[:, choice]) < TOLERANCE


@pytest.mark.parametrize("kind", SETTINGS)
def test_permuting_a_batch_permutes_the_outputs(kind):
    model, features = _build(kind), _small_features(kind)
    features["p_mask"][1, 3:5] = 1.0  # unlike rows
    features["start_positions"][1] = 0
    order = [2, 0, 1]
    permuted = {name: value[order] for name, value in features.items()}
    for call in _ways_of(model):
        for ours, theirs in zip(call(permuted), call(features), strict=True):
            assert _largest_difference(ours, np.asarray(theirs)[order]) < TOLERANCE


def test_a_pretraining_checkpoint_restores_into_the_encoder(tmp_path):
    sizes = _small_config()
    pretrained = pretraining_model.build_pretraining_model(sizes, seed=7)
    path = tf.train.Checkpoint(model=pretrained).save(str(tmp_path / "model.ckpt"))
    model = task_model.build_task_model(
        sizes, "classification", seed=8, num_classes=3, dropout_rate=0.1
    )
    status = tf.train.Checkpoint(
        model=tf.train.Checkpoint(encoder=model.encoder)
    ).restore(path)
    status.assert_existing_objects_matched()
    ours = {variable.name: variable.numpy() for variable in model.encoder.variables}
    for variable in pretrained.encoder.variables:
        np.testing.assert_array_equal(ours.pop(variable.name), variable.numpy())
    assert not ours
    assert {v.name for v in model.head.variables} == {
        "albert/classifier/output/kernel:0",
        "albert/classifier/output/bias:0",
    }


@pytest.mark.parametrize("kind", SETTINGS)
def test_weights_follow_from_the_seed(kind):
    first, again, other = (
        task_model.build_task_model(_small_config(), kind, seed, **SETTINGS[kind])
        for seed in (7, 7, 8)
    )
    for one, same, unlike in zip(
        first.head.weights, again.head.weights, other.head.weights, strict=True
    ):
        np.testing.assert_array_equal(one.numpy(), same.numpy())
        if "kernel" in one.name:
            assert _largest_difference(one.numpy(), unlike.numpy()) > 0.0


def test_heads_are_float32_behind_a_bfloat16_encoder():
    model = task_model.build_task_model(
        _small_config(),
        "answerable_span",
        1,
        compute.Compute("bfloat16"),
        num_starts=3,
        num_ends=2,
        dropout_rate=0.0,
    )
    features = _small_features("answerable_span")
    exact = _build("answerable_span")(features)
    for ours, theirs in zip(model(features), exact, strict=True):
        assert ours.dtype == tf.float32
        free = np.asarray(theirs) > -1e29
        assert 0.0 < np.max(np.abs(ours - theirs)[free]) < 0.2


@pytest.mark.parametrize(
    ("kind", "changes", "message"),
    [
        ("classification", {"num_classes": 1}, "num_classes must be at least 2.*1"),
        ("token_classification", {"num_classes": 0}, "num_classes must be at least 2"),
        ("regression", {"dropout_rate": 1.0}, r"dropout_rate must lie in \[0, 1\).*1"),
        ("multiple_choice", {"dropout_rate": -0.1}, r"dropout_rate .* received -0.1"),
        ("answerable_span", {"num_starts": 0}, "num_starts must be at least 1.*0"),
        ("answerable_span", {"num_ends": -2}, "num_ends must be at least 1.*-2"),
    ],
)
def test_settings_out_of_range_are_refused(kind, changes, message):
    with pytest.raises(ValueError, match=message):
        _build(kind, **changes)


def test_an_unknown_kind_is_refused_with_the_known_ones():
    with pytest.raises(ValueError, match="classification, .*received 'ranking'"):
        task_model.build_task_model(_small_config(), "ranking", seed=1)


def test_a_beam_wider_than_the_text_is_refused():
    model = _build("answerable_span", num_starts=2, num_ends=8)
    with pytest.raises(ValueError, match="received 2 and 8 for length 7"):
        model.infer(_small_features("answerable_span"))


@pytest.mark.parametrize(
    ("kind", "features_of", "message"),
    [
        ("multiple_choice", "span", r"must have the axes \[B, C, S\].*\(3, 7\)"),
        ("span", "multiple_choice", r"must have the axes \[B, S\].*\(3, 4, 7\)"),
    ],
)
def test_an_axis_of_choices_is_for_choices(kind, features_of, message):
    with pytest.raises(ValueError, match=message):
        _build(kind)(_small_features(features_of))


def test_shapes_that_would_broadcast_are_refused():
    column, row = np.zeros([3, 1], np.float32), np.zeros([3], np.float32)
    ids, column_ids = np.zeros([3], np.int32), np.zeros([3, 1], np.int32)
    scores = np.zeros([3, 7], np.float32)
    for name, call in (
        ("targets", lambda: task_losses.regression(row, column, row)),
        ("weights", lambda: task_losses.regression(row, row, column)),
        ("weights", lambda: task_losses.classification(scores, ids, column)),
        ("label_ids", lambda: task_losses.classification(scores, column_ids, row)),
        ("end_logits", lambda: task_losses.span(scores, scores[:1], ids, ids, row)),
        ("end_positions", lambda: task_losses.span(scores, scores, ids, ids[:1], row)),
        (
            "impossible_logits",
            lambda: task_losses.answerable_span(
                scores, scores, column, ids, ids, ids, row
            ),
        ),
    ):
        with pytest.raises(ValueError, match=rf"{name} must have the shape"):
            call()
