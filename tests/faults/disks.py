"""Full disks, read-only ones, and folders that vanish while a command uses them."""

import contextlib
import os
import pathlib
import random
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator

from tests.faults import bench as bench_lib
from tests.faults import commands, experiment, kills
from tests.support import training_processes as processes

_PLENTY = 256 << 20
_PAGE = 4096


class Disk:
    """A disk in memory, of a size that can be changed."""

    def __init__(self, folder: pathlib.Path, num_bytes: int):
        folder.mkdir(parents=True)
        self.folder = folder
        _mount("-t", "tmpfs", "-o", f"size={num_bytes}", "tmpfs", folder)

    def change(self, option: str) -> None:
        """Mounts it again with an option, such as "ro"."""
        _mount("-o", f"remount,{option}", self.folder)


def _mount(*arguments: object) -> None:
    subprocess.run(["mount", *map(str, arguments)], check=True, timeout=60)


@contextlib.contextmanager
def disk(folder: pathlib.Path, num_bytes: int = _PLENTY) -> Iterator[Disk]:
    """A disk that is there within the block."""
    mounted = Disk(folder, num_bytes)
    try:
        yield mounted
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=False, timeout=60)


def full(
    make: Callable[[bench_lib.Bench], bench_lib.Command],
) -> Callable[[bench_lib.Bench, int, random.Random], experiment.Tally]:
    """A disk with room for a part of what a command writes; then one with enough."""

    def run(bench, num_faults, rng) -> experiment.Tally:
        tally, command = experiment.Tally(), make(bench)
        whole, _ = bench.whole(command)
        needed = _num_bytes(bench.latest(f"whole-{command.name}"))
        for _ in range(3 * num_faults):
            if tally.num_faults == num_faults:
                break
            size = max(_PAGE, int(needed * rng.uniform(0.0, 1.1)))
            tally.num_runs += 1
            with disk(bench.new_path("disk"), size) as mounted:
                output = mounted.folder / "out"
                ended = bench.run(command.words(output))
                if ended.code == 0:
                    continue  # there was room enough
                tally.num_faults += 1
                said = ended.errors.rstrip().splitlines()[-1:]
                if not ended.is_refusal or "no space" not in str(said).lower():
                    tally.fail(f"{command.name} in {size} bytes: {ended}")
                    continue
                # Parts of a checkpoint that TensorFlow could not complete.
                if left := [path.name for path in output.rglob("*_temp*")]:
                    tally.fail(f"{command.name} in {size} bytes left {left[:3]}")
                    continue
                mounted.change(f"size={_PLENTY}")
                kills.finish(bench, command, output, whole, 1, tally)
        return tally

    return run


