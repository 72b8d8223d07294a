"""Commands killed at random moments; then the same command again."""

import pathlib
import random
import time
from collections.abc import Callable, Sequence

from tests.faults import bench as bench_lib
from tests.faults import commands, experiment
from tests.support import training_processes as processes

# Worker processes of a killed run end when they notice, and hold its lock until then.
_NUM_PATIENT = 8


def killed(
    make: Callable[[bench_lib.Bench], Sequence[bench_lib.Command]],
    kills_per_run: int,
) -> Callable[[bench_lib.Bench, int, random.Random], experiment.Tally]:
    """Kills of commands, which take turns.

    Args:
      make: the commands.
      kills_per_run: how often at most a run is killed before it may come to its end.
    """

    def run(bench, num_faults, rng) -> experiment.Tally:
        tally, number = experiment.Tally(), 0
        choices = make(bench)
        while tally.num_faults < num_faults and number < 4 * num_faults:
            command = choices[number % len(choices)]
            number += 1
            _kill_and_end(bench, command, kills_per_run, num_faults, rng, tally)
        return tally

    return run


def _kill_and_end(bench, command, kills_per_run, num_faults, rng, tally) -> None:
    whole, seconds = bench.whole(command)
    output = bench.new_path(command.name)
    words, num_kills = command.words(output), 0
    while num_kills < kills_per_run and tally.num_faults < num_faults:
        tally.num_runs += 1
        if not kill(bench, words, rng.uniform(0.0, seconds)):
            break
        num_kills += 1
        tally.num_faults += 1
        if command.is_whole_at_once and output.exists() and any(output.iterdir()):
            differing = bench_lib.differing(whole, command.result(output))
            if differing:
                tally.fail(f"{output} appeared unfinished: {differing}")
                return
    if num_kills:
        finish(bench, command, output, whole, num_kills, tally)


def kill(bench: bench_lib.Bench, words: Sequence[str], seconds: float) -> bool:
    """Whether there was something to kill after so many seconds."""
    line = bench_lib.command_line(words)
    with processes.running([line], bench.new_path("log")) as (process,):
        process.join(timeout=seconds)
        if not process.is_alive():
            return False
        process.kill()
    return True


def finish(bench, command, output: pathlib.Path, whole, num_faults, tally) -> None:
    """Gives the same command again, and compares its result.

    Args:
      bench: has the processes.
      command: what was disturbed.
      output: the folder that it writes to.
      whole: the result without a fault.
      num_faults: how many faults it has met.
      tally: counts their outcome.
    """
    tally.num_runs += 1
    for attempt in range(_NUM_PATIENT):
        ended = bench.run(command.words(output))
        if ended.code == 0 or "another run is at work" not in ended.errors:
            break
        time.sleep(0.25 * (attempt + 1))
    if ended.code and not ended.is_refusal:
        tally.fail(f"{command.name} after a fault: {ended}")
        return
    try:
        differing = bench_lib.differing(whole, command.result(output))
    except (OSError, ValueError, TypeError) as error:
        differing = [f"no result: {error}"]
    if differing:
        tally.fail(f"{output} after {num_faults} faults: {differing}; {ended}")
    else:
        # A complete output is not written again: that is said in one line.
        outcome = experiment.REFUSED if ended.code else experiment.SAME
        tally.add(outcome, num_faults)


_EXPECTED = "the same command ends with the same {}"
EXPERIMENTS = (
    experiment.Experiment(
        "prepare-killed",
        "data preparation, 1 and 2 workers",
        "kill -9 at a random moment, up to 5 times a run",
        _EXPECTED.format("bytes"),
        50,
        1,
        killed(lambda b: [commands.prepare(b, 1), commands.prepare(b, 2)], 5),
    ),
    experiment.Experiment(
        "pretrain-killed",
        "pre-training",
        "kill -9 at a random moment, up to 10 times a run",
        _EXPECTED.format("weights, moments and rows, bitwise"),
        50,
        0,
        killed(lambda bench: [commands.pretrain(bench)], 10),
    ),
    experiment.Experiment(
        "convert-killed",
        "conversion of a run to hf and tf1",
        "kill -9 at a random moment",
        _EXPECTED.format("bytes, or says that they are there"),
        20,
        1,
        killed(lambda b: [commands.convert(b, "hf"), commands.convert(b, "tf1")], 1),
    ),
    experiment.Experiment(
        "export-killed",
        "export as SavedModel, encoder and TensorFlow Lite",
        "kill -9 at a random moment",
        _EXPECTED.format("weights and files, or says that they are there"),
        20,
        0,
        killed(
            lambda b: [
                commands.export(b, form) for form in ("text", "encoder", "lite")
            ],
            1,
        ),
    ),
    experiment.Experiment(
        "finetune-killed",
        "fine-tuning",
        "kill -9 at a random moment, up to 2 times a run",
        _EXPECTED.format("predictions, results and rows"),
        20,
        0,
        killed(lambda bench: [commands.finetune(bench)], 2),
    ),
    experiment.Experiment(
        "probe-killed",
        "probing",
        "kill -9 at a random moment",
        _EXPECTED.format("scores"),
        20,
        0,
        killed(lambda bench: [commands.probe(bench)], 1),
    ),
)
