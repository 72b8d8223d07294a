"""Measures time and memory of the binaries of data_prep, run as processes."""

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

_ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
_SAMPLE_SECONDS = 0.05


@dataclasses.dataclass(frozen=True)
class Run:
    """Time and memory of a run; `peak_bytes` is 0 on systems without /proc."""

    wall_seconds: float
    cpu_seconds: float
    peak_bytes: int


def run(module: str, *arguments: str) -> Run:
    """Runs a binary of this package and samples its memory.

    Raises:
      ValueError: the run failed; with its last line.
    """
    command = [sys.executable, "-m", f"data_prep.{module}", *arguments]
    ended, sizes = threading.Event(), [0]
    with tempfile.TemporaryFile() as log:
        cpu_before, start = _children_seconds(), time.monotonic()
        process = subprocess.Popen(command, cwd=_ROOT, stdout=log, stderr=log)

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
    """Yields the ids of a process and of its descendants."""
    yield pid
    for path in glob.glob(f"/proc/{pid}/task/*/children"):
        with contextlib.suppress(OSError):  # the process has ended
            for child in pathlib.Path(path).read_text().split():
                yield from _tree(int(child))


def _memory(pid: int) -> int:
    """Returns the bytes of a process; a page shared by n processes counts 1/n."""
    with contextlib.suppress(OSError):
        for line in pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) << 10
    return 0
