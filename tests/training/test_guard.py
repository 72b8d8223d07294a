"""Verdicts on runs by their held-out losses, and the causes that are named."""

import dataclasses
import math
import re

import pytest

from albert_tf.core import config_io, stages
from albert_tf.data import schema
from albert_tf.training import causes, guard, stage_steps

ENTROPY = 6.0


def _manifest(entropy=ENTROPY, unlabelled=0):
    labels = {"-1": unlabelled, "0": 50, "1": 50}
    splits = {
        schema.TRAIN: schema.RecordSplit(5, 1000, (), {"labels": labels}),
        schema.HELDOUT: schema.RecordSplit(1, 10, (), {}),
    }
    return schema.Manifest(
        *({}, {}, 100, "", 4, (), 32, 5, {}, {}, ""),
        splits=splits if entropy else {schema.TRAIN: splits[schema.TRAIN]},
        heldout_unigram_entropy=entropy,
    )


def _config(*overrides):
    usual = (
        "model.hidden_size=128",
        "model.num_heads=2",
        "data.max_seq_length=32",
        "optimizer.learning_rate=0.01",
        "optimizer.warmup_steps=200",
        "train.batch_size=64",
        "train.num_steps=2800",
    )
    return config_io.load("", [*usual, *overrides])


def _stage(*overrides, first_step=0):
    stage = stages.split(_config(*overrides))[0]
    return dataclasses.replace(stage, first_step=first_step)


def _rows(losses, every=400, train_loss=None):
    rows = []
    for number, loss in enumerate(losses):
        step = number * every
        if train_loss is not None:
            rows.append({"split": "train", "step": step, "mlm_loss": train_loss})
        rows.append({"split": "heldout", "step": step, "mlm_loss": loss})
    return rows


@pytest.mark.parametrize(
    ("overrides", "step"),
    [
        # 2,048 tokens a step: 2 M are 977 steps.
        ((), 977),
        # 500 steps after warmup.
        (("train.batch_size=640",), 700),
        (("train.batch_size=640", "optimizer.warmup_steps=500"), 1000),
        # 5% of all steps after warmup, as in the paper's recipe.
        (("train.batch_size=4096", "train.num_steps=125000"), 6450),
        # A run that is shorter is judged at its end.
        (("train.num_steps=600",), 600),
    ],
)
def test_a_loss_is_judged_after_tokens_and_steps(overrides, step):
    assert guard.judged_from(_config(*overrides)) == step


@pytest.mark.parametrize(
    ("losses", "step"),
    [
        ((8.3, 6.1, 6.05, 6.0, 5.9, 5.8, 5.75), 1200),
        ((8.3, 6.1, 6.05, 6.0, 5.6), None),  # came below, if late
        ((8.3, 6.1, 6.05, 5.69, 5.5), None),
        ((8.3, 6.5, 6.4), None),  # too early to judge
        ((8.3, 8.9, 9.5), 400),  # but not this
        ((8.3, 5.5, 5.0, 4.9, 5.39), None),
        ((8.3, 5.5, 5.0, 4.9, 5.45), 1600),  # a jump
        ((8.3, 5.5, 5.0, math.nan), 1200),
        ((8.3, 5.5, math.nan, 5.0), None),
        ((8.3, 5.5, 5.0, 5.11, 5.11, 5.09, 5.11), None),
        ((8.3, 5.5, 5.0, 5.05, 5.11, 5.11, 5.2), 2400),  # three in a row
        ((8.3, 5.5, 5.0, 5.11, 5.11, 5.11, 5.02), None),  # it fell again
    ],
)
def test_alarms_of_curves(losses, step):
    alarm = guard.find_alarm(_rows(losses), _stage(), _manifest())
    assert (alarm and alarm.step) == step
    if alarm:
        assert alarm.line.startswith(f"step {step}: no progress")
        assert "\n" not in alarm.line


