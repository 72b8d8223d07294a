"""A clock that goes back while a command runs, and files that are of tomorrow."""

import os
import random
import time

from tests.faults import bench as bench_lib
from tests.faults import commands, experiment, kills

_DAY = 24 * 3600.0


def _commands(bench: bench_lib.Bench) -> list[bench_lib.Command]:
    return [
        commands.prepare(bench, 1),
        commands.pretrain(bench),
        commands.finetune(bench),
    ]


def goes_back(bench, num_faults: int, rng: random.Random) -> experiment.Tally:
    """The clock goes back while a command runs."""
    tally, choices = experiment.Tally(), _commands(bench)
    for number in range(num_faults):
        command = choices[number % len(choices)]
        whole, seconds = bench.whole(command)
        output = bench.new_path(command.name)
        after = f"{rng.uniform(0.0, seconds):.2f}"
        ended = bench.run(
            ["tests.faults.clock_back", after, *map(str, command.words(output))]
        )
        tally.num_runs += 1
        tally.num_faults += 1
        if ended.code:
            tally.fail(f"{command.name}, clock back after {after} s: {ended}")
        elif differing := bench_lib.differing(whole, command.result(output)):
            tally.fail(f"{command.name}, clock back after {after} s: {differing}")
        else:
            tally.add(experiment.SAME)
    return tally


def went_back(bench, num_faults: int, rng: random.Random) -> experiment.Tally:
    """A command is killed, and its files are of tomorrow when it resumes."""
    tally, choices = experiment.Tally(), _commands(bench)
    for number in range(num_faults):
        command = choices[number % len(choices)]
        whole, seconds = bench.whole(command)
        output = bench.new_path(command.name)
        kills.kill(bench, command.words(output), rng.uniform(0.3, 1.0) * seconds)
        tomorrow = time.time() + _DAY
        for path in output.rglob("*"):
            os.utime(path, (tomorrow, tomorrow))
        tally.num_runs += 1
        tally.num_faults += 1
        kills.finish(bench, command, output, whole, 1, tally)
    return tally


EXPERIMENTS = (
    experiment.Experiment(
        "clock-goes-back",
        "data preparation, pre-training, fine-tuning",
        "Python's clock goes back by three hours at a random moment",
        "the same result",
        12,
        0,
        goes_back,
    ),
    experiment.Experiment(
        "clock-went-back",
        "data preparation, pre-training, fine-tuning",
        "all files of a killed run have the time of the next day",
        "the same command ends with the same result",
        12,
        0,
        went_back,
    ),
)
