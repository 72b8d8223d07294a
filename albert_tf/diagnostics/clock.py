"""The system's clock, by itself and against the clocks of storages."""

import dataclasses
import time
from collections.abc import Mapping

from albert_tf.diagnostics import findings

# Certificates of servers and tokens of logins are not valid outside of their time.
_FIRST_YEAR, _LAST_YEAR = 2025, 2045
_MAX_DRIFT_SECONDS = 1.0
_WARNING_SECONDS = 10.0
# Google refuses tokens that are dated wrongly by more, and leases of a run's directory
# are judged by these clocks (albert_tf/checkpoints/lease.py).
_FAILED_SECONDS = 240.0


@dataclasses.dataclass(frozen=True)
class Reading:
    """Two clocks at one moment, in seconds."""

    system: float
    monotonic: float


def read() -> Reading:
    """Reads both clocks."""
    return Reading(time.time(), time.monotonic())


def judge(
    first: Reading, last: Reading, ahead: Mapping[str, float]
) -> list[findings.Finding]:
    """A wrong year or a clock far from a storage's fails.

    Args:
      first: reading at the start of all checks.
      last: reading at their end.
      ahead: for each storage the seconds that its clock is ahead of this one.
    """
    now = time.gmtime(last.system)
    drift = (last.system - first.system) - (last.monotonic - first.monotonic)
    text = time.strftime("%Y-%m-%d %H:%M:%S UTC", now)
    set_it = "Set the clock, for example by systemd-timesyncd or chrony"
    status, remedy = findings.Status.OK, ""
    if ahead:
        path, seconds = max(ahead.items(), key=lambda item: abs(item[1]))
        word = "ahead of" if seconds < 0 else "behind"
        text += f", {abs(seconds):.1f} s {word} the storage of {path}"
        if abs(seconds) > _WARNING_SECONDS:
            is_far = abs(seconds) > _FAILED_SECONDS
            status = findings.Status.FAILED if is_far else findings.Status.WARNING
            remedy = set_it
    if abs(drift) > _MAX_DRIFT_SECONDS:
        text += f", and was set by {drift:+.1f} s during these checks"
        remedy = f"{set_it}, and start again once it is stable"
        if status is findings.Status.OK:
            status = findings.Status.WARNING
    if not _FIRST_YEAR <= now.tm_year <= _LAST_YEAR:
        status, remedy = findings.Status.FAILED, set_it
    values = {
        "system_seconds": last.system,
        "drift_seconds": drift,
        "storage_ahead_seconds": dict(ahead),
    }
    return [findings.Finding("clock", status, text, remedy, values)]
