"""A batch of packed rows has the losses and gradients of its sequences alone."""

import dataclasses
import shutil
from typing import NamedTuple

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.core import config, row_shapes
from albert_tf.data import packed_rows, schema
from albert_tf.model import compute as compute_lib
from albert_tf.model import pretraining_model
from albert_tf.training import metrics_log, objectives, pretraining, train_step
from tests.support import small_run

LENGTH, NUM_PREDICTIONS, VOCAB_SIZE = 11, 3, 50
ROW = row_shapes.RowShape(2 * LENGTH, 7, 4)
# Sequences of each row; the last row pads the batch.
COUNTS = [3, 2, 1, 2, 0]
NUM_SEQUENCES = 8
MODEL = config.ModelConfig(
    vocab_size=VOCAB_SIZE,
    embedding_size=10,
    hidden_size=12,
    num_layers=2,
    num_heads=2,
    intermediate_size=20,
    max_positions=LENGTH,
    num_groups=2,
    num_inner_groups=2,
    initializer_range=0.3,
    hidden_dropout_rate=0.0,
    attention_dropout_rate=0.0,
)


def _sequences():
    """Features of sequences that fit into the rows of `COUNTS`."""
    rng = np.random.default_rng(3)
    lengths = np.array([5, 7, 9, 11, 8, 6, 11, 10])
    place, total = np.arange(LENGTH), len(lengths)
    mask = place < lengths[:, None]
    ids = np.where(mask, rng.integers(5, VOCAB_SIZE, mask.shape), 0)
    segment_a = rng.integers(2, lengths - 1)[:, None]
    num_masked = rng.integers(1, NUM_PREDICTIONS + 1, total)[:, None]
    is_masked = np.arange(NUM_PREDICTIONS) < num_masked
    positions = np.array([np.sort(rng.permutation(n - 2)[:3]) + 1 for n in lengths])
    features = {
        "input_ids": ids,
        "input_mask": mask,
        "segment_ids": (place >= segment_a) & mask,
        "masked_lm_positions": np.where(is_masked, positions, 0),
        "masked_lm_ids": np.where(is_masked, rng.integers(5, 50, positions.shape), 0),
        "next_sentence_labels": np.array([0, -1, 1, 1, 0, -1, 1, 0]),
    }
    as_int = {name: tf.constant(v, tf.int32) for name, v in features.items()}
    return as_int | {"masked_lm_weights": tf.constant(is_masked, tf.float32)}


class Form(NamedTuple):
    """A model, and how it computes; `compiled` is by XLA, the whole pass."""

    compute: compute_lib.Compute
    compiled: bool
    model: config.ModelConfig


def _form(compiled: bool = False, model: config.ModelConfig = MODEL, **compute) -> Form:
    return Form(compute_lib.Compute(**compute), compiled, model)


def _sharing(sharing: str) -> config.ModelConfig:
    # In one group: each of `MODEL` has a single layer, which shares with none.
    return dataclasses.replace(MODEL, sharing=sharing, num_groups=1)


FORMS = {
    "plain": _form(),
    "fused": _form(fuse_elementwise=True),
    "compiled": _form(compiled=True),
    "remat of attention": _form(remat="attention"),
    "remat of attention, compiled": _form(compiled=True, remat="attention"),
    "remat of blocks": _form(remat="block"),
    "remat of blocks, fused": _form(fuse_elementwise=True, remat="block"),
    "remat of blocks, compiled": _form(compiled=True, remat="block"),
    "in parts": _form(queries_at_once=5),
    "in parts, compiled": _form(compiled=True, queries_at_once=8),
    "everything shared": _form(model=_sharing("all")),
    "attention shared": _form(model=_sharing("attention")),
    "feed-forward shared": _form(model=_sharing("feed_forward")),
    "nothing shared": _form(model=_sharing("none")),
    "nothing shared, remat of blocks, compiled": _form(
        compiled=True, model=_sharing("none"), remat="block"
    ),
    "bfloat16": _form(dtype="bfloat16"),
    "bfloat16, fused": _form(dtype="bfloat16", fuse_elementwise=True),
    "bfloat16, fused, in parts": _form(
        dtype="bfloat16", fuse_elementwise=True, queries_at_once=8
    ),
}
# Products of other sizes are rounded in another way; bfloat16 has 8 bits.
TOLERANCES = {"float32": 1e-6, "bfloat16": 0.03}
OBJECTIVE = objectives.PretrainingObjective("sop")


