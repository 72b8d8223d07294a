"""Memory and files of a process that runs for long, and how fast they grow.

python -m tests.faults.soak --process=PID --folder=DIR --log=FILE --seconds=3600
python -m tests.faults.soak --log=FILE --results=FILE --about='Pre-training, an hour'

The first writes a line each 30 seconds while the process lives: unix time, number of
the process, memory in kB, open files, threads, disk that the folder takes in kB, and
number of checkpoints in it. The second computes from such a log what
docs/reliability.md has.
"""

import argparse
import json
import math
import pathlib
import sys
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

_INTERVAL = 30.0
# What grows in the first minutes are caches and compiled programs.
SETTLED_SECONDS = 300.0


class Sample(NamedTuple):
    """A process at a moment; disk and checkpoints are 0 without a folder."""

    time: float
    process: int
    memory_kb: int
    num_files: int
    num_threads: int
    disk_kb: int = 0
    num_checkpoints: int = 0


def sample(process: int, folder: pathlib.Path | None = None) -> Sample | None:
    """The process now, or None if it has ended."""
    about = pathlib.Path("/proc", str(process))
    try:
        lines = (about / "status").read_text().splitlines()
        num_files = len(list((about / "fd").iterdir()))
    except OSError:
        return None
    values = dict(line.split(":", 1) for line in lines)
    if "VmRSS" not in values:  # it has ended, and nobody asked how
        return None
    memory, threads = values["VmRSS"].split()[0], values["Threads"]
    found = Sample(time.time(), process, int(memory), num_files, int(threads))
    return found._replace(**_disk(folder)) if folder else found


def _disk(folder: pathlib.Path) -> dict[str, int]:
    num_bytes = 0
    for path in folder.rglob("*"):
        try:
            num_bytes += path.stat().st_blocks * 512
        except FileNotFoundError:  # a checkpoint that the rule to keep removed
            continue
    num_checkpoints = len(list(folder.glob("*.index")))
    return {"disk_kb": num_bytes >> 10, "num_checkpoints": num_checkpoints}


def slope(seconds: Sequence[float], values: Sequence[float]) -> float:
    """The slope of a line through the points by least squares, in values an hour."""
    mean_second = sum(seconds) / len(seconds)
    mean = sum(values) / len(values)
    spread = sum((second - mean_second) ** 2 for second in seconds)
    product = sum(
        (second - mean_second) * (value - mean)
        for second, value in zip(seconds, values, strict=True)
    )
    return 3600 * product / spread


def read(log: pathlib.Path) -> list[Sample]:
    """The samples of a log.

    Args:
      log: its path.

    Raises:
      ValueError: a line has other fields, or the process changed.
    """
    found = []
    for number, line in enumerate(log.read_text().splitlines(), 1):
        words = line.split()
        if len(words) != len(Sample._fields):
            raise ValueError(f"{log}, line {number}: {len(words)} fields")
        found.append(Sample(float(words[0]), *map(int, words[1:])))
    if len({one.process for one in found}) != 1:
        raise ValueError(f"{log} must be of one process")
    return found


def summary(
    samples: Sequence[Sample],
    settled_seconds: float = SETTLED_SECONDS,
    end_seconds: float = math.inf,
) -> dict[str, Any]:
    """How much a process holds, and how that grows.

    Args:
      samples: in the order of time.
      settled_seconds: of the start that is left out, except of the peaks.
      end_seconds: from the start; what comes later is left out.

    Returns:
      For memory, open files, threads, disk and checkpoints the first and last value
      after the start, the peak of all, and the slope an hour.

    Raises:
      ValueError: there are fewer than three samples after the start.
    """
    began = samples[0].time
    samples = [one for one in samples if one.time - began <= end_seconds]
    settled = [one for one in samples if one.time - began >= settled_seconds]
    if len(settled) < 3:
        raise ValueError(
            f"there must be three samples or more after {settled_seconds:.0f} s; "
            f"there are {len(settled)}"
        )
    found: dict[str, Any] = {
        "seconds": round(samples[-1].time - began),
        "settled_seconds": round(settled_seconds),
        "num_samples": len(settled),
    }
    for name in Sample._fields[2:]:
        values = [getattr(one, name) for one in settled]
        found[name] = {
            "first": values[0],
            "last": values[-1],
            "peak": max(getattr(one, name) for one in samples),
            "slope_per_hour": round(slope([one.time for one in settled], values), 1),
        }
    return found


def watch(
    process: int, folder: pathlib.Path | None, log: pathlib.Path, seconds: float
) -> None:
    """Appends samples to a log, for so long or until the process has ended."""
    end = time.monotonic() + seconds
    with log.open("a") as file:
        while (found := sample(process, folder)) and time.monotonic() < end:
            print(*found._replace(time=round(found.time)), file=file, flush=True)
            time.sleep(_INTERVAL)


def write(results: pathlib.Path, values: dict[str, Any]) -> None:
    """Writes results as JSON."""
    results.parent.mkdir(parents=True, exist_ok=True)
    results.write_text(json.dumps(values, indent=2) + "\n")


def main() -> int:
    """Watches a process, or sums up a log."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--log", type=pathlib.Path, required=True)
    parser.add_argument("--process", type=int, help="its number")
    parser.add_argument("--folder", type=pathlib.Path, help="of its checkpoints")
    parser.add_argument("--seconds", type=float, default=3600.0)
    parser.add_argument("--results", type=pathlib.Path, help="file for the sum")
    parser.add_argument("--about", default="", help="what ran where")
    parser.add_argument("--settled_seconds", type=float, default=SETTLED_SECONDS)
    parser.add_argument("--end_seconds", type=float, default=math.inf)
    options = parser.parse_args()
    if options.process:
        watch(options.process, options.folder, options.log, options.seconds)
    if options.results:
        samples = read(options.log)
        found = summary(samples, options.settled_seconds, options.end_seconds)
        write(options.results, {"about": options.about, **found})
    return 0


if __name__ == "__main__":
    sys.exit(main())
