"""The learning rate over the steps."""

import numpy as np
import pytest

from albert_tf import schedule
from tests import golden


@pytest.mark.parametrize("name", ["paper", "poly2"])
def test_rates_equal_the_original(name):
    arrays = golden.load("lr_schedule")
    rate, num_steps, warmup, power, start = arrays[
        f"{name}/args_lr_steps_warm_power_start"
    ]
    assert start == 0
    ours = schedule.WarmupPolynomialDecay(
        rate, int(num_steps), int(warmup), power, "start"
    )
    for step, expected in zip(
        arrays[f"{name}/step"], arrays[f"{name}/lr"], strict=True
    ):
        assert abs(float(ours(step)) - expected) < 2e-9, step


def test_decay_from_warmup_end_is_continuous_and_ends_at_zero():
    ours = schedule.WarmupPolynomialDecay(0.5, 100, 20, 1.0, "warmup_end")
    rates = [float(ours(step)) for step in (0, 10, 19, 20, 60, 100, 105)]
    np.testing.assert_allclose(rates, [0, 0.25, 0.475, 0.5, 0.25, 0, 0], atol=1e-7)


def test_no_warmup_starts_at_the_full_rate():
    ours = schedule.WarmupPolynomialDecay(0.5, 100, 0, 1.0, "start")
    assert float(ours(0)) == 0.5
