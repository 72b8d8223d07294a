"""Two workers of one run, one of which is killed or frozen."""

import os
import random
import signal
import time

from tests.faults import bench as bench_lib
from tests.faults import commands, experiment
from tests.support import training_processes as processes

# As long as the real one: a frozen process costs nothing.
FROZEN_SECONDS = 60.0
# To trace takes longer than many of these steps.
_SETTINGS = (
    *commands.TRAINING,
    "train.num_streams=2",
    "train.num_steps=1000",
    "train.save_every_steps=50",
)
_MAX_STARTS = 5
# After which a worker hangs, also where others use the machine.
_TIMEOUT = 900


def _words(bench: bench_lib.Bench, output) -> list[str]:
    return processes.command(bench.records, output, _SETTINGS)


def _start(bench, output, disturb) -> tuple[list[int], list[str]]:
    """Runs two workers, and calls `disturb` with their processes."""
    log = bench.new_path("log")
    words = [_words(bench, output)] * 2
    with processes.running(words, log, is_cluster=True) as started:
        disturb(started)
        late = ""
        try:
            codes = processes.exit_codes(started, _TIMEOUT)
        except TimeoutError as error:
            codes, late = [-1, -1], f"{error}\n"
    return codes, [
        late + (log / f"{n}.err").read_text(errors="replace") for n in range(2)
    ]


def _whole(bench: bench_lib.Bench) -> tuple[dict, float]:
    if not hasattr(bench, "two_workers"):
        bench.whole(commands.pretrain(bench))  # the server of processes is warm
        output, started = bench.new_path("two"), time.monotonic()
        codes, errors = _start(bench, output, lambda _: None)
        if codes != [0, 0]:
            raise RuntimeError(f"two workers without a fault: {codes} {errors}")
        seconds = time.monotonic() - started
        bench.two_workers = commands.of_training(output), seconds
    return bench.two_workers


def _disturbed(bench, num_faults, rng, disturb, frozen: bool) -> experiment.Tally:
    tally = experiment.Tally()
    whole, seconds = _whole(bench)
    for number in range(num_faults):
        output, victim = bench.new_path("two"), number % 2
        moment = rng.uniform(0.0, seconds)
        is_done = []

        def at_moment(started, victim=victim, moment=moment, is_done=is_done):
            started[victim].join(timeout=moment)
            if started[victim].is_alive():
                disturb(started[victim].pid)
            else:
                is_done.append(True)

        codes, errors = _start(bench, output, at_moment)
        tally.num_runs += 1
        tally.num_faults += not is_done
        expected = (0, 75) if frozen or is_done else (0, 75, -signal.SIGKILL)
        starts = 0
        while codes != [0, 0] and starts < _MAX_STARTS:
            if set(codes) - set(expected) or "Traceback" in "".join(errors):
                break
            codes, errors = _start(bench, output, lambda _: None)
            tally.num_runs += 1
            starts, expected = starts + 1, (0, 75)
        if codes != [0, 0]:
            tally.fail(f"two workers: {codes} {[text[-400:] for text in errors]}")
        elif differing := bench_lib.differing(whole, commands.of_training(output)):
            tally.fail(f"two workers differ in {differing[:5]}")
        elif not is_done:
            tally.add(experiment.SAME)
    return tally


def _kill(process: int) -> None:
    os.kill(process, signal.SIGKILL)


def _freeze(process: int) -> None:
    os.kill(process, signal.SIGSTOP)
    time.sleep(FROZEN_SECONDS)
    os.kill(process, signal.SIGCONT)


def killed(bench, num_faults: int, rng: random.Random) -> experiment.Tally:
    """One of two is killed; both are started again."""
    return _disturbed(bench, num_faults, rng, _kill, frozen=False)


def frozen(bench, num_faults: int, rng: random.Random) -> experiment.Tally:
    """One of two is frozen and woken again."""
    return _disturbed(bench, num_faults, rng, _freeze, frozen=True)


EXPERIMENTS = (
    experiment.Experiment(
        "worker-killed",
        "pre-training by two workers",
        "kill -9 of one at a random moment",
        "the other ends with code 75 in one line; started again, both end with the "
        "same weights",
        10,
        0,
        killed,
    ),
    experiment.Experiment(
        "worker-frozen",
        "pre-training by two workers",
        f"one is frozen for {FROZEN_SECONDS:.0f} s (SIGSTOP) at a random moment",
        "the run waits, or ends with code 75 and is started again; the same weights",
        4,
        0,
        frozen,
    ),
)
