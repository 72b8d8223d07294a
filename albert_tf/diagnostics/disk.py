"""Free space of the directories that a run writes to."""

import dataclasses
import json
import os
import tempfile

from albert_tf.core import files
from albert_tf.diagnostics import child, findings

_PROGRAM = (
    "import sys; from albert_tf.diagnostics import disk; disk.print_space(sys.argv[1])"
)
_TEMPORARY = "temporary files"
_GB = 10**9
# Not even a configuration and some rows of metrics fit.
_FULL_BYTES = 50 * 10**6
_FEW_FILES = 1000


@dataclasses.dataclass(frozen=True)
class Observed:
    """The disk of one directory.

    Attributes:
      purpose: "--model_dir" or "temporary files".
      path: the directory, or the nearest one above it that exists.
      free_bytes, total_bytes: of its disk.
      free_files: files that can still be made; None if the disk has no such limit.
      error: why nothing is known, or "".
    """

    purpose: str
    path: str
    free_bytes: int = 0
    total_bytes: int = 0
    free_files: int | None = None
    error: str = ""


def observe(model_dir: str, timeout_seconds: float) -> list[Observed]:
    """The disk of temporary files, and that of a local --model_dir."""
    found = [_observe(_TEMPORARY, "", timeout_seconds)]
    if model_dir and not files.is_remote(model_dir):
        found.append(_observe("--model_dir", model_dir, timeout_seconds))
    return found


def _observe(purpose: str, path: str, timeout_seconds: float) -> Observed:
    # In a process of its own: a file server that is away blocks any access.
    outcome = child.run(_PROGRAM, [path], timeout_seconds)
    values = outcome.values()
    if outcome.code != 0 or not values:
        return Observed(purpose, path, error=outcome.describe())
    return Observed(purpose, **values[-1])


def print_space(path: str) -> None:
    """Prints the space on the disk of a directory as JSON.

    Args:
      path: the directory, which need not exist; "": that of temporary files.
    """
    path = existing(path) if path else tempfile.gettempdir()
    disk = os.statvfs(path)
    space = {
        "path": path,
        "free_bytes": disk.f_bavail * disk.f_frsize,
        "total_bytes": disk.f_blocks * disk.f_frsize,
        "free_files": disk.f_favail if disk.f_files else None,
    }
    print(json.dumps(space))


def existing(path: str) -> str:
    """Returns the directory, or the nearest one above it that exists."""
    path = os.path.abspath(path)
    while not os.path.isdir(path):
        path = os.path.dirname(path)
    return path


def judge(observed: Observed, min_free_gb: float) -> findings.Finding:
    """A full disk fails, one with less than `min_free_gb` is a warning."""
    values = dataclasses.asdict(observed)
    if observed.error:
        return findings.Finding(
            "disk",
            findings.Status.FAILED,
            f"{observed.purpose}: {observed.error}",
            "Set TMPDIR to a directory that can be written"
            if observed.purpose == _TEMPORARY
            else "Give another --model_dir, or mount its disk again",
            values,
        )
    free = observed.free_bytes / _GB
    text = (
        f"{observed.purpose}: {free:.1f} GB of {observed.total_bytes / _GB:.1f} free "
        f"in {observed.path}"
    )
    if observed.free_files is not None and observed.free_files < _FEW_FILES:
        return findings.Finding(
            "disk",
            findings.Status.FAILED,
            f"{text}, but only {observed.free_files} more files",
            "Remove files, or take another disk",
            values,
        )
    status, remedy = findings.Status.OK, ""
    if observed.free_bytes < min_free_gb * _GB:
        is_full = observed.free_bytes < _FULL_BYTES
        status = findings.Status.FAILED if is_full else findings.Status.WARNING
        remedy = f"Checkpoints need space: less than --min_free_gb={min_free_gb:g}"
        if observed.purpose == _TEMPORARY:
            remedy = (
                f"Less than --min_free_gb={min_free_gb:g}. A file for gs:// is stored "
                "here until it is uploaded: free space, or set TMPDIR"
            )
    return findings.Finding("disk", status, text, remedy, values)
