"""Stages of a recipe: their steps and settings, and how they are given."""

import json
import re

import pytest

from albert_tf.core import config, config_io, stages

BERT = config.Config(
    model=config.ModelConfig(max_positions=512),
    data=config.DataConfig(max_seq_length=512, max_predictions_per_seq=80),
    optimizer=config.OptimizerConfig(warmup_steps=50),
    train=config.TrainConfig(
        batch_size=64,
        num_steps=1000,
        records={"wiki": 3, "books": 1},
        stages=(
            config.StageConfig(
                num_steps=900,
                batch_size=256,
                max_seq_length=128,
                max_predictions_per_seq=20,
                records={"128": 1.0},
            ),
            config.StageConfig(
                num_steps=100, accumulation_steps=4, learning_rate_factor=0.5
            ),
        ),
    ),
)


def test_a_stage_has_the_recipes_settings_unless_it_sets_its_own():
    short, long = stages.split(BERT)
    assert (short.number, short.first_step, short.last_step) == (1, 0, 900)
    assert (long.number, long.first_step, long.last_step) == (2, 900, 1000)
    run, data = short.config.train, short.config.data
    assert (run.batch_size, run.accumulation_steps, run.num_steps) == (256, 1, 1000)
    assert (data.max_seq_length, data.num_predictions) == (128, 19)
    assert (run.records, run.stages) == ({"128": 1.0}, ())
    run, data = long.config.train, long.config.data
    assert (run.batch_size, run.accumulation_steps, short.num_steps) == (64, 4, 900)
    assert (data.max_seq_length, data.num_predictions) == (512, 77)
    assert run.records == {"wiki": 3, "books": 1}
    assert (short.learning_rate_factor, long.learning_rate_factor) == (1.0, 0.5)
    assert short.config.optimizer == long.config.optimizer == BERT.optimizer
    assert short.config.model == long.config.model == BERT.model


def test_a_recipe_without_stages_is_one_stage():
    recipe = config.Config()
    assert stages.split(recipe) == (stages.Stage(1, 0, 125000, recipe),)


@pytest.mark.parametrize(
    ("step", "before", "after"),
    [(0, 1, 1), (1, 1, 1), (899, 1, 1), (900, 1, 2), (901, 2, 2), (1000, 2, 2)],
)
def test_a_boundary_ends_one_stage_and_begins_the_next(step, before, after):
    found = stages.split(BERT)
    assert stages.leading_to(found, step).number == before
    assert stages.after(found, step).number == after


def test_a_line_says_what_a_stage_is():
    assert [stage.describe() for stage in stages.split(BERT)] == [
        "900 steps of 256 sequences of 128 tokens from 128",
        "100 steps of 64 sequences of 512 tokens from books and wiki, learning rate "
        "times 0.5",
    ]


def test_the_longest_sequence_is_that_of_any_stage():
    assert BERT.longest_sequence == 512
    shorter = config_io.override(BERT, ["train.stages.2.max_seq_length=64"])
    assert shorter.longest_sequence == 128
    assert config.Config().longest_sequence == 512


# ---- Files and flags ----


def test_stages_and_records_survive_json():
    text = config_io.to_json(BERT)
    assert config_io.from_json(text) == BERT
    values = json.loads(text)["train"]
    assert values["records"] == {"wiki": 3, "books": 1}
    assert values["stages"][1]["batch_size"] is None
    # By hand: what is omitted is the default, and a directory alone is its name.
    values = {"num_steps": 5, "stages": [{"num_steps": 5, "records": "len16"}]}
    read = config_io.from_json(
        json.dumps({"train": values, "optimizer": {"warmup_steps": 1}})
    )
    assert read.train.stages == (
        config.StageConfig(num_steps=5, records={"len16": 1.0}),
    )


def test_overrides_set_all_stages_or_one_setting_of_one():
    changed = config_io.override(
        BERT,
        [
            "train.stages=[{'num_steps': 7, 'max_seq_length': 32}, {'num_steps': 1e3}]",
            "train.stages.2.num_steps=8",
            "train.stages.2.records=gs://b/wiki=3,books",
            "train.stages.1.batch_size=16",
            "train.stages.1.records=['a', 'b']",
            "train.stages.1.masked_lm_rate=0.4",
            "train.records=other",
            "train.num_steps=15",
            "optimizer.warmup_steps=1",
        ],
    )
    assert changed.train.stages == (
        config.StageConfig(
            num_steps=7,
            max_seq_length=32,
            batch_size=16,
            masked_lm_rate=0.4,
            records={"a": 1.0, "b": 1.0},
        ),
        config.StageConfig(num_steps=8, records={"gs://b/wiki": 3.0, "books": 1.0}),
    )
    assert changed.train.records == {"other": 1.0}
    assert config_io.override(BERT, ["train.stages=[]"]).train.stages == ()
    unset = config_io.override(BERT, ["train.stages.1.batch_size=None"])
    assert unset.train.stages[0].batch_size is None
    recorded = config_io.to_dict(BERT)["train"]["stages"]
    assert None in recorded[0].values()
    changed = config_io.override(BERT, [f"train.stages={json.dumps(recorded)}"])
    assert changed.train.stages == BERT.train.stages


