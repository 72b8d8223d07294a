"""A recipe for another batch size, and what is said of it."""

import pytest

from albert_tf.core import config, config_io
from albert_tf.optim import batch_scaling


def test_rate_steps_and_warmup_follow_the_batch():
    scaled, line = batch_scaling.scale(config.Config(), 512)
    assert scaled.train.batch_size == 512
    assert scaled.train.num_steps == 1_000_000
    assert scaled.optimizer.warmup_steps == 3125
    assert abs(scaled.optimizer.learning_rate - 0.00176 / 8**0.5) < 1e-12
    assert line == (
        "scaled to a batch of 512 (from 4,096): learning rate 0.000622254 (from "
        "0.00176, by the square root of 0.125), 1,000,000 steps (from 125,000), 3,125 "
        "of warmup (from 3,125)"
    )
    # All else stays.
    assert scaled.model == config.Config().model and scaled.data == config.Config().data


def test_scaling_there_and_back_changes_nothing():
    there, _ = batch_scaling.scale(config.Config(), 1024)
    back, _ = batch_scaling.scale(there, 4096)
    assert back.train == config.Config().train
    assert abs(back.optimizer.learning_rate - 0.00176) < 1e-12


def test_the_last_decay_stays_the_same_share_of_the_run():
    settings = ["optimizer.decay=wsd", "optimizer.decay_steps=25000"]
    recipe = config_io.override(config.Config(), settings)
    scaled, line = batch_scaling.scale(recipe, 8192)
    assert (scaled.train.num_steps, scaled.optimizer.decay_steps) == (62500, 12500)
    assert line.endswith("(from 3,125), 12,500 of decay (from 25,000)")
    # With one step there is no room for warmup.
    scaled, _ = batch_scaling.scale(recipe, 1 << 30)
    optimizer = scaled.optimizer
    assert (optimizer.warmup_steps, optimizer.decay_steps) == (0, 1)


@pytest.mark.parametrize("batch_size", [0, -8])
def test_a_batch_of_nothing_is_refused(batch_size):
    with pytest.raises(ValueError, match="--scale_to_batch_size must be at least 1"):
        batch_scaling.scale(config.Config(), batch_size)


def test_the_paper_s_largest_batch_is_reached_from_its_smallest():
    """LAMB paper, table of untuned hyperparameters: 512 to 32K, warmup 1/320 to 1/5."""
    smallest = config_io.override(
        config.Config(),
        [
            "train.batch_size=512",
            "train.num_steps=1000000",
            "optimizer.warmup_steps=3125",
            f"optimizer.learning_rate={5 / (2**3 * 1e3)}",
        ],
    )
    largest, _ = batch_scaling.scale(smallest, 32768)
    assert largest.train.num_steps == 15625
    assert largest.optimizer.warmup_steps == 15625 // 5
    assert largest.optimizer.learning_rate == pytest.approx(5e-3)


def test_warmup_is_never_longer_than_the_run():
    scaled, _ = batch_scaling.scale(config.Config(), 1 << 20)
    assert scaled.optimizer.warmup_steps == scaled.train.num_steps == 488


STAGES = (
    config.StageConfig(num_steps=900, batch_size=90),
    config.StageConfig(num_steps=100),
)


def test_stages_are_scaled_as_the_recipe_is():
    recipe = config.Config(
        train=config.TrainConfig(batch_size=32, num_steps=1000, stages=STAGES),
        optimizer=config.OptimizerConfig(warmup_steps=10),
    )
    scaled, line = batch_scaling.scale(recipe, 128)
    assert [(s.num_steps, s.batch_size) for s in scaled.train.stages] == [
        (225, 360),
        (25, None),
    ]
    assert (scaled.train.batch_size, scaled.train.num_steps) == (128, 250)
    assert "250 steps (from 1,000)" in line
    with pytest.raises(ValueError, match="each stage a whole number; received 33, and"):
        batch_scaling.scale(recipe, 33)
    # Rounding of each stage: their sum is the run.
    uneven, _ = batch_scaling.scale(recipe, 64 * 3)
    assert uneven.train.num_steps == sum(s.num_steps for s in uneven.train.stages)
