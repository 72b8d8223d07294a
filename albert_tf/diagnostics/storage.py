"""Directories of a run: --model_dir is written to, --data_dir is read."""

import os
import re

from albert_tf.core import files
from albert_tf.diagnostics import child, findings

_PROGRAM = "import sys; from albert_tf.diagnostics import storage_probe; "
_MODEL_DIR = _PROGRAM + "storage_probe.write_read_remove(sys.argv[1])"
_DATA_DIR = _PROGRAM + "storage_probe.list_read(sys.argv[1])"
# TensorFlow's client would retry for minutes, and the limit would end it before it says
# why; three retries take ten seconds.
_ENVIRONMENT = {"GCS_RETRY_CONFIG_MAX_RETRIES": "3", "TF_CPP_MIN_LOG_LEVEL": "3"}

_NO_LOGIN = re.compile(r"\b401\b")
_REFUSED = re.compile(r"\b403\b|permission denied|not authorized", re.IGNORECASE)
_ABSENT = re.compile(r"\b404\b|no directory|has no files", re.IGNORECASE)
_READ_ONLY = re.compile(r"read-only file system", re.IGNORECASE)
_NO_SPACE = re.compile(r"no space left|quota", re.IGNORECASE)


def observe_model_dir(path: str, timeout_seconds: float) -> child.Outcome:
    """Writes to --model_dir."""
    return child.run(_MODEL_DIR, [path], timeout_seconds, _environment())


def observe_data_dir(path: str, timeout_seconds: float) -> child.Outcome:
    """Reads from --data_dir, to which training writes nothing."""
    return child.run(_DATA_DIR, [path], timeout_seconds, _environment())


def _environment() -> dict[str, str]:
    return {k: v for k, v in _ENVIRONMENT.items() if k not in os.environ}


def judge(flag: str, path: str, outcome: child.Outcome) -> findings.Finding:
    """A directory that does not answer, or refuses, fails.

    Args:
      flag: "--model_dir" or "--data_dir".
      path: its value.
      outcome: how the access ended.
    """
    values = outcome.values()
    last = values[-1] if values else {}
    details = {"flag": flag, "path": path, "code": outcome.code, **last}
    if outcome.code == 0 and "seconds" in last:
        did = "written, read and removed" if flag == "--model_dir" else "read"
        text = f"{flag}={path}: {did} in {last['seconds']:.1f} s"
        return findings.Finding("storage", findings.Status.OK, text, values=details)
    step = f", at the step: {last['step']}" if "step" in last else ""
    # Without what cli.user_errors adds for an outage: the remedy says more.
    said = outcome.describe().removeprefix("error: ").partition(". The stor")[0]
    is_outage = outcome.code in (None, os.EX_TEMPFAIL)
    remedy = _remedy(said, path, is_outage)
    if last.get("step") in ("read", "remove") and flag == "--model_dir":
        remedy += f". Remove {last['path']}, if it is there"
    return findings.Finding(
        "storage",
        findings.Status.FAILED,
        f"{flag}={path}{step}: {said}",
        remedy,
        details,
        is_outage,
    )


def _remedy(said: str, path: str, is_outage: bool) -> str:
    is_remote = files.is_remote(path)
    if _NO_LOGIN.search(said):
        return (
            "Give the machine a service account, or log in by gcloud auth "
            "application-default login (docs/gcs.md)"
        )
    if _REFUSED.search(said):
        return (
            "The machine's account needs roles/storage.objectAdmin on the bucket and "
            "the scope cloud-platform (docs/gcs.md)"
            if is_remote
            else "Give this user the permission, or another directory"
        )
    if _ABSENT.search(said):
        return "Check the name"
    if _READ_ONLY.search(said) or _NO_SPACE.search(said):
        return "Give another directory, or free space on its disk"
    if "No module named" in said:
        return "TensorFlow, whose client is used for it, is missing: see `imports`"
    if is_outage:
        return (
            "Does the machine reach storage.googleapis.com (external address or "
            "Private Google Access, firewall)? Try again later"
            if is_remote
            else "Does the file server answer? Try again later, or raise "
            "--timeout_seconds"
        )
    return "See docs/gcs.md" if is_remote else "Give another directory"


def seconds_ahead(outcome: child.Outcome) -> float | None:
    """Returns how far the storage's clock is ahead of this machine's.

    Returns:
      Seconds, 0 if the file's time is within those of the write; None if no file was
      written.
    """
    values = outcome.values()
    if outcome.code != 0 or not values or "written" not in values[-1]:
        return None
    last = values[-1]
    if last["written"] < last["before"]:
        return last["written"] - last["before"]
    return max(0.0, last["written"] - last["after"])
