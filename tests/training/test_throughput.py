"""Rates of a row of metrics."""

import pytest

from albert_tf.training import throughput


def test_rates_are_those_of_the_steps_since_the_last_row():
    meter = throughput.Meter((500.0, 700.0), 10_000.0)
    meter.add(3, 1.5, 0.25)
    meter.add(5, 2.5, 0.75)
    assert meter.take(num_tokens=2400, num_steps=12, stage=2) == {
        "steps_per_second": 2.0,
        "tokens_per_second": 400.0,
        "input_share": 0.25,
        "model_flops_per_second": 1400.0,
        "model_flops_utilization": 0.14,
    }
    meter.add(1, 0.5, 0.0)
    assert meter.take(100, 1)["steps_per_second"] == 2.0


@pytest.mark.parametrize(("hours", "share"), [(-3, 0.25), (3, 0.75)])
def test_a_clock_that_is_set_while_a_batch_is_waited_for(hours, share):
    meter = throughput.Meter((0.0,), 0.0)
    meter.add(1, 2.0, 1.0)
    meter.add(1, 2.0, 3600.0 * hours)
    assert meter.take(100, 2)["input_share"] == share
