"""NVIDIA GPUs: the driver's and TensorFlow's, and why they differ."""

import dataclasses
import os
import pathlib
import re

from albert_tf.diagnostics import child, findings, pci, tensorflow_devices

_NVIDIA = "0x10de"
_DISPLAY_CLASS = "0x03"
# The oldest driver for programs built with CUDA 12.
_LEAST_DRIVER = 525
_SMI = (
    "nvidia-smi",
    "--query-gpu=name,memory.total",
    "--format=csv,noheader,nounits",
)
# What TensorFlow logs of libraries that are missing.
_LIBRARIES = re.compile(
    r"Could not find cuda drivers|Cannot dlopen some GPU libraries|"
    r"Could not load dynamic library|missing cuDNN",
    re.IGNORECASE,
)
_INIT = re.compile(r"failed call to cuInit.*|CUDA_ERROR\w+.*")
_INSTALL = "Install CUDA's libraries: pip install 'tensorflow[and-cuda]=={version}'"


@dataclasses.dataclass(frozen=True)
class Observed:
    """GPUs as the machine shows them.

    Attributes:
      on_bus: NVIDIA's display devices on the PCI bus.
      driver: version of the loaded driver, or "".
      nodes: number of device files /dev/nvidia0, /dev/nvidia1, ...
      smi: lines "name, MiB" of nvidia-smi.
      smi_error: why there are none, or "".
      visible: CUDA_VISIBLE_DEVICES, or None if it is not set.
    """

    on_bus: int = 0
    driver: str = ""
    nodes: int = 0
    smi: tuple[str, ...] = ()
    smi_error: str = ""
    visible: str | None = None

    @property
    def exists(self) -> bool:
        """True if there is a GPU, or a driver for one."""
        return bool(self.on_bus or self.driver or self.nodes or self.smi)


def observe(timeout_seconds: float, root: pathlib.Path = pathlib.Path("/")) -> Observed:
    """Reads /proc, /sys and /dev under `root`, and asks nvidia-smi."""
    version = root / "proc" / "driver" / "nvidia" / "version"
    text = version.read_text() if version.exists() else ""
    # "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.65.06  Sun Jul ..."
    driver = re.search(r"Module.*?\s(\d+\.[\d.]+)", text)
    smi, smi_error = _ask_smi(timeout_seconds)
    return Observed(
        on_bus=sum(
            one.vendor == _NVIDIA and one.kind.startswith(_DISPLAY_CLASS)
            for one in pci.devices(root)
        ),
        driver=driver[1] if driver else "",
        nodes=len([*(root / "dev").glob("nvidia[0-9]*")]),
        smi=smi,
        smi_error=smi_error,
        visible=os.environ.get("CUDA_VISIBLE_DEVICES"),
    )


def _ask_smi(timeout_seconds: float) -> tuple[tuple[str, ...], str]:
    try:
        outcome = child.run_command(_SMI, timeout_seconds)
    except OSError:  # there is no such program
        return (), ""
    written = [line.strip() for line in outcome.output.splitlines() if line.strip()]
    if outcome.code == 0:
        return tuple(written), ""
    # It writes its errors to standard output.
    if outcome.code is not None and outcome.code > 0 and written:
        return (), written[0]
    return (), outcome.describe()


