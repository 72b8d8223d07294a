"""Warmup that follows the number of steps."""

import pytest

from albert_tf.core import config, config_io, recipes


@pytest.mark.parametrize(
    ("overrides", "warmup_steps"),
    [
        ([], 3125),
        (["train.num_steps=1000"], 25),
        (["train.num_steps=1000", "optimizer.warmup_steps=7"], 7),
        (["train.num_steps=1000", "optimizer.warmup_steps=0"], 0),
        # No more than the decay leaves.
        (
            [
                "train.num_steps=1000",
                "optimizer.decay=wsd",
                "optimizer.decay_steps=990",
            ],
            10,
        ),
    ],
)
def test_warmup_is_a_share_of_the_steps(overrides, warmup_steps):
    found = config_io.load("", overrides)
    assert found.optimizer.warmup_steps == warmup_steps
    again = config_io.from_json(config_io.to_json(found))
    assert again == found and not again.warmup_follows_steps


def test_recipes_keep_theirs():
    of = {
        name: config_io.load(recipes.path_of(name)).optimizer.warmup_steps
        for name in ("albert_base", "albert_xxlarge", "small", "demo", "finetune_rte")
    }
    assert of == {
        "albert_base": 3125,
        "albert_xxlarge": 3125,
        "small": 300,
        "demo": 200,
        "finetune_rte": 200,
    }


def test_a_run_that_resumes_keeps_what_it_recorded(tmp_path):
    path = tmp_path / "config.json"
    longer = config_io.load("", ["train.num_steps=2000"])
    assert config_io.keep_warmup(longer, str(path)) == longer
    before = config_io.load("", ["optimizer.warmup_steps=3", "train.num_steps=1000"])
    path.write_text(config_io.to_json(before))
    kept = config_io.keep_warmup(longer, str(path))
    assert (kept.optimizer.warmup_steps, kept.train.num_steps) == (3, 2000)


def test_a_given_warmup_that_is_too_long_is_refused():
    with pytest.raises(ValueError, match="warmup_steps must not be larger than"):
        config_io.override(config.Config(), ["optimizer.warmup_steps=125001"])
