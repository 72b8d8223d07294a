"""Runs binaries of data_prep as a user does, and measures time and memory."""

import contextlib
import dataclasses
import glob
import pathlib
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator

ROOT = pathlib.Path(__file__).resolve().parent.parent
_SAMPLE_SECONDS = 0.05


@dataclasses.dataclass(frozen=True)
class Run:
    """What a run of a binary took; `peak_bytes` is 0 where there is no /proc."""

    wall_seconds: float
    cpu_seconds: float
    peak_bytes: int


def run(module: str, *arguments: str) -> Run:
    """Runs a binary of this package, and looks at its memory all the while.

    Raises:
      ValueError: it failed.
    """
    command = [sys.executable, "-m", f"data_prep.{module}", *arguments]
    ended, sizes = threading.Event(), [0]
    with tempfile.TemporaryFile() as log:
        cpu_before, start = _children_seconds(), time.monotonic()
        process = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log)

        def sample() -> None:
            while not ended.wait(_SAMPLE_SECONDS):
                sizes.append(sum(map(_memory, _tree(process.pid))))

        sampler = threading.Thread(target=sample, daemon=True)
        sampler.start()
        exit_code = process.wait()
        wall_seconds = time.monotonic() - start
        ended.set()
        sampler.join()
        if exit_code:
            log.seek(0)
            last = log.read().decode(errors="replace").strip().split("\n")[-1]
            raise ValueError(f"{module} failed: {last}")
    return Run(wall_seconds, _children_seconds() - cpu_before, max(sizes))


def _children_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _tree(pid: int) -> Iterator[int]:
    """A process and those that descend from it."""
    yield pid
    for path in glob.glob(f"/proc/{pid}/task/*/children"):
        with contextlib.suppress(OSError):  # it has ended meanwhile
            for child in pathlib.Path(path).read_text().split():
                yield from _tree(int(child))


def _memory(pid: int) -> int:
    """Bytes of a process; those that n processes share count 1/n in each."""
    with contextlib.suppress(OSError):
        for line in pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) << 10
    return 0
