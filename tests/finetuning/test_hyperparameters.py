"""Hyperparameters that follow from the sizes of model and data."""

import dataclasses
import pathlib

import pytest

from albert_tf.core import config as config_lib
from albert_tf.core import config_io
from albert_tf.finetuning import hyperparameters
from tests.finetuning import test_recipes

CONFIGS = pathlib.Path(__file__).resolve().parent.parent.parent / "configs"


def _recipe(name, *overrides):
    return config_io.load(str(CONFIGS / f"finetune_{name}.py"), overrides)


def _pretrained(hidden_size, max_positions):
    return config_lib.Config(
        model=config_lib.ModelConfig(
            hidden_size=hidden_size, num_heads=1, max_positions=max_positions
        ),
        data=config_lib.DataConfig(max_seq_length=max_positions),
    )


def _resolve(recipe, pretrained, num_items, recorded=None):
    config = hyperparameters.fit_model(recipe, pretrained, recorded)
    config = dataclasses.replace(config, model=pretrained.model, data=pretrained.data)
    if recorded is not None:
        return config
    return hyperparameters.fit_data(config, num_items)


def _values(config):
    adam, run = config.optimizer, config.train
    return (
        *(adam.learning_rate, adam.warmup_steps, run.num_steps),
        *(run.eval_every_steps, run.save_every_steps, config.task.max_seq_length),
    )


@pytest.mark.parametrize("name", test_recipes.PAPER)
@pytest.mark.parametrize("hidden_size", [768, 1024, 2048, 4096])
def test_the_papers_models_get_the_papers_hyperparameters(name, hidden_size):
    recipe = _recipe(name)
    resolved = _resolve(recipe, _pretrained(hidden_size, 512), 1000)
    task = dataclasses.replace(recipe.task, hyperparameters="given")
    given = dataclasses.replace(recipe, task=task)
    assert dataclasses.replace(resolved, model=recipe.model) == given
    line = hyperparameters.describe(recipe, resolved, 1000)
    assert line == "hyperparameters of the recipe, for hidden sizes from 768 on"


@pytest.mark.parametrize(
    ("name", "hidden_size", "num_items", "expected"),
    [
        # 10 passes over few examples, 100,000 of more, at least 3 passes.
        ("mrpc", 128, 3668, (1e-4, 115, 1147, 115, 115, 128)),
        ("sst2", 256, 67349, (1e-4, 631, 6314, 632, 632, 128)),
        ("table", 256, 20000, (1e-4, 312, 3125, 313, 313, 128)),
        ("table", 128, 60, (1e-4, 30, 300, 30, 30, 128)),
        # Half the rate at 362, a quarter at 512.
        ("cola", 512, 8551, (2.5e-5, 534, 5345, 535, 535, 128)),
    ],
)
def test_a_small_model_gets_what_follows_from_its_size_and_data(
    name, hidden_size, num_items, expected
):
    resolved = _resolve(_recipe(name), _pretrained(hidden_size, 128), num_items)
    assert _values(resolved) == expected
    assert resolved.optimizer.bias_correction
    assert resolved.task.hyperparameters == "given"


def test_lengths_follow_from_the_positions_of_the_model():
    task = _resolve(_recipe("squad1"), _pretrained(256, 128), 90000).task
    found = task.max_seq_length, task.max_query_length, task.doc_stride
    assert found == (128, 32, 64)
    task = _resolve(_recipe("race"), _pretrained(1024, 128), 90000).task
    assert (task.max_seq_length, task.max_option_length) == (128, 48)


def test_what_is_set_stays_and_the_rest_follows_from_it():
    overrides = ("optimizer.learning_rate=1e-3", "train.num_steps=50")
    recipe = _recipe("mrpc", *overrides, "task.max_seq_length=64")
    assert set(recipe.task.given_settings) == {
        *("optimizer.learning_rate", "train.num_steps", "task.max_seq_length")
    }
    resolved = _resolve(recipe, _pretrained(128, 128), 3668)
    assert _values(resolved) == (1e-3, 5, 50, 5, 5, 64)
    line = hyperparameters.describe(recipe, resolved, 3668)
    assert line == (
        "hyperparameters for hidden size 128 and 3,668 training rows: "
        "optimizer.warmup_steps=5 (recipe: 200), optimizer.bias_correction=true "
        "(recipe: false), train.eval_every_steps=5 (recipe: 100), "
        "train.save_every_steps=5 (recipe: 100)"
    )
    with pytest.raises(ValueError, match="warmup_steps must not be larger"):
        _resolve(recipe, _pretrained(768, 512), 3668)
    given = _recipe("mrpc", "task.hyperparameters=given", *overrides[:1])
    assert given.task.given_settings == ()
    assert given.train.num_steps == 800


def test_a_run_that_resumes_keeps_what_it_has():
    recipe, small = _recipe("mrpc"), _pretrained(256, 128)
    first = _resolve(recipe, small, 3668)
    assert _resolve(recipe, small, 0, recorded=first) == first
    # Also one that began when a small model had the paper's.
    old = config_io.override(first, ["optimizer.learning_rate=2e-5"])
    assert _resolve(recipe, small, 0, recorded=old) == old
    changed = _recipe("mrpc", "optimizer.learning_rate=1e-3")
    resolved = _resolve(changed, small, 0, recorded=first)
    assert resolved.optimizer.learning_rate == 1e-3
