"""Runs the fault suite and counts what happened.

python -m tests.faults.run --results=docs/reliability/faults.json
python -m tests.faults.run --only='*-killed,gs-*' --seed=7
python -m tests.faults.run --short --results=FILE

Results are written after each experiment, and those that are there with the same seed
and number of faults are not run again, so that the same command resumes. The exit code
is 1 if one failed. What needs namespaces of Linux is skipped where they are forbidden.
"""

import argparse
import datetime
import fnmatch
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import time
import zlib
from typing import Any

from tests import conftest  # noqa: F401  (the environment: no GPU, few messages)
from tests.faults import bench as bench_lib
from tests.faults import (
    clocks,
    cloud,
    damaged_data,
    damaged_models,
    disks,
    experiment,
    fuzz,
    kills,
    markup,
    workers,
)
from tests.support import gcs_cloud

EXPERIMENTS: tuple[experiment.Experiment, ...] = (
    *kills.EXPERIMENTS,
    *workers.EXPERIMENTS,
    *clocks.EXPERIMENTS,
    *disks.EXPERIMENTS,
    *cloud.EXPERIMENTS,
    *damaged_data.EXPERIMENTS,
    *damaged_models.EXPERIMENTS,
    *fuzz.EXPERIMENTS,
    *markup.EXPERIMENTS,
)


_NEED_MOUNTS = {
    one.name for one in disks.EXPERIMENTS if one.name.endswith(("full-disk", "only"))
}
# Set in the process that has mounts of its own.
_HAS_MOUNTS = "ALBERT_TF_FAULTS_HAS_MOUNTS"


def _with_own_mounts() -> int | None:
    """Starts this program again where its mounts are its own, and end with it.

    Returns:
      The exit code, or None where this is that program, or namespaces are forbidden.
    """
    if _HAS_MOUNTS in os.environ or gcs_cloud.why_not():
        return None
    command = [*gcs_cloud.UNSHARE_MOUNT, sys.executable, "-m", "tests.faults.run"]
    environment = {**os.environ, _HAS_MOUNTS: "1"}
    return subprocess.run([*command, *sys.argv[1:]], env=environment).returncode


def _seed_of(seed: int, name: str) -> int:
    return zlib.crc32(f"{seed}/{name}".encode())


def run_one(
    chosen: experiment.Experiment, bench: bench_lib.Bench, num_faults: int, seed: int
) -> dict[str, Any]:
    """Runs an experiment; returns what is written about it."""
    own_seed = _seed_of(seed, chosen.name)
    started = time.monotonic()
    tally = chosen.run(bench, num_faults, random.Random(own_seed))
    return {
        "date": datetime.date.today().isoformat(),
        "seed": seed,
        "wanted": num_faults,
        "seconds": round(time.monotonic() - started),
        **tally.values(),
    }


def _is_done(before: dict[str, Any], wanted: int, seed: int) -> bool:
    """Whether as many faults as wanted were injected, and none failed."""
    is_same = before.get("wanted") == wanted and before["seed"] == seed
    return is_same and before["num_faults"] >= wanted and not before["failures"]


def main() -> int:
    """Runs what the command line selects."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--results", type=pathlib.Path, default="build/faults.json")
    parser.add_argument("--folder", type=pathlib.Path, help="for inputs and runs")
    parser.add_argument("--only", default="", help="patterns of names, by commas")
    parser.add_argument("--short", action="store_true", help="a few faults of each")
    parser.add_argument("--again", action="store_true", help="also what is done")
    parser.add_argument("--at_most", type=int, help="faults of each experiment")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if (code := _with_own_mounts()) is not None:
        return code

    patterns = [text for text in options.only.split(",") if text] or ["*"]
    chosen = [
        one
        for one in EXPERIMENTS
        if any(fnmatch.fnmatch(one.name, pattern) for pattern in patterns)
    ]
    if not chosen:
        parser.error(f"--only matches none of {[one.name for one in EXPERIMENTS]}")
    found: dict[str, Any] = {}
    if options.results.exists():
        found = json.loads(options.results.read_text())
    failed = []
    with tempfile.TemporaryDirectory(prefix="faults-") as temporary:
        folder = options.folder or pathlib.Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        os.environ["TMPDIR"] = str(folder / "temporary")  # what runs leave there
        os.makedirs(os.environ["TMPDIR"], exist_ok=True)
        bench = bench_lib.Bench(folder.resolve())
        for one in chosen:
            wanted = one.num_short if options.short else one.num_faults
            wanted = min(wanted, options.at_most or wanted)
            before = found.get(one.name, {})
            if not wanted or (
                _is_done(before, wanted, options.seed) and not options.again
            ):
                continue
            if one.name in _NEED_MOUNTS and _HAS_MOUNTS not in os.environ:
                print(f"{one.name} is skipped: {gcs_cloud.why_not()}", flush=True)
                continue
            print(f"{one.name} (seed {options.seed}): {wanted} faults", flush=True)
            values = run_one(one, bench, wanted, options.seed)
            found[one.name] = values
            order = {name: found[name] for name in sorted(found)}
            options.results.parent.mkdir(parents=True, exist_ok=True)
            unfinished = options.results.with_suffix(f".{os.getpid()}")
            unfinished.write_text(json.dumps(order, indent=2) + "\n")
            unfinished.replace(options.results)
            print(f"  {values['outcomes']} in {values['seconds']} s", flush=True)
            if values["num_faults"] < wanted:
                print(f"  only {values['num_faults']} faults were injected", flush=True)
            for line in values["failures"]:
                print(f"  FAILED: {line}", flush=True)
            failed += values["failures"]
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
