"""A matrix product, timed on each device by a process of its own."""

import dataclasses

from albert_tf.devices import peak_table
from albert_tf.diagnostics import child, findings, tensorflow_devices

_PROGRAM = (
    "import sys; from albert_tf.devices import probe; "
    "probe.print_rates(sys.argv[1], sys.argv[2], int(sys.argv[3]))"
)
# Large enough for the peak; on a GPU or TPU a product must last longer than its start.
_CPU_SIZE, _SIZE = 2048, 8192
# A large product reaches half of the peak and more, unless something is wrong.
_LEAST_SHARE = 0.25


@dataclasses.dataclass(frozen=True)
class Device:
    """A device to measure.

    Attributes:
      name: such as "GPU:0".
      dtypes: float32, and the type that the device is made for.
      size: rows and columns of the matrices.
      peak_teraflops: in the second dtype; 0 if it is unknown.
    """

    name: str
    dtypes: tuple[str, ...]
    size: int
    peak_teraflops: float


def devices(seen: tensorflow_devices.Devices, tpu_type: str) -> list[Device]:
    """The CPU, all GPUs, and one replica of a TPU.

    Args:
      seen: what TensorFlow sees.
      tpu_type: such as v5litepod-8, or "".
    """
    found = [Device("CPU:0", ("float32", "bfloat16"), _CPU_SIZE, 0.0)]
    for number, gpu in enumerate(seen.gpus):
        # Compute capability 8.0 (A100) brought bfloat16; peaks of older ones are those
        # of float16.
        is_old = tuple(gpu["capability"] or (8, 0)) < (8, 0)
        dtypes = ("float32", "float16" if is_old else "bfloat16")
        peak = peak_table.of_gpu(gpu["name"])
        found.append(Device(f"GPU:{number}", dtypes, _SIZE, peak))
    if seen.tpu_systems:
        peak = peak_table.of_tpu(tpu_type)
        found.append(Device("TPU:0", ("float32", "bfloat16"), _SIZE, peak))
    return found


def observe(device: Device, timeout_seconds: float) -> child.Outcome:
    """Measures on one device."""
    arguments = [device.name, ",".join(device.dtypes), str(device.size)]
    return child.run(_PROGRAM, arguments, timeout_seconds)


def judge(device: Device, outcome: child.Outcome) -> findings.Finding:
    """A product that hangs, crashes or is wrong fails; a slow one is a warning."""
    rates = {one["dtype"]: one for one in outcome.values()}
    parts = [_rate(one, device) for one in rates.values()]
    text = f"{device.name}: {', '.join(parts)}"
    values = {
        "device": device.name,
        "peak_teraflops": device.peak_teraflops,
        "rates": [*rates.values()],
        "code": outcome.code,
    }
    absent = [dtype for dtype in device.dtypes if dtype not in rates]
    if outcome.code != 0 or absent:
        dtype = f"in {absent[0]}" if absent else "at its end"
        done = f"{text}; but then " if parts else f"{device.name}: "
        remedy = (
            "The device hangs: reboot, or take another machine; if the machine is "
            "merely slow, raise --timeout_seconds"
            if outcome.code is None
            else "See the lines `imports` and `gpu`; an error of memory means that "
            "another process uses the device"
        )
        return _finding(
            findings.Status.FAILED,
            f"{done}{outcome.describe()}, {dtype}",
            remedy,
            values,
        )
    wrong = [dtype for dtype, one in rates.items() if not one["is_right"]]
    if wrong:
        return _finding(
            findings.Status.FAILED,
            f"{text}, and wrong results in {' and '.join(wrong)}",
            "The device is defective: take another machine",
            values,
        )
    if device.peak_teraflops and _share(rates[device.dtypes[1]], device) < _LEAST_SHARE:
        return _finding(
            findings.Status.WARNING,
            text,
            "Far below the peak: look for another process on the device (nvidia-smi)",
            values,
        )
    return _finding(findings.Status.OK, text, "", values)


def _rate(one: dict, device: Device) -> str:
    text = f"{one['flops'] / 1e12:.3g} TFLOP/s in {one['dtype']}"
    if device.peak_teraflops and one["dtype"] == device.dtypes[1]:
        text += f" ({_share(one, device):.0%} of the peak)"
    return text


def _share(one: dict, device: Device) -> float:
    return one["flops"] / (device.peak_teraflops * 1e12)


def _finding(
    status: findings.Status, found: str, remedy: str, values: dict
) -> findings.Finding:
    return findings.Finding("products", status, found, remedy, values)
