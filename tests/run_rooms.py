"""Runs all tests on all cores, each directory or long file in its own process.

Call as `python -m tests.run_rooms PYTEST_ARGS...`; paths among the arguments select
files. TensorFlow keeps what it compiled until its process ends: one process for all
tests grows to 7 GB. The processes are forks of a server that has imported TensorFlow
and computed nothing, so that each starts at once. The longest run first. The slowest
tests are listed at the end. The exit code is 1 if any test failed.
"""

import concurrent.futures
import gc
import multiprocessing
import os
import pathlib
import re
import resource
import shutil
import sys
import tempfile
import threading
import time

_TESTS = pathlib.Path(__file__).resolve().parent
# Needs another environment: see `make test-interop`.
_ELSEWHERE = {"interop"}
# Directories with many models: each of their files has a process.
_BY_FILE = {
    "benchmarks",
    "binaries",
    "data_prep/pipeline",
    "finetuning",
    "model",
    "reproduction",
    "serving",
    "training",
}
# Longest first; the others follow.
_LONG = (
    "binaries",
    "benchmarks",
    "finetuning",
    "training",
    "reproduction",
    "model",
    "serving",
    "data_prep/pipeline",
    "repository",
    "interchange",
    "optim",
)
# Compiled as for users: what is compared with numbers of the original, or with what is
# not compiled. For all others see `conftest`.
_OPTIMIZED = {
    "interchange",
    "model/test_compute_forms.py",
    "model/test_pretraining_model.py",
    "model/test_task_heads.py",
    "optim",
}
_PRELOADED = (
    "albert_tf.finetuning.finetuning",
    "albert_tf.finetuning.results_writer",
    "albert_tf.serving.export",
    "albert_tf.training.pretraining",
    "pytest",
    "tests.support.training_processes",
)
_NO_TESTS = 5  # pytest's exit code if no test was selected
_COUNT = re.compile(r"(\d+) (passed|failed|skipped|errors?|xfailed|warnings?)\b")
_DURATIONS = ("--durations=10", "--durations-min=5")
_DURATION = re.compile(r"^([\d.]+)s (?:call|setup|teardown) +(\S.*)$", re.MULTILINE)
_NUM_SLOWEST = 40


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


def _run_pytest(arguments: list[str], output: str, is_optimized: bool) -> None:
    """Runs pytest in this process, which ends with its exit code.

    Args:
      arguments: of pytest.
      output: the file that both output streams go to; the last line tells what it cost.
      is_optimized: whether XLA compiles as for users.
    """
    import pytest  # the server has it

    from tests import conftest

    # Read when something is compiled first, which the server has not done.
    if is_optimized and os.environ["XLA_FLAGS"] == conftest.QUICKLY_COMPILED:
        os.environ["XLA_FLAGS"] = ""

    gc.freeze()  # a collection would read all that the server imported
    descriptor = os.open(output, os.O_WRONLY | os.O_CREAT)
    for stream in (1, 2):
        os.dup2(descriptor, stream)
    os.close(descriptor)
    code = pytest.main(arguments)
    usage = [
        resource.getrusage(who)
        for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    ]
    cpu = sum(one.ru_utime + one.ru_stime for one in usage)
    peak = max(one.ru_maxrss for one in usage)
    print(f"{cpu:.0f} s of CPU, at most {peak / 1e6:.1f} GB", flush=True)
    sys.exit(code)


def main() -> int:
    """Runs the processes; prints their output and the totals."""
    from tests import conftest  # noqa: F401  (the environment, for the server)

    paths = [one for one in sys.argv[1:] if os.path.exists(one)]
    options = [one for one in sys.argv[1:] if one not in paths]
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(_PRELOADED))
    folder = pathlib.Path(tempfile.mkdtemp(prefix="tests-"))
    lock = threading.Lock()
    totals: dict[str, int] = {}
    failed = []
    durations: list[tuple[float, str]] = []
    started = time.monotonic()

    def run(unit: tuple[str, list[str]]) -> None:
        name, files = unit
        begun = time.monotonic()
        temporary = folder / name.replace("/", "-")
        output = temporary.with_suffix(".log")
        arguments = [
            "--color=no",
            f"--basetemp={temporary}",
            *_DURATIONS,
            *options,
            *files,
        ]
        process = context.Process(
            target=_run_pytest, args=(arguments, str(output), name in _OPTIMIZED)
        )
        process.start()
        process.join()
        text = output.read_text(errors="replace") if output.exists() else ""
        with lock:
            for seconds, test in _DURATION.findall(text):
                durations.append((float(seconds), test))
            for line in text.rstrip().splitlines()[-2:]:
                for count, word in _COUNT.findall(line):
                    word = word.rstrip("s") if word != "skipped" else word
                    totals[word] = totals.get(word, 0) + int(count)
            if process.exitcode in (0, _NO_TESTS):
                shutil.rmtree(temporary, ignore_errors=True)
            else:
                failed.append(f"tests/{name}: exit code {process.exitcode}")
            whole = time.monotonic() - begun
            print(f"{text}tests/{name}: {whole:.0f} s\n", flush=True)

    # One more than cores: some tests wait for pauses, leases and other processes.
    num_processes = len(os.sched_getaffinity(0)) + 1
    with concurrent.futures.ThreadPoolExecutor(num_processes) as pool:
        list(pool.map(run, units(paths).items()))
    print("The slowest tests:")
    for seconds, test in sorted(durations, reverse=True)[:_NUM_SLOWEST]:
        print(f"{seconds:7.1f} s {test}")
    found = ", ".join(f"{count} {word}" for word, count in sorted(totals.items()))
    print(f"{found} in {time.monotonic() - started:.0f} s")
    if failed:
        print("failed, with files in", folder, *failed, sep="\n")
        return 1
    shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
