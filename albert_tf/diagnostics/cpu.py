"""The CPU: cores, and the instructions that decide how fast it multiplies."""

import dataclasses
import os
import pathlib
import platform
import re

from albert_tf.core import cgroup
from albert_tf.diagnostics import findings

# Flags of /proc/cpuinfo, and the names that CPU makers give them.
_SHOWN = {"avx2": "AVX2", "avx512f": "AVX-512", "avx512_bf16": "AVX512_BF16"}
_SHOWN |= {"amx_bf16": "AMX"}
# Either of them multiplies in bfloat16; without, TensorFlow converts to float32.
_BFLOAT16 = frozenset(["avx512_bf16", "amx_bf16", "avx_ne_convert", "bf16"])


@dataclasses.dataclass(frozen=True)
class Observed:
    """A CPU.

    Attributes:
      name: its model.
      architecture: such as x86_64 or aarch64.
      cores: of the machine.
      usable_cores: that this process may run on.
      quota: cores' worth of time that the control group allows, or None.
      load: processes that ran or waited for a core in the last minute.
      instructions: flags of /proc/cpuinfo.
    """

    name: str
    architecture: str
    cores: int
    usable_cores: int
    quota: float | None
    load: float
    instructions: frozenset[str]

    @property
    def fast_bfloat16(self) -> bool:
        """Whether it multiplies in bfloat16."""
        return bool(_BFLOAT16 & self.instructions)


def observe(root: pathlib.Path = pathlib.Path("/")) -> Observed:
    """Reads /proc/cpuinfo and the control group under `root`."""
    path = root / "proc" / "cpuinfo"
    text = path.read_text(errors="replace") if path.exists() else ""
    name = re.search(r"^model name\s*: (.*)$", text, re.MULTILINE)
    flags = re.search(r"^(?:flags|Features)\s*: (.*)$", text, re.MULTILINE)
    return Observed(
        name=name[1].strip() if name else "",
        architecture=platform.machine(),
        cores=os.cpu_count() or 1,
        usable_cores=len(os.sched_getaffinity(0)),
        quota=cgroup.cpu_quota(root),
        load=os.getloadavg()[0],
        instructions=frozenset(flags[1].split() if flags else ()),
    )


def judge(observed: Observed) -> list[findings.Finding]:
    """No AVX fails, since TensorFlow's wheels for x86 are built with it."""
    has = observed.instructions
    is_x86 = observed.architecture == "x86_64"
    parts = [f"{observed.cores} cores of {observed.name or observed.architecture}"]
    if observed.usable_cores < observed.cores:
        parts.append(f"{observed.usable_cores} of them for this process")
    if observed.quota is not None and observed.quota < observed.usable_cores:
        parts.append(f"time of {observed.quota:g} cores")
    # It explains slow imports and products.
    parts.append(f"load {observed.load:.1f}")
    if is_x86:
        parts.append(
            ", ".join(
                name if flag in has else f"no {name}" for flag, name in _SHOWN.items()
            )
        )
    is_fast = observed.fast_bfloat16
    parts.append(f"bfloat16 is {'fast' if is_fast else 'not faster than float32'}")
    status, remedy = findings.Status.OK, ""
    if is_x86 and has and "avx" not in has:
        status = findings.Status.FAILED
        remedy = (
            "TensorFlow's wheels need AVX: take another type of machine, or in a "
            "virtual machine pass the host's CPU on"
        )
    elif is_x86 and has and not {"avx2", "fma"} <= has:
        status = findings.Status.WARNING
        remedy = "Without AVX2 and FMA training is several times slower"
    values = {
        "name": observed.name,
        "architecture": observed.architecture,
        "cores": observed.cores,
        "usable_cores": observed.usable_cores,
        "quota": observed.quota,
        "load": observed.load,
        "instructions": sorted(has & {*_SHOWN, *_BFLOAT16, "avx", "fma"}),
        "fast_bfloat16": is_fast,
    }
    return [findings.Finding("cpu", status, "; ".join(parts), remedy, values)]