def _num_bytes(folder: pathlib.Path) -> int:
    """What files and folders take on a disk of pages."""
    sizes = [path.stat().st_size for path in folder.rglob("*") if path.is_file()]
    return sum(-(-size // _PAGE) * _PAGE for size in sizes)


def read_only(
    make: Callable[[bench_lib.Bench], bench_lib.Command],
) -> Callable[[bench_lib.Bench, int, random.Random], experiment.Tally]:
    """A disk that is read-only once a command was killed on it; then writable again."""

    def run(bench, num_faults, rng) -> experiment.Tally:
        tally, command = experiment.Tally(), make(bench)
        whole, seconds = bench.whole(command)
        for _ in range(num_faults):
            tally.num_runs += 2
            with disk(bench.new_path("disk")) as mounted:
                output = mounted.folder / "out"
                # Of a command that is done already, too.
                kills.kill(bench, command.words(output), rng.uniform(0.0, seconds))
                mounted.change("ro")
                tally.num_faults += 1
                ended = bench.run(command.words(output))
                is_done = ended.code == 0 and not bench_lib.differing(
                    whole, command.result(output)
                )
                mounted.change("rw")
                if not ended.is_refusal and not is_done:
                    tally.fail(f"{command.name}, read-only: {ended}")
                    continue
                kills.finish(bench, command, output, whole, 1, tally)
        return tally

    return run


def vanishing(
    make: Callable[[bench_lib.Bench], bench_lib.Command],
    find: Callable[[bench_lib.Bench, pathlib.Path], pathlib.Path],
) -> Callable[[bench_lib.Bench, int, random.Random], experiment.Tally]:
    """A folder that is renamed away at a random moment, and is back afterwards.

    The moment is drawn from the time in which the folder is there.

    Args:
      make: the command.
      find: the folder, from the output folder of the command.
    """

    def run(bench, num_faults, rng) -> experiment.Tally:
        tally, command = experiment.Tally(), make(bench)
        whole, seconds = bench.whole(command)
        for _ in range(4 * num_faults):
            if tally.num_faults == num_faults:
                break
            output = bench.new_path(command.name)
            victim = find(bench, output)
            away = victim.with_name(f"{victim.name}-away")
            line = bench_lib.command_line(command.words(output))
            log = bench.new_path("log")
            tally.num_runs += 1
            share, started = rng.random(), time.monotonic()
            with processes.running([line], log) as (process,):
                while process.is_alive() and not victim.exists():
                    process.join(timeout=0.001)
                left = seconds - (time.monotonic() - started)
                process.join(timeout=share * max(left, 0.0))
                if not process.is_alive() or not victim.exists():
                    continue
                os.rename(victim, away)
                tally.num_faults += 1
                process.join(timeout=processes.TIMEOUT)
                code = -1 if process.exitcode is None else process.exitcode
            ended = bench_lib.Ended(code, (log / "0.err").read_text(errors="replace"))
            if code == 0 and victim != output:
                # It had read what it needed: the result must be whole as it is.
                is_same = not bench_lib.differing(whole, command.result(output))
            else:
                is_same = True
            if victim.exists():  # made again by what still wrote
                shutil.rmtree(victim)
            os.rename(away, victim)
            if not is_same or (code and not ended.is_refusal):
                tally.fail(f"{command.name} without {victim.name}: {ended}")
                continue
            kills.finish(bench, command, output, whole, 1, tally)
        return tally

    return run


_THEN = "ends in one line; with {}, the same command ends with the same result"


# A run waits for room for an hour; here it must not.
_IMPATIENT = "train.save_retry_seconds=0.5"


def _pretrain(bench: bench_lib.Bench) -> bench_lib.Command:
    return commands.pretrain(bench, _IMPATIENT)


def _finetune(bench: bench_lib.Bench) -> bench_lib.Command:
    return commands.finetune(bench, _IMPATIENT)


def _disk_experiments() -> Iterator[experiment.Experiment]:
    makers = (
        ("prepare", "data preparation", lambda b: commands.prepare(b, 1), 12, 1),
        ("pretrain", "pre-training", _pretrain, 12, 0),
        ("convert", "conversion of a run", lambda b: commands.convert(b, "hf"), 6, 0),
        ("finetune", "fine-tuning", _finetune, 8, 0),
        ("export", "export", lambda b: commands.export(b, "lite"), 6, 0),
        ("probe", "probing", commands.probe, 6, 0),
    )
    for name, subject, make, num_faults, num_short in makers:
        yield experiment.Experiment(
            f"{name}-full-disk",
            subject,
            "a disk with room for a random part of the output",
            _THEN.format("room"),
            num_faults,
            num_short,
            full(make),
        )
    for name, subject, make, num_faults, _unused in makers:
        yield experiment.Experiment(
            f"{name}-read-only",
            subject,
            "its disk becomes read-only after a kill at a random moment",
            _THEN.format("a writable disk"),
            num_faults // 2,
            0,
            read_only(make),
        )


EXPERIMENTS = (
    *_disk_experiments(),
    experiment.Experiment(
        "prepare-input-vanishes",
        "data preparation",
        "the folder of the texts is renamed away at a random moment",
        _THEN.format("the folder"),
        8,
        0,
        vanishing(lambda b: commands.prepare(b, 1), lambda b, _: b.corpus),
    ),
    experiment.Experiment(
        "prepare-output-vanishes",
        "data preparation",
        "the output folder is renamed away at a random moment",
        _THEN.format("the folder"),
        8,
        0,
        vanishing(lambda b: commands.prepare(b, 1), lambda _, output: output),
    ),
    experiment.Experiment(
        "pretrain-input-vanishes",
        "pre-training",
        "the folder of the records is renamed away at a random moment",
        _THEN.format("the folder"),
        8,
        0,
        vanishing(_pretrain, lambda b, _: b.records),
    ),
    experiment.Experiment(
        "pretrain-output-vanishes",
        "pre-training",
        "the run directory is renamed away at a random moment",
        _THEN.format("the folder"),
        8,
        0,
        vanishing(_pretrain, lambda _, output: output),
    ),
    experiment.Experiment(
        "finetune-output-vanishes",
        "fine-tuning",
        "the run directory is renamed away at a random moment",
        _THEN.format("the folder"),
        6,
        0,
        vanishing(_finetune, lambda _, output: output),
    ),
)