@pytest.mark.parametrize(
    ("override", "message"),
    [
        (
            "train.stages.2.batchsize=3",
            "'train.stages.2.batchsize'; the nearest valid one is "
            "'train.stages.2.batch_size'",
        ),
        (
            "train.stages=[{'num_step': 1000}]",
            "the nearest valid one is 'train.stages.1.num_steps'",
        ),
        ("train.stage=[]", "the nearest valid one is 'train.stages'"),
        ("train.stages.3.num_steps=5", "of which there are 2; received '3'"),
        ("train.stages.0.num_steps=5", "of which there are 2; received '0'"),
        ("train.stages=5", "train.stages must be a list of objects, such as [{'num"),
        ("train.stages=[5]", "train.stages.1 must be an object; received 5"),
        ("train.stages=[{'batch_size': 8}]", "train.stages.1 must have num_steps"),
        ("train.stages.1.num_steps=many", "must be an integer; received 'many'"),
        (
            "train.stages.1.num_steps=0",
            "train.stages.1: train.stages.num_steps must be at least 1; received 0",
        ),
        (
            "train.stages.2.num_steps=101",
            "train.num_steps must be the sum of those of train.stages, 1001, or pass "
            "--set train.stages=[]; received 1000",
        ),
        (
            "train.stages.1.max_seq_length=513",
            "train.stages.1.max_seq_length must not be larger than "
            "model.max_positions; received (513, 512)",
        ),
        (
            "train.stages.2.accumulation_steps=3",
            "train.stages.2.batch_size must be a multiple of its accumulation_steps; "
            "received (64, 3)",
        ),
        (
            "train.stages.1.mask_token_rate=0.9",
            "train.stages.1.mask_token_rate and train.stages.1.random_token_rate need "
            "data.masking to be dynamic, since static records keep the masks that they "
            "were made with; received (0.9, None)",
        ),
        ("train.records=wiki=0", "train.records must be names, each with a weight"),
        (
            "train.records=wiki=inf",
            "weight of 'wiki' must be a finite number; received",
        ),
        ("train.records=wiki=much", "such as wiki=3,books=1; received 'wiki=much'"),
        ("train.records=a=1,a=2", "must name each directory once; received 'a=2'"),
        ("train.records={'a': 'b'}", "the weight of 'a' must be a number"),
        ("train.stages.1.records=[3]", "such as wiki=3,books=1; received [3]"),
        ("task.name=cola", "must be empty in a recipe for a task; received"),
    ],
)
def test_a_wrong_stage_says_the_rule_and_what_was_received(override, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        config_io.override(BERT, [override])


def test_the_row_of_a_stage_is_limited_by_its_own_settings():
    given = (
        "model.max_positions=4096",
        "train.stages.2.max_seq_length=4096",
        "train.stages.2.pack_sequences=32",
    )
    message = (
        "train.stages.2.max_seq_length times its pack_sequences must be at most 65535; "
        "received (4096, 32)"
    )
    with pytest.raises(ValueError, match=re.escape(message)):
        config_io.override(BERT, given)


def test_a_setting_that_no_stage_takes_is_refused():
    config = config_io.override(BERT, ["train.stages.1.records=a"])
    stages.check_given(config, ["train.records", "train.seed", "data.max_seq_length"])
    config = config_io.override(config, ["train.stages.2.records=b"])
    with pytest.raises(ValueError, match="Set train.stages.N.records for stage N"):
        stages.check_given(config, ["train.seed", "train.records"])
    stages.check_given(
        config_io.override(config, ["train.stages=[]"]), ["train.records"]
    )


def test_rates_of_masks_of_a_stage_and_of_the_recipe_sum_to_one_at_most():
    dynamic = config_io.override(BERT, ["data.masking=dynamic"])
    changed = config_io.override(dynamic, ["train.stages.1.mask_token_rate=0.9"])
    short, long = (stage.config.data for stage in stages.split(changed))
    assert (short.mask_token_rate, short.random_token_rate) == (0.9, 0.1)
    assert (long.mask_token_rate, long.random_token_rate) == (0.8, 0.1)
    message = (
        "train.stages.1.mask_token_rate and its random_token_rate must sum to 1 at "
        "most; received (0.95, 0.1)"
    )
    with pytest.raises(ValueError, match=re.escape(message)):
        config_io.override(dynamic, ["train.stages.1.mask_token_rate=0.95"])
