"""All checks, one after the other."""

import dataclasses
from collections.abc import Iterator

from albert_tf.diagnostics import (
    clock,
    cpu,
    disk,
    findings,
    gpu,
    imports,
    memory,
    products,
    storage,
    tensorflow_devices,
    tpu,
    versions,
)


@dataclasses.dataclass(frozen=True)
class Options:
    """What to check.

    Attributes:
      checks: of `findings.CHECKS`.
      model_dir, data_dir: directories of the run; "" for none.
      timeout_seconds: limit of each process that a check starts.
      min_free_gb: less free space than that is a warning.
      expected_gpus: GPUs that must be there; 0 if any number will do.
      expects_tpu: there must be a TPU.
      query_metadata: ask Google Cloud's metadata server.
    """

    checks: tuple[str, ...] = findings.CHECKS
    model_dir: str = ""
    data_dir: str = ""
    timeout_seconds: float = 120.0
    min_free_gb: float = 5.0
    expected_gpus: int = 0
    expects_tpu: bool = False
    query_metadata: bool = False


def run(options: Options) -> Iterator[findings.Finding]:
    """Yields the findings of each check as soon as it has ended."""
    checks, limit = {*options.checks}, options.timeout_seconds
    start = clock.read()
    # ---- What takes no time, and the imports ----
    if "versions" in checks:
        yield from versions.judge(versions.observe())
    processor = cpu.observe()
    if "imports" in checks:
        yield from imports.judge(imports.observe(limit), processor.instructions)
    if "cpu" in checks:
        yield from cpu.judge(processor)
    if "memory" in checks:
        yield from memory.judge(memory.observe())
    if "disk" in checks:
        for one in disk.observe(options.model_dir, limit):
            yield disk.judge(one, options.min_free_gb)
    # ---- Devices ----
    if checks & {"gpu", "tpu", "products"}:
        yield from _devices(options)
    # ---- Storage, and its clock ----
    ahead: dict[str, float] = {}
    if checks & {"storage", "clock"}:
        if options.data_dir and "storage" in checks:
            read = storage.observe_data_dir(options.data_dir, limit)
            yield storage.judge("--data_dir", options.data_dir, read)
        if options.model_dir:
            written = storage.observe_model_dir(options.model_dir, limit)
            if "storage" in checks:
                yield storage.judge("--model_dir", options.model_dir, written)
            seconds = storage.seconds_ahead(written)
            if seconds is not None:
                ahead[options.model_dir] = seconds
    if "clock" in checks:
        yield from clock.judge(start, clock.read(), ahead)


def _devices(options: Options) -> Iterator[findings.Finding]:
    limit = options.timeout_seconds
    devices = tensorflow_devices.observe(limit)
    accelerator = tpu.observe(options.query_metadata)
    if "gpu" in options.checks:
        yield from gpu.judge(gpu.observe(limit), devices, options.expected_gpus)
    if "tpu" in options.checks:
        yield from tpu.judge(accelerator, devices, options.expects_tpu)
    if "products" in options.checks:
        if devices.error:
            yield findings.Finding(
                "products",
                findings.Status.FAILED,
                f"TensorFlow does not start: {devices.error}",
                "See the lines `imports`",
            )
            return
        for device in products.devices(devices, accelerator.type):
            yield products.judge(device, products.observe(device, limit))
