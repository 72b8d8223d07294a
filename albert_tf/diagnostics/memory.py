"""Memory of the machine and of its control group."""

import dataclasses
import pathlib

from albert_tf.core import cgroup, machine
from albert_tf.diagnostics import findings

_GIB = 1 << 30
# TensorFlow, the input pipeline and the smallest model need about two.
_LEAST_GIB = 3.0


@dataclasses.dataclass(frozen=True)
class Observed:
    """Memory in bytes.

    Attributes:
      total: of the machine.
      available: without swapping.
      limit: of the control group, or None.
    """

    total: int
    available: int
    limit: int | None


def observe(root: pathlib.Path = pathlib.Path("/")) -> Observed:
    """Reads /proc/meminfo and the control group under `root`."""
    sizes = machine.memory_sizes(root)
    return Observed(
        total=sizes["MemTotal"],
        available=sizes["MemAvailable"],
        limit=cgroup.memory_limit(root),
    )


def judge(observed: Observed) -> list[findings.Finding]:
    """Little memory is a warning: how much a run needs depends on its model."""
    text = (
        f"{observed.available / _GIB:.1f} GiB of {observed.total / _GIB:.1f} available"
    )
    usable = observed.available
    if observed.limit is not None and observed.limit < observed.total:
        text += f"; the control group is limited to {observed.limit / _GIB:.1f} GiB"
        usable = min(usable, observed.limit)
    else:
        text += "; no limit by a control group"
    is_little = usable < _LEAST_GIB * _GIB
    return [
        findings.Finding(
            "memory",
            findings.Status.WARNING if is_little else findings.Status.OK,
            text,
            f"Training needs {_LEAST_GIB:g} GiB or more: end other processes, or "
            "raise the limit"
            if is_little
            else "",
            dataclasses.asdict(observed),
        )
    ]