def test_a_loss_that_is_not_a_number_is_compared_with_the_best_one():
    alarm = guard.find_alarm(_rows((math.nan, 5.0, math.nan)), _stage(), _manifest())
    assert "MLM loss climbs, to nan from 5.000 at step 400" in alarm.line


def test_an_alarm_is_the_same_at_each_later_evaluation_as_long_as_it_lasts():
    losses = (8.3, 6.1, 6.05, 6.0, 6.0, 6.1, 5.9)
    alarms = [
        guard.find_alarm(_rows(losses[: count + 1]), _stage(), _manifest())
        for count in range(len(losses))
    ]
    assert alarms[:3] == [None] * 3
    assert alarms[3] is not None and len(set(alarms[3:])) == 1


@pytest.mark.parametrize(("decay", "step"), [("0.998", 2400), ("0", None)])
def test_averaged_weights_do_not_hide_that_the_training_loss_climbs(decay, step):
    stage = _stage(f"train.ema_decay={decay}")
    averages = (8.3, 5.5, 5.0, 4.9, 4.85, 4.82, 4.8)
    trained = (None, 5.6, 5.1, 5.0, 5.12, 5.2, 5.3)  # two rows before each evaluation
    rows = []
    for row in _rows(averages):
        loss = trained[row["step"] // 400]
        if loss is not None:
            for before, change in ((200, 0.05), (0, -0.05)):
                at = row["step"] - before
                rows.append({"split": "train", "step": at, "mlm_loss": loss + change})
        rows.append(row)
    alarm = guard.find_alarm(rows, stage, _manifest())
    assert (alarm and alarm.step) == step
    if alarm:
        assert "the training MLM loss climbs, to 5.300 from 5.000 at step" in alarm.line
    assert guard.find_alarm(rows[:-3], stage, _manifest()) is None


def test_a_branch_is_judged_as_many_steps_after_its_beginning():
    losses = (8.3, 6.1, 6.05, 6.0)
    rows = [{**row, "step": row["step"] + 800} for row in _rows(losses)]
    stage = _stage("train.num_steps=4000")
    assert guard.find_alarm(rows[:-1], stage, _manifest()) is None  # at step 1600
    alarm = guard.find_alarm(rows, stage, _manifest())
    assert alarm.step == 2000 and "no progress after 2.46 M tokens" in alarm.line
    # At the last step even a short one is judged.
    last = _stage("train.num_steps=1600")
    assert guard.find_alarm(rows[:-1], last, _manifest()).step == 1600


def test_a_run_without_held_out_documents_is_not_judged_and_says_so():
    manifest = _manifest(entropy=None)
    assert guard.find_alarm(_rows(()), _stage(), manifest) is None
    assert ["no document is held out" in line for line in guard.notes(manifest)] == [
        True
    ]
    assert guard.notes(_manifest()) == []


@pytest.mark.parametrize(
    ("metrics", "expected"),
    [
        ({"mlm_loss": 4.0}, ""),
        ({"sentence_order_loss": 0.6881}, ""),
        (
            {"sentence_order_loss": 0.6883},
            "the sentence order is not learnt: .* 0.6883",
        ),
        ({"next_sentence_loss": 0.7}, "the next sentence is not learnt: .* 0.7000 is"),
        ({"sentence_order_loss": math.nan}, ""),
    ],
)
def test_a_pair_at_chance_is_said(metrics, expected):
    note = guard.pair_note(metrics)
    assert bool(note) == bool(expected)
    assert re.match(expected, note)


def test_the_line_of_a_rate_ten_times_too_high():
    stage = _stage("optimizer.learning_rate=0.1", "optimizer.warmup_steps=0")
    alarm = guard.find_alarm(_rows((8.3, 6.1, 6.2, 6.125)), stage, _manifest())
    assert alarm.line == (
        "step 1200: no progress after 2.46 M tokens: the held-out MLM loss 6.125 "
        "should be at least 0.3 below the 6.000 of token frequencies alone. Likely "
        "causes: rate 0.1 is 10 times the usual 0.01 of lamb at hidden size 128, "
        "batch 64; no warmup; few tokens so far, 2.46 M. Try --set "
        "optimizer.learning_rate=0.01, --set optimizer.warmup_steps=140, more steps "
        "(train.num_steps)"
    )


def _failure(*overrides):
    outcome = {"bad_loss": 9.5, "bad_norm": 3.0}
    return stage_steps.failure(
        _stage(*overrides),
        184,
        outcome,
        0,
        "run/bad_batch-184.npz",
        "run/model.ckpt-9",
    )


def test_a_loss_that_rose_names_its_causes_too():
    assert _failure("optimizer.learning_rate=0.1", "optimizer.warmup_steps=0") == (
        "step 184 failed: the loss rose to 9.5, by more than train.max_loss_rise. Its "
        "batch is kept in run/bad_batch-184.npz; the last good checkpoint is "
        "run/model.ckpt-9. Likely causes: rate 0.1 is 10 times the usual 0.01 of lamb "
        "at hidden size 128, batch 64; no warmup. Try --set "
        "optimizer.learning_rate=0.01, --set optimizer.warmup_steps=140; "
        "train.max_skipped_steps sets how many steps a run may skip"
    )
    assert "rate 0.01 is too high by now. Try --set optimizer.learning_rate=0.003" in (
        _failure("optimizer.warmup_steps=150")
    )
    # Nothing is advised that makes it worse.
    early = _failure("optimizer.warmup_steps=1000", "optimizer.learning_rate=1e-4")
    assert "Likely causes: rate 0.0001 is too high already in warmup. Try" in early
    small = _failure("model.initializer_range=0.001", "optimizer.warmup_steps=150")
    assert "initial weights" not in small
    # Usual rates are those of pre-training.
    tuned = _failure("task.name=cola", "optimizer.learning_rate=0.1")
    assert "Likely causes" not in tuned and "longer warmup often helps" in tuned


@pytest.mark.parametrize(
    ("overrides", "cause"),
    [
        (("optimizer.learning_rate=1e-4",), "rate 0.0001 is 0.01 times the usual"),
        (
            ("optimizer.name=adamw", "optimizer.learning_rate=0.004"),
            "the usual 0.0006 of adamw at hidden size 128",
        ),
        (
            ("optimizer.name=muon", "optimizer.learning_rate=0.04"),
            "the usual 0.004 of muon at hidden size 128",
        ),
        (("optimizer.warmup_steps=2000",), "warmup takes 2,000 of 2,800 steps"),
        (("optimizer.warmup_steps=20",), "warmup of 20 steps only"),
        (("model.initializer_range=0.05",), "initial weights of 0.05 instead of 0.01"),
        (
            ("optimizer.name=muon", "model.initializer_range=0.05"),
            "initial weights of 0.05 instead of 0.02",
        ),
        (("data.masked_lm_rate=0.6",), "a share of 0.6 of the tokens is masked"),
        (("data.max_seq_length=512",), "512 tokens a sequence"),
        (("train.batch_size=16",), "only 512 tokens a step"),
        ((), "perhaps the text or its labels"),
    ],
)
def test_the_settings_that_stand_out_are_named(overrides, cause):
    found = causes.of_stuck_loss(_stage(*overrides), _manifest(), 1200)
    texts = [one.text for one in found]
    assert any(cause in text for text in texts), texts


def test_few_labelled_pairs_are_named_unless_there_is_no_pair_loss():
    manifest = _manifest(unlabelled=9900)
    texts = [c.text for c in causes.of_stuck_loss(_stage(), manifest, 1200)]
    assert "only 1.0% of the sequences are pairs with a label" in texts
    stage = _stage("data.pair_loss=none")
    texts = [c.text for c in causes.of_stuck_loss(stage, manifest, 1200)]
    assert not any("pairs" in text for text in texts)


def test_a_climbing_loss_is_overfitting_only_if_that_of_training_fell():
    losses = (8.3, 5.5, 5.0, 5.2, 5.3, 5.4)
    overfitted = guard.find_alarm(_rows(losses, 400, 3.0), _stage(), _manifest())
    assert overfitted.step == 2000
    assert "overfitting: 128 passes over the records" in overfitted.line
    assert "2.40 lower" in overfitted.line
    other = guard.find_alarm(_rows(losses, 400, 5.3), _stage(), _manifest())
    assert "overfitting" not in other.line
    assert "rate 0.01 is too high by now" in other.line
    # Continued pre-training has a low rate, and a higher one would make it worse.
    low = _stage("optimizer.learning_rate=1e-4")
    slow = guard.find_alarm(_rows(losses, 400, 5.3), low, _manifest())
    assert (
        "rate 0.0001 is too high by now. Try --set optimizer.learning_rate=3e-05"
        in (slow.line)
    )


@pytest.mark.parametrize("recipe", ["demo", "small", "albert_base", "albert_xxlarge"])
def test_no_setting_of_a_recipe_stands_out(recipe):
    config = config_io.load(f"configs/{recipe}.py")
    step = guard.judged_from(config)
    # Few tokens so far are the likelier cause at the first verdict.
    stage = stages.split(config)[0]
    texts = [one.text for one in causes.of_stuck_loss(stage, _manifest(), step)][:2]
    expected = "usual, so perhaps the text or its labels"
    assert any(expected in text for text in texts), texts


def test_the_tokens_and_passes_of_a_stage_are_its_own():
    stage = _stage("train.batch_size=640", first_step=400)
    stuck = guard.find_alarm(_rows((6.2, 6.1, 6.0, 5.9)), stage, _manifest())
    # 500 steps after its beginning are over there: 800 steps of 20,480 tokens.
    assert stuck.step == 1200
    assert "after 16.4 M tokens" in stuck.line
    assert "few tokens so far, 16.4 M" in stuck.line
    losses = (8.3, 5.5, 5.0, 5.2, 5.3, 5.4)
    later = dataclasses.replace(stage, first_step=1200)
    climbing = guard.find_alarm(_rows(losses, 400, 3.0), later, _manifest())
    # 800 steps of 640 of 1,000 records.
    assert "overfitting: 512 passes" in climbing.line


@pytest.mark.parametrize(("loss", "step"), [(5.6, None), (5.9, 1600)])
def test_losses_of_another_stage_are_not_compared(loss, step):
    rows = _rows((8.3, 5.5, 5.0, 4.9, loss))
    for row in rows:
        row["stage"] = int(row["step"] >= 1600)
    alarm = guard.find_alarm(rows, _stage(), _manifest())
    assert (alarm and alarm.step) == step


def test_the_advice_names_the_settings_of_the_stage():
    masks, of_all = "data.masked_lm_rate=0.6", "train.num_steps=2800"
    second = "{'num_steps': 1400, 'batch_size': 16, 'max_seq_length': 48}"
    config = _config(
        *("data.masking=dynamic", masks, of_all),
        f"train.stages=[{{'num_steps': 1400}}, {second}]",
    )
    by_stage = [
        [one.advice for one in causes.of_stuck_loss(stage, _manifest(), 1200)]
        for stage in stages.split(config)
    ]
    assert "--set train.stages.1.masked_lm_rate=0.15" in by_stage[0]
    assert "--set train.stages.2.batch_size=22" in by_stage[1]
    assert "more steps (train.num_steps and train.stages.2.num_steps)" in by_stage[1]
    # Static masks are those of the records.
    static = causes.of_stuck_loss(_stage(masks), _manifest(), 1200)
    assert "records with --set data.masked_lm_rate=0.15" in [c.advice for c in static]
