"""The devices that TensorFlow sees, listed by a process of its own."""

import dataclasses
import re
from typing import Any

from albert_tf.diagnostics import child

_PROGRAM = "from albert_tf.devices import probe; probe.print_devices()"
# TensorFlow's log line begins with date, time and place in its source.
_LOG_LINE = re.compile(r"^(?:[\d-]+ [\d:.]+: )?[EW]\S* (?:\S+\.(?:cc|cu):\d+\] )?(.*)$")


@dataclasses.dataclass(frozen=True)
class Devices:
    """What TensorFlow says.

    Attributes:
      error: why it says nothing, or "".
      version: its version.
      gpus: name and compute capability of each.
      tpu_systems: number of TPU hosts; 1 with a local TPU.
      has_cuda: it is built with CUDA.
      cuda: the version of CUDA it is built with, or "".
      log: its warnings and errors.
    """

    error: str = ""
    version: str = ""
    gpus: tuple[dict[str, Any], ...] = ()
    tpu_systems: int = 0
    has_cuda: bool = False
    cuda: str = ""
    log: tuple[str, ...] = ()


def observe(timeout_seconds: float) -> Devices:
    """Asks TensorFlow."""
    # The reasons why it sees no GPU are warnings.
    level = {"TF_CPP_MIN_LOG_LEVEL": "0"}
    return of_outcome(child.run(_PROGRAM, [], timeout_seconds, level))


def of_outcome(outcome: child.Outcome) -> Devices:
    """The devices that the process has printed."""
    values = outcome.values()
    if outcome.code != 0 or not values:
        return Devices(error=outcome.describe())
    found = values[-1]
    return Devices(
        version=found["version"],
        gpus=tuple(found["gpus"]),
        tpu_systems=found["tpu_systems"],
        has_cuda=found["has_cuda"],
        cuda=found["cuda"],
        log=tuple(
            match[1]
            for line in outcome.errors.splitlines()
            if (match := _LOG_LINE.match(line)) is not None
        ),
    )
