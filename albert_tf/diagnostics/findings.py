"""Findings of the checks, and the lines that are printed of them."""

import dataclasses
import enum
import os
from collections.abc import Mapping, Sequence
from typing import Any

from albert_tf.core import plurals, text_table

# In the order in which they are made.
CHECKS = (
    *("versions", "imports", "cpu", "memory", "disk", "gpu", "tpu", "products"),
    *("storage", "clock"),
)


class Status(enum.StrEnum):
    """How a check ended."""

    OK = "OK"
    WARNING = "warning"
    FAILED = "FAILED"


@dataclasses.dataclass(frozen=True)
class Finding:
    """What one check has found.

    Attributes:
      check: one of `CHECKS`.
      status: FAILED means that training would fail, or would waste the machine.
      found: what was found, in a few words.
      remedy: what to do about it; "" if nothing is wrong.
      values: the same as values for JSON.
      is_outage: it failed because a storage cannot be reached now.
    """

    check: str
    status: Status
    found: str
    remedy: str = ""
    values: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    is_outage: bool = False


def lines(found: Sequence[Finding]) -> list[str]:
    """One line for each finding, in columns that are the same for all calls."""
    # As wide as any, so that lines printed one after the other are aligned.
    widest = (max(Status, key=len), max(CHECKS, key=len), "")
    rows = [(one.status, one.check, _sentence(one)) for one in found]
    return text_table.align([widest, *rows], num_left=3)[1:]


def _sentence(one: Finding) -> str:
    sentences = [f"{one.found.rstrip('.')}.", one.remedy] if one.remedy else [one.found]
    return " ".join(" ".join(sentences).split())


def exit_code(found: Sequence[Finding]) -> int:
    """Returns 0 if nothing failed, 75 if only storages cannot be reached, 1 otherwise.

    75 (EX_TEMPFAIL) is what training ends with in that case: the same command may
    succeed later.
    """
    failed = [one for one in found if one.status is Status.FAILED]
    if not failed:
        return 0
    return os.EX_TEMPFAIL if all(one.is_outage for one in failed) else 1


def summary(found: Sequence[Finding]) -> str:
    """The last line: how many failed, and of which checks."""
    failed = [one.check for one in found if one.status is Status.FAILED]
    warnings = sum(one.status is Status.WARNING for one in found)
    if failed:
        names = ", ".join(dict.fromkeys(failed))
        return f"error: {len(failed)} of {len(found)} findings FAILED: {names}"
    return f"nothing failed; {plurals.count(warnings, 'warning')}"


def to_json(found: Sequence[Finding]) -> dict[str, Any]:
    """All findings as values."""
    return {
        "exit_code": exit_code(found),
        "findings": [dataclasses.asdict(one) for one in found],
    }
