"""The learning rate over the steps."""

import numpy as np
import pytest

from albert_tf.core import config, config_io, stages
from albert_tf.optim import schedule
from tests.support import golden


def _schedule(rate, num_steps, warmup_steps, **settings):
    optimizer = config.OptimizerConfig(
        learning_rate=rate, warmup_steps=warmup_steps, **settings
    )
    return schedule.WarmupDecay(optimizer, num_steps)


@pytest.mark.parametrize("name", ["paper", "poly2"])
def test_rates_equal_the_original(name):
    arrays = golden.load("lr_schedule")
    rate, num_steps, warmup, power, start = arrays[
        f"{name}/args_lr_steps_warm_power_start"
    ]
    assert start == 0
    ours = _schedule(rate, int(num_steps), int(warmup), decay_power=power)
    for step, expected in zip(
        arrays[f"{name}/step"], arrays[f"{name}/lr"], strict=True
    ):
        golden.assert_near(ours(step), expected, 2e-9, f"rate of step {step}")


def test_decay_from_warmup_end_is_continuous_and_ends_at_zero():
    ours = _schedule(0.5, 100, 20, decay_from="warmup_end")
    rates = [float(ours(step)) for step in (0, 10, 19, 20, 60, 100, 105)]
    np.testing.assert_allclose(rates, [0, 0.25, 0.475, 0.5, 0.25, 0, 0], atol=1e-7)


def test_no_warmup_starts_at_the_full_rate():
    ours = _schedule(0.5, 100, 0)
    assert float(ours(0)) == 0.5


@pytest.mark.parametrize(
    ("decay_from", "expected"),
    [
        ("warmup_end", [0.25, 0.5, 0.25 + 0.5**1.5 / 2, 0.25, 0.0]),
        # At step 20 of 100 the cosine has come down to (1 + cos(pi / 5)) / 2.
        ("start", [0.25, 0.452254, 0.327254, 0.172746, 0.0]),
    ],
)
def test_a_cosine_falls_to_zero(decay_from, expected):
    ours = _schedule(0.5, 100, 20, decay="cosine", decay_from=decay_from)
    rates = [float(ours(step)) for step in (10, 20, 40, 60, 100)]
    np.testing.assert_allclose(rates, expected, atol=1e-6)


def test_a_square_root_falls_fast_at_first():
    ours = _schedule(0.5, 100, 20, decay="sqrt", decay_from="warmup_end")
    rates = [float(ours(step)) for step in (10, 20, 25, 40, 100)]
    # 1 - sqrt(1/16) and 1 - sqrt(1/4), of 0.5.
    np.testing.assert_allclose(rates, [0.25, 0.5, 0.375, 0.25, 0.0], atol=1e-6)
    stable = _schedule(0.5, 100, 20, decay="wsd_sqrt", decay_steps=80)
    assert [float(stable(step)) for step in (10, 20, 25, 40, 100)] == rates


def test_a_constant_rate_stays_after_warmup():
    ours = _schedule(0.5, 100, 20, decay="constant")
    rates = [float(ours(step)) for step in (0, 10, 20, 60, 100, 105)]
    np.testing.assert_allclose(rates, [0, 0.25, 0.5, 0.5, 0.5, 0.5], atol=1e-7)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"decay": "wsd"}, [0.25, 0.5, 0.5, 0.375, 0.25, 0.0, 0.0]),
        (
            {"decay": "wsd", "decay_power": 2.0},
            [0.25, 0.5, 0.5, 0.28125, 0.125, 0.0, 0.0],
        ),
        # 1 - sqrt(1/4) and 1 - sqrt(1/2), of 0.5.
        ({"decay": "wsd_sqrt"}, [0.25, 0.5, 0.5, 0.25, 0.146447, 0.0, 0.0]),
    ],
)
def test_a_stable_rate_falls_to_zero_in_the_last_steps(settings, expected):
    ours = _schedule(0.5, 100, 20, decay_steps=40, **settings)
    rates = [float(ours(step)) for step in (10, 20, 60, 70, 80, 100, 105)]
    np.testing.assert_allclose(rates, expected, atol=1e-6)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"decay": "wsd"}, r"decay_steps must be above 0 if .* wsd or wsd_sqrt, and"),
        ({"decay_steps": 5}, r"and 0 if it is not; received \('polynomial', 5\)"),
    ],
)
def test_the_steps_of_a_decay_belong_to_a_stable_rate(settings, message):
    with pytest.raises(ValueError, match=message):
        config.OptimizerConfig(**settings)


def test_warmup_and_decay_must_fit_into_the_run():
    settings = config.OptimizerConfig(warmup_steps=60, decay="wsd", decay_steps=41)
    message = r"together must not .*warmup_steps=60, .*decay_steps=41, .*num_steps=100"
    with pytest.raises(ValueError, match=message):
        config.Config(optimizer=settings, train=config.TrainConfig(num_steps=100))


def test_stages_multiply_the_rate_by_their_factors():
    recipe = config_io.override(
        config.Config(),
        [
            "train.num_steps=100",
            "train.stages=[{'num_steps': 40}, {'num_steps': 50, 'learning_rate_factor':"
            " 2}, {'num_steps': 10, 'learning_rate_factor': 0.5}]",
            "optimizer.warmup_steps=0",
            "optimizer.learning_rate=1",
        ],
    )
    found = stages.split(recipe)
    ours = schedule.create(recipe.optimizer, 100, found)
    rates = [float(ours(step)) for step in (0, 39, 40, 89, 90, 99, 100)]
    expected = [1.0, 0.61, 1.2, 0.22, 0.05, 0.005, 0.0]
    np.testing.assert_allclose(rates, expected, rtol=1e-5, atol=1e-7)
    plain = schedule.create(recipe.optimizer, 100, found[:1])
    assert isinstance(plain, schedule.WarmupDecay)