class Passes:
    """One form on the sequences alone, and on packed rows.

    Attributes:
      sums: of the sequences alone.
      gradients: likewise.
    """

    def __init__(self, form: Form):
        self._model = pretraining_model.build_pretraining_model(
            form.model, 5, form.compute
        )
        self._tolerance = TOLERANCES[form.compute.dtype]
        self.run = tf.function(self._run, jit_compile=form.compiled, autograph=False)
        # As the train step does.
        self._compiled = tf.function(
            train_step.compute_gradients, jit_compile=form.compiled, autograph=False
        )
        self.sums, self.gradients = self.run(_sequences(), tf.ones([NUM_SEQUENCES]))

    def _run(self, features, example_weights):
        model = self._model
        with tf.GradientTape() as tape:
            sums = OBJECTIVE.batch_sums(model, features, None, example_weights)
            loss = OBJECTIVE.mean(sums, OBJECTIVE.weights(features))
        gradients = tape.gradient(loss, model.trainable_variables)
        return sums, [tf.convert_to_tensor(g) for g in gradients]

    @tf.function(autograph=False)
    def accumulate(self, rows, num_parts: int):
        """Returns sums and gradients of rows that are taken in equal parts."""
        weights = OBJECTIVE.weights(rows)

        def part_gradients(part, seed):
            return self._compiled(OBJECTIVE, self._model, part, seed, *weights)

        gradients, sums = train_step.accumulate_gradients(
            part_gradients, rows, num_parts, None
        )
        return sums, gradients

    def check(self, sums, gradients) -> None:
        """Asserts that these are those of the sequences alone."""
        for name, value in self.sums.items():
            # The share of each sequence in the sum.
            found, expected = (float(v) / NUM_SEQUENCES for v in (sums[name], value))
            assert found == pytest.approx(expected, rel=0, abs=self._tolerance), name
        assert float(sums["num_tokens"]) == 67 and float(sums["pair_weight"]) == 6
        for variable, one, other in zip(
            self._model.trainable_variables, self.gradients, gradients, strict=True
        ):
            scale = max(1.0, float(tf.reduce_max(tf.abs(one))))
            np.testing.assert_allclose(
                one / scale,
                other / scale,
                rtol=0,
                atol=self._tolerance,
                err_msg=variable.name,
            )


@pytest.fixture(scope="module", params=FORMS)
def passes(request):
    return Passes(FORMS[request.param])


def test_packed_rows_learn_what_their_sequences_do(passes):
    rows = packed_rows.pack(_sequences(), tf.constant(COUNTS, tf.int64), ROW)
    passes.check(*passes.run(rows, tf.constant([1.0, 1.0, 1.0, 1.0, 0.0])))


@pytest.mark.slow
def test_parts_of_packed_rows_have_the_gradients_of_their_sequences(passes):
    # Five sequences in the first part, three in the second.
    rows = packed_rows.pack(_sequences(), tf.constant(COUNTS[:4], tf.int64), ROW)
    passes.check(*passes.accumulate(rows, 2))


def test_a_token_sees_no_other_sequence():
    model = pretraining_model.build_pretraining_model(MODEL, 5)
    rows = packed_rows.pack(_sequences(), tf.constant(COUNTS, tf.int64), ROW)
    before = model.scores(rows)
    # Another word in the second sequence of the first row.
    ids = rows["input_ids"].numpy()
    assert rows["sequence_numbers"][0, 6] == 2
    ids[0, 6] += 1
    after = model.scores(rows | {"input_ids": tf.constant(ids)})
    changed = np.any(before.pair_logits.numpy() != after.pair_logits.numpy(), -1)
    assert changed[0].tolist() == [False, True, False, False]
    assert not changed[1:].any()
    owner = tf.gather(
        rows["sequence_numbers"], rows["masked_lm_positions"], batch_dims=1
    ).numpy()
    moved = np.any(before.mlm.scores.numpy() != after.mlm.scores.numpy(), -1)
    is_token = rows["masked_lm_weights"].numpy() > 0
    assert moved[0][is_token[0]].tolist() == (owner[0] == 2)[is_token[0]].tolist()
    assert not moved[1:].any()


# ---- A run ----

PACKED = ("data.pack_sequences=2", "data.masking=dynamic")


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory):
    return small_run.write_records(tmp_path_factory.mktemp("packed"), *PACKED)


def _train(data_dir, model_dir, *overrides):
    settings = small_run.small_config(*PACKED, *overrides)
    return pretraining.train(settings, str(data_dir), str(model_dir))


@pytest.mark.slow
def test_a_run_of_packed_rows_learns_and_resumes_exactly(data_dir, tmp_path):
    last = ("train.num_steps=36", "train.save_every_steps=12")
    whole = _train(data_dir, tmp_path / "whole", *last)
    rows = metrics_log.read_metrics(str(tmp_path / "whole"))
    losses = [row["mlm_loss"] for row in rows if row["split"] == schema.HELDOUT]
    assert whole["mlm_loss"] == losses[-1] < losses[0] - 1.0
    # As if it had been killed after the checkpoint of step 24.
    shutil.copytree(tmp_path / "whole", tmp_path / "again")
    for file in (tmp_path / "again").glob("model.ckpt-36.*"):
        file.unlink()
    (tmp_path / "again" / schema.CHECKPOINT_FILE).write_text(
        'model_checkpoint_path: "model.ckpt-24"\n'
    )
    assert _train(data_dir, tmp_path / "again", *last) == whole
    # Nor may its rows become others on the way.
    plain = small_run.write_records(tmp_path / "plain", PACKED[1])
    with pytest.raises(ValueError, match="data.pack_sequences was 2 and is 0"):
        _train(plain, tmp_path / "again", *last, "data.pack_sequences=0")


@pytest.mark.slow
def test_parts_of_a_batch_of_packed_rows_add_up(data_dir, tmp_path):
    once, twice = (
        _train(
            data_dir,
            tmp_path / str(parts),
            "train.num_steps=4",
            "train.steps_per_loop=1",
            f"train.accumulation_steps={parts}",
        )
        for parts in (1, 2)
    )
    assert once == pytest.approx(twice, abs=1e-5)
