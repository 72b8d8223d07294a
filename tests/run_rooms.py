"""Runs all tests on all cores, each directory or long file in its own process.

Call as `python -m tests.run_rooms PYTEST_ARGS...`; paths among the arguments select
files. TensorFlow keeps what it compiled until its process ends: one process for all
tests grows to 7 GB. The longest run first. The exit code is 1 if any test failed.
"""

import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import threading
import time

_TESTS = pathlib.Path(__file__).resolve().parent
# Needs another environment: see `make test-interop`.
_ELSEWHERE = {"interop"}
# Directories with many models: each of their files has a process.
_BY_FILE = {"binaries", "training", "serving", "model"}
# Longest first; the others follow.
_LONG = (
    "binaries",
    "benchmarks",
    "finetuning",
    "training",
    "model",
    "serving",
    "data_prep/pipeline",
    "repository",
    "interchange",
    "optim",
)
_NO_TESTS = 5  # pytest's exit code if no test was selected
_COUNT = re.compile(r"(\d+) (passed|failed|skipped|errors?|xfailed|warnings?)\b")


def units(selected: list[str]) -> dict[str, list[str]]:
    """Returns the files of each process, by name, longest first.

    Args:
      selected: paths of files and directories; all if empty.
    """
    wanted = [pathlib.Path(path).resolve() for path in selected] or [_TESTS]
    found: dict[str, list[str]] = {}
    for path in sorted(_TESTS.glob("**/test_*.py")):
        folder = path.parent.relative_to(_TESTS).as_posix()
        is_wanted = any(path.is_relative_to(one) for one in wanted)
        if is_wanted and folder not in _ELSEWHERE:
            name = f"{folder}/{path.name}" if folder in _BY_FILE else folder
            found.setdefault(name, []).append(str(path))

    def place(name: str) -> int:
        folder = os.path.dirname(name) if name.endswith(".py") else name
        return _LONG.index(folder) if folder in _LONG else len(_LONG)

    return dict(sorted(found.items(), key=lambda unit: place(unit[0])))


def main() -> int:
    """Runs the processes; prints their output and the totals."""
    paths = [one for one in sys.argv[1:] if os.path.exists(one)]
    options = [one for one in sys.argv[1:] if one not in paths]
    lock = threading.Lock()
    totals: dict[str, int] = {}
    failed = []
    started = time.monotonic()

    def run(unit: tuple[str, list[str]]) -> None:
        name, files = unit
        begun = time.monotonic()
        process = subprocess.Popen(
            [sys.executable, "-m", "pytest", "--color=no", *options, *files],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert process.stdout is not None
        output = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        with lock:
            last = (output.rstrip().splitlines() or [""])[-1]
            for count, word in _COUNT.findall(last):
                word = word.rstrip("s") if word != "skipped" else word
                totals[word] = totals.get(word, 0) + int(count)
            if process.returncode not in (0, _NO_TESTS):
                failed.append(name)
            cpu = usage.ru_utime + usage.ru_stime
            print(
                f"{output}tests/{name}: {time.monotonic() - begun:.0f} s, "
                f"{cpu:.0f} s of CPU, at most {usage.ru_maxrss / 1e6:.1f} GB\n",
                flush=True,
            )

    num_cores = len(os.sched_getaffinity(0))
    with concurrent.futures.ThreadPoolExecutor(num_cores) as pool:
        list(pool.map(run, units(paths).items()))
    found = ", ".join(f"{count} {word}" for word, count in sorted(totals.items()))
    print(f"{found} in {time.monotonic() - started:.0f} s")
    for name in failed:
        print(f"failed: tests/{name}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
