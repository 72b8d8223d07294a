"""Times follow from rates: literal numbers of two slices."""

import pytest

from albert_tf.devices import chip_table
from albert_tf.planning import roofline

V3 = chip_table.find("v3-512")


def test_a_step_takes_the_longer_side_and_then_the_sum():
    # 61.5 TFLOP/s, 450 GB/s, and twice 255/256 of 1.28 GB over links of 328 GB/s.
    step = roofline.step_time(V3, 123e12, 450e9, 1_280_000_000)
    assert (step.compute, step.memory) == (2.0, 1.0)
    assert step.reduction == pytest.approx(2 * 1.275 / 328)
    assert step.total == 2.0 + step.reduction
    assert step.limit == "compute"
    by_memory = roofline.step_time(V3, 61.5e12, 900e9, 0)
    assert (by_memory.total, by_memory.limit) == (2.0, "memory")


def test_gpus_of_several_machines_send_their_part_over_the_network():
    def reduction(name):
        return roofline.step_time(chip_table.find(name), 0.0, 0.0, 8_000_000_000)

    # Seven eighths of 8 GB twice over 450 GB/s; an eighth of it over 50 or 25 GB/s.
    assert reduction("h100-8").reduction == pytest.approx(14 / 450)
    assert reduction("h100-16").reduction == pytest.approx(14 / 450)
    assert reduction("h100-512").reduction == pytest.approx(2 * 63 / 64 / 50)
    assert reduction("a100-32").reduction == pytest.approx(2 * 3 / 4 / 25)


def test_one_chip_sends_nothing():
    step = roofline.step_time(chip_table.find("v5e-1"), 197e12, 0.0, 10**9)
    assert (step.compute, step.reduction) == (1.0, 0.0)


def test_hours_and_price_are_those_of_the_utilization():
    step = roofline.StepTime(compute=0.09, memory=0.05, reduction=0.01)
    # 0.2 s a step; 256 chips at 2.20 an hour.
    run = roofline.run_time(V3, step, 18_000, 0.5, 3.1488e15, 2.2)
    assert run.step_seconds == pytest.approx(0.2)
    assert run.hours == pytest.approx(1.0)
    assert run.chip_hours == pytest.approx(256.0)
    assert run.price == pytest.approx(563.2)
    assert run.share_of_peak == pytest.approx(0.5)
    assert roofline.run_time(V3, step, 1, 1.0, 1.0).price is None
