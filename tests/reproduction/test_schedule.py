"""The schedule: what can run, and what a failure takes with it."""

import pytest

from albert_tf.reproduction import budgets, schedule, tables


def trainings(*seeds):
    (kept, removed) = (
        row.experiment
        for row in tables.Maker(budgets.BUDGETS["hour"]).make("dropout").rows
    )
    return [
        schedule.Training(experiment, seed)
        for seed in seeds
        for experiment in (kept.start, kept, removed)
    ]


def labels(found):
    return [one.label for one in found]


def test_a_training_waits_for_its_start_with_the_same_seed_alone():
    start, kept, removed, other_start, *_ = all_of = trainings(1, 2)
    assert kept.starts_from(start) and removed.starts_from(start)
    assert not kept.starts_from(other_start) and not start.starts_from(kept)
    plan = schedule.Schedule(all_of)
    assert (plan.take(), plan.take()) == (start, other_start)
    assert plan.take() is None
    assert plan.num_waiting() == 4
    assert plan.end(start, True) == []
    assert (plan.take(), plan.take(), plan.take()) == (kept, removed, None)
    assert plan.has_seed(1)
    plan.end(kept, True)
    plan.end(removed, True)
    assert not plan.has_seed(1) and plan.has_seed(2)
    assert plan.failed == []


def test_what_starts_from_a_failure_is_lost_and_nothing_else():
    start, kept, removed, *others = trainings(1, 2)
    plan = schedule.Schedule([start, kept, removed, *others])
    assert plan.end(plan.take(), False) == [kept, removed]
    assert labels(plan.failed) == [
        *("dropout-start, seed 1", "dropout-with, seed 1", "dropout-without, seed 1")
    ]
    assert plan.take() == others[0]
    assert not plan.has_seed(1)


@pytest.mark.parametrize("succeeded", [True, False])
def test_nothing_is_taken_twice(succeeded):
    plan = schedule.Schedule(trainings(1))
    count = 0
    while training := plan.take():
        count += 1
        plan.end(training, succeeded)
    assert count == (3 if succeeded else 1)
    assert plan.num_waiting() == 0