def judge(
    observed: Observed, devices: tensorflow_devices.Devices, expected: int
) -> list[findings.Finding]:
    """A GPU that TensorFlow does not see fails.

    Args:
      observed: GPUs as the machine shows them.
      devices: as TensorFlow shows them.
      expected: number that must be there; 0 if any number will do.
    """
    seen = len(devices.gpus)
    here = len(observed.smi) or observed.nodes or observed.on_bus
    values = {**dataclasses.asdict(observed), "tensorflow": list(devices.gpus)}
    if seen:
        text = f"{_names(observed, devices)}, driver {observed.driver or 'unknown'}"
        if seen < expected:
            return _failed(
                f"{text}: {expected} GPUs are expected, and TensorFlow sees {seen}",
                _why_fewer(observed),
                values,
            )
        if seen < here:
            return [
                findings.Finding(
                    "gpu",
                    findings.Status.WARNING,
                    f"{text}: TensorFlow sees {seen} of {here}",
                    _why_fewer(observed),
                    values,
                )
            ]
        return [findings.Finding("gpu", findings.Status.OK, text, values=values)]
    if observed.exists:
        why, remedy = _why_none(observed, devices)
        name = observed.smi[0].split(",")[0] if observed.smi else "a GPU"
        driver = f"driver {observed.driver}" if observed.driver else "no driver"
        text = f"{name} with {driver}, but TensorFlow sees none: {why}"
        return _failed(text, remedy, values)
    if expected:
        return _failed(
            f"{expected} expected, and there is neither a GPU nor a driver",
            "Is it the right type of machine? In a container, give it the GPUs "
            "(docker run --gpus all)",
            values,
        )
    return [findings.Finding("gpu", findings.Status.OK, "none", values=values)]


def _why_fewer(observed: Observed) -> str:
    if observed.visible is not None:
        return f"CUDA_VISIBLE_DEVICES={observed.visible!r} hides some: unset it"
    return "See nvidia-smi: a GPU may have failed, or the machine has fewer"


def _why_none(
    observed: Observed, devices: tensorflow_devices.Devices
) -> tuple[str, str]:
    """Returns the first reason that applies, and its remedy."""
    log = "\n".join(devices.log)
    init = _INIT.search(log)
    major = int(observed.driver.partition(".")[0] or 0)
    install = _INSTALL.format(version=devices.version)
    if devices.error:
        return f"it does not start: {devices.error}", "See the lines `imports`"
    if observed.visible is not None and observed.visible.strip()[:1] in ("", "-"):
        return (
            f"CUDA_VISIBLE_DEVICES={observed.visible!r} hides all",
            "Unset CUDA_VISIBLE_DEVICES",
        )
    if not devices.has_cuda:
        return "this TensorFlow is built without CUDA", install
    if not (observed.driver or observed.nodes or observed.smi):
        return "no driver is loaded", "Take an image with an NVIDIA driver"
    if observed.smi_error:
        return (
            f"nvidia-smi says {observed.smi_error}",
            "Reboot, or install the driver again",
        )
    if observed.driver and major < _LEAST_DRIVER:
        return (
            f"CUDA {devices.cuda} needs driver {_LEAST_DRIVER} or later",
            "Take an image with a newer driver",
        )
    if not observed.nodes:
        return (
            "there is no /dev/nvidia0",
            "In a container, give it the GPUs (docker run --gpus all); else run "
            "nvidia-modprobe",
        )
    if _LIBRARIES.search(log):
        return "CUDA's libraries are missing, or cannot be loaded", install
    if init:
        return init[0], "Reboot, or install the driver again"
    last = devices.log[-1] if devices.log else "it does not say why"
    return last, install


def _names(observed: Observed, devices: tensorflow_devices.Devices) -> str:
    names = [gpu["name"] or "GPU" for gpu in devices.gpus]
    memory = ""
    if observed.smi:
        mib = observed.smi[0].rpartition(",")[2].strip()
        memory = f" ({int(mib) / 1024:.0f} GiB)" if mib.isdigit() else ""
    text = f"{len(names)} x {' and '.join(dict.fromkeys(names))}{memory}"
    capabilities = [gpu["capability"] for gpu in devices.gpus if gpu["capability"]]
    if capabilities and min(map(tuple, capabilities)) < (8, 0):
        text += " without bfloat16"
    return text


def _failed(text: str, remedy: str, values: dict) -> list[findings.Finding]:
    return [findings.Finding("gpu", findings.Status.FAILED, text, remedy, values)]
