"""Commands that run where gs:// leads to tests/support/gcs_server.py.

Each runs in namespaces of its own, with a server of its own.
"""

import collections
import dataclasses
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys

from tests.support import gcs_server

# Far above what a command needs, on a busy machine too.
TIMEOUT_SECONDS = 300

# As root the machine may forbid user namespaces, which nobody else can do without.
UNSHARE_MOUNT = ["unshare", "--mount"]
if os.geteuid() != 0:
    UNSHARE_MOUNT += ["--user", "--map-root-user"]
_UNSHARE = [*UNSHARE_MOUNT, "--net"]


def why_not() -> str | None:
    """What this machine lacks for these tests."""
    for name in ("unshare", "mount", "openssl"):
        if shutil.which(name) is None:
            return f"no command {name}"
    trial = [*_UNSHARE, "mount", "--bind", "/etc/hosts", "/etc/hosts"]
    found = subprocess.run(trial, capture_output=True, text=True, timeout=30)
    return f"no namespaces: {found.stderr.strip()}" if found.returncode else None


@dataclasses.dataclass
class Outcome:
    """How a command ended.

    Attributes:
      code: the exit code.
      output: both streams.
      faults: how often each was injected.
      requests: how many there were, by their kind.
      outages: rules of `gcs_server.Faults` for what is left of outages.
    """

    code: int
    output: str
    faults: collections.Counter
    requests: collections.Counter
    outages: list[dict]


class Cloud:
    """A folder of buckets; objects between commands are files."""

    def __init__(self, folder: pathlib.Path, certificate: pathlib.Path):
        self._folder = folder
        self._certificate = certificate
        self.bucket = folder / "objects" / "bucket"
        self.bucket.mkdir(parents=True)

    def run(
        self,
        *command,
        page_size=1000,
        environment=None,
        timeout_seconds=TIMEOUT_SECONDS,
        **plan,
    ) -> Outcome:
        """Runs a Python command where gs://bucket is the bucket; see `Faults`."""
        plan_file, report = self._folder / "plan", self._folder / "report"
        plan_file.write_text(json.dumps(plan))
        report.unlink(missing_ok=True)
        process = subprocess.Popen(
            [
                *_UNSHARE,
                *(sys.executable, "-m", gcs_server.__name__),
                f"--objects={self.bucket.parent}",
                f"--plan={plan_file}",
                f"--report={report}",
                f"--certificate={self._certificate}",
                f"--page_size={page_size}",
                "--",
                sys.executable,
                *map(str, command),
            ],
            cwd=pathlib.Path(__file__).resolve().parent.parent.parent,
            env={**os.environ, **(environment or {})},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            output, _ = process.communicate(timeout=timeout_seconds)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        assert report.exists(), output
        counts = json.loads(report.read_text())
        return Outcome(
            process.returncode,
            output,
            collections.Counter(counts["faults"]),
            collections.Counter(counts["requests"]),
            counts["outages"],
        )
