"""GPUs, TPUs and their products on synthetic machines."""

import dataclasses
import json
import pathlib

import pytest

from albert_tf.diagnostics import (
    child,
    findings,
    gpu,
    products,
    tensorflow_devices,
    tpu,
)

OK, WARNING, FAILED = findings.Status


def _machine(
    root: pathlib.Path, on_bus: list[tuple[str, str, str]], texts: dict[str, str]
) -> None:
    """Writes below `root` what a machine shows below /.

    Args:
      on_bus: vendor, product and class of each device on the PCI bus.
      texts: other files by path.
    """
    for slot, numbers in enumerate(on_bus):
        for name, number in zip(("vendor", "device", "class"), numbers, strict=True):
            path = f"sys/bus/pci/devices/0000:00:{slot:02}.0/{name}"
            texts = {**texts, path: f"{number}\n"}
    for path, text in texts.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)


# ---- What TensorFlow says ----

_PRINTED = {
    "version": "2.20.0",
    "gpus": [{"name": "NVIDIA L4", "capability": [8, 9]}],
    "tpu_systems": 0,
    "has_cuda": True,
    "cuda": "12.5.1",
}
_LOG = """\
2026-11-23 04:30:00.123456: I tensorflow/core/util/port.cc:153] oneDNN is on
2026-11-23 04:30:01.1: W tensorflow/core/gpu_device.cc:2342] Cannot dlopen some GPU \
libraries. Please make sure
Skipping registering GPU devices...
E0000 00:00:1763872201.1 12 cuda_executor.cc:1309] INTERNAL: CUDA Runtime error
"""


def test_devices_and_warnings_are_read():
    outcome = child.Outcome(0, json.dumps(_PRINTED) + "\n", _LOG)
    devices = tensorflow_devices.of_outcome(outcome)
    assert devices.gpus == ({"name": "NVIDIA L4", "capability": [8, 9]},)
    assert (devices.version, devices.cuda, devices.error) == ("2.20.0", "12.5.1", "")
    assert devices.log[0] == "Cannot dlopen some GPU libraries. Please make sure"
    assert "INTERNAL: CUDA Runtime error" in devices.log[1]
    assert len(devices.log) == 2


@pytest.mark.parametrize(
    ("outcome", "error"),
    [
        (child.Outcome(-4), "crashed with SIGILL"),
        (child.Outcome(None, json.dumps(_PRINTED), seconds=9), "no end within 9 s"),
        (
            child.Outcome(
                1, errors="ModuleNotFoundError: No module named 'tensorflow'"
            ),
            "ModuleNotFoundError: No module named 'tensorflow'",
        ),
    ],
)
def test_tensorflow_that_does_not_start_is_an_error(outcome, error):
    assert tensorflow_devices.of_outcome(outcome).error == error


# ---- GPU ----

NO_GPU = tensorflow_devices.Devices(version="2.20.0", has_cuda=True, cuda="12.5.1")
L4 = dataclasses.replace(NO_GPU, gpus=({"name": "NVIDIA L4", "capability": [8, 9]},))
HOST = gpu.Observed(
    on_bus=1, driver="580.65.06", nodes=1, smi=("NVIDIA L4, 23034",), visible=None
)


def _gpu(host=HOST, devices=NO_GPU, expected=0) -> findings.Finding:
    [found] = gpu.judge(host, devices, expected)
    return found


def test_gpu_that_tensorflow_sees():
    found = _gpu(devices=L4, expected=1)
    assert (found.status, found.found) == (
        OK,
        "1 x NVIDIA L4 (22 GiB), driver 580.65.06",
    )


def test_machine_without_gpu():
    found = _gpu(gpu.Observed())
    assert (found.status, found.found) == (OK, "none")
    assert _gpu(gpu.Observed(), expected=2).status is FAILED


def test_fewer_gpus_than_the_driver_has_or_the_run_needs():
    host = dataclasses.replace(HOST, smi=HOST.smi * 2, nodes=2, on_bus=2, visible="1")
    found = _gpu(host, L4)
    assert found.status is WARNING
    assert found.found.endswith("TensorFlow sees 1 of 2")
    assert "CUDA_VISIBLE_DEVICES='1' hides some" in found.remedy
    found = _gpu(host, L4, expected=2)
    assert found.status is FAILED
    assert found.found.endswith("2 GPUs are expected, and TensorFlow sees 1")


def test_old_gpu_has_no_bfloat16():
    devices = dataclasses.replace(
        NO_GPU, gpus=({"name": "Tesla T4", "capability": [7, 5]},) * 2
    )
    host = gpu.Observed(driver="580.1")
    assert _gpu(host, devices).found == "2 x Tesla T4 without bfloat16, driver 580.1"


_MISSING = ("Cannot dlopen some GPU libraries. Please make sure",)
_CUINIT = ("failed call to cuInit: INTERNAL: CUDA error: (999)",)


@pytest.mark.parametrize(
    ("host", "devices", "why", "remedy"),
    [
        ({}, {"log": _MISSING}, "libraries are missing", "[and-cuda]==2.20.0'"),
        ({}, {"has_cuda": False}, "built without CUDA", "[and-cuda]==2.20.0'"),
        ({}, {"error": "crashed with SIGILL"}, "does not start", "`imports`"),
        ({}, {"log": _CUINIT}, "failed call to cuInit: INTERNAL", "Reboot"),
        ({}, {"log": ()}, "it does not say why", "[and-cuda]"),
        ({"visible": "-1"}, {}, "CUDA_VISIBLE_DEVICES='-1' hides all", "Unset"),
        ({"visible": ""}, {}, "CUDA_VISIBLE_DEVICES='' hides all", "Unset"),
        # One GPU of number 1 is not "none".
        ({"visible": "1"}, {"log": _MISSING}, "libraries are missing", "pip install"),
        (
            {"driver": "470.57.02"},
            {},
            "CUDA 12.5.1 needs driver 525 or later",
            "newer driver",
        ),
        (
            {"smi": (), "smi_error": "Driver/library version mismatch"},
            {},
            "nvidia-smi says Driver/library version mismatch",
            "Reboot",
        ),
        ({"smi": (), "nodes": 0}, {}, "no /dev/nvidia0", "--gpus all"),
        (
            {"smi": (), "nodes": 0, "driver": ""},
            {},
            "no driver is loaded",
            "image with an NVIDIA driver",
        ),
    ],
)
def test_gpu_that_tensorflow_does_not_see_fails_with_the_reason(
    host, devices, why, remedy
):
    found = _gpu(
        dataclasses.replace(HOST, **host), dataclasses.replace(NO_GPU, **devices)
    )
    assert found.status is FAILED
    assert "but TensorFlow sees none: " in found.found
    assert why in found.found
    assert remedy in found.remedy


def test_gpus_are_read_from_the_machine(tmp_path, monkeypatch):
    _machine(
        tmp_path,
        [
            ("0x10de", "0x27b8", "0x030200"),
            ("0x10de", "0x22bc", "0x040300"),  # its sound
            ("0x1af4", "0x1050", "0x030000"),
        ],
        {
            "proc/driver/nvidia/version": (
                "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  "
                "Release Build\nGCC version:  gcc version 13.3.0\n"
            ),
            "dev/nvidia0": "",
            "dev/nvidia1": "",
            "dev/nvidiactl": "",
        },
    )
    programs = tmp_path / "bin"
    programs.mkdir()
    smi = programs / "nvidia-smi"
    smi.write_text("#!/bin/sh\necho 'NVIDIA L4, 23034'\necho 'NVIDIA L4, 23034'\n")
    smi.chmod(0o755)
    monkeypatch.setenv("PATH", str(programs))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    assert gpu.observe(60.0, tmp_path) == gpu.Observed(
        on_bus=1,
        driver="580.65.06",
        nodes=2,
        smi=("NVIDIA L4, 23034", "NVIDIA L4, 23034"),
        visible="0",
    )
    smi.write_text("#!/bin/sh\necho 'Failed to initialize NVML: x'\nexit 18\n")
    assert gpu.observe(60.0, tmp_path).smi_error == "Failed to initialize NVML: x"
    smi.unlink()
    without = gpu.observe(60.0, tmp_path)
    assert (without.smi, without.smi_error) == ((), "")


# ---- TPU ----

TPU_HOST = tpu.Observed(
    nodes=("/dev/accel0",),
    variables={"TPU_ACCELERATOR_TYPE": "v3-8"},
    libtpu="0.0.31",
    has_tpu_build=True,
)
V3 = tensorflow_devices.Devices(version="2.20.0", tpu_systems=1)


def _tpu(host=TPU_HOST, devices=V3, is_expected=True) -> findings.Finding:
    [found] = tpu.judge(host, devices, is_expected)
    return found


def test_tpu_that_tensorflow_sees():
    assert (_tpu().status, _tpu().found) == (OK, "TPU v3-8, libtpu 0.0.31")


@pytest.mark.parametrize(
    ("host", "devices", "text"),
    [
        ({"has_tpu_build": False}, {}, "this TensorFlow is not built for TPUs"),
        ({"libtpu": ""}, {}, "libtpu is missing"),
        ({}, {"error": "crashed with SIGABRT"}, "does not start: crashed with SIGABRT"),
        ({}, {"tpu_systems": 0, "log": ("TPU is in use",)}, "none: TPU is in use"),
    ],
)
def test_tpu_that_tensorflow_cannot_use_fails(host, devices, text):
    found = _tpu(
        dataclasses.replace(TPU_HOST, **host), dataclasses.replace(V3, **devices)
    )
    assert found.status is FAILED
    assert found.found.startswith("TPU v3-8, but ")
    assert text in found.found
    assert found.remedy


def test_tpu_of_a_slice_is_left_to_its_server():
    variables = {"TPU_LOAD_LIBRARY": "0", "TPU_ACCELERATOR_TYPE": "v3-32"}
    host = dataclasses.replace(TPU_HOST, variables=variables)
    found = _tpu(host, dataclasses.replace(V3, tpu_systems=0))
    assert found.status is OK
    assert "left to the server of this host" in found.found


def test_vfio_alone_is_no_tpu():
    host = tpu.Observed(nodes=("/dev/vfio/0",), variables={"TPU_SKIP_MDS_QUERY": "1"})
    none = dataclasses.replace(V3, tpu_systems=0)
    found = _tpu(host, none, is_expected=False)
    assert (found.status, found.found) == (OK, "none")
    assert _tpu(host, none).status is FAILED
    assert dataclasses.replace(host, on_bus=4).exists
    assert dataclasses.replace(host, metadata="v6e-8").type == "v6e-8"


# The network card and the disk of a machine of Google's cloud.
_GOOGLE_VM = [("0x1ae0", "0x0042", "0x020000"), ("0x1ae0", "0x001f", "0x010802")]


def test_machine_of_google_without_tpu(tmp_path, monkeypatch):
    _machine(tmp_path, _GOOGLE_VM, {})
    # Set by TensorFlow, and left to processes that a program with TensorFlow starts.
    monkeypatch.setenv("TPU_ML_PLATFORM", "Tensorflow")
    monkeypatch.setenv("TPU_SKIP_MDS_QUERY", "1")
    assert not tpu.observe(root=tmp_path).exists


def test_tpu_is_read_from_the_machine(tmp_path, monkeypatch):
    _machine(
        tmp_path,
        [*_GOOGLE_VM, ("0x1ae0", "0x006f", "0x120000")],
        {"dev/vfio/0": "", "dev/vfio/vfio": ""},
    )
    monkeypatch.setenv("TPU_WORKER_ID", "0")
    monkeypatch.setattr(
        "albert_tf.devices.tpu_pod.metadata",
        lambda name: {"accelerator-type": "v6e-4"}[name],
    )
    observed = tpu.observe(root=tmp_path)
    assert (observed.nodes, observed.on_bus) == (("/dev/vfio/0",), 1)
    assert observed.variables["TPU_WORKER_ID"] == "0"
    assert observed.metadata == ""
    assert tpu.observe(query_metadata=True, root=tmp_path).metadata == "v6e-4"


# ---- Products ----

LARGE = products.Device("GPU:0", ("float32", "bfloat16"), 8192, 121.0)


def _rates(**teraflops: float) -> str:
    lines = [
        {"dtype": dtype, "flops": rate * 1e12, "is_right": True}
        for dtype, rate in teraflops.items()
    ]
    return "".join(f"{json.dumps(line)}\n" for line in lines)


def test_devices_to_measure():
    seen = dataclasses.replace(
        L4, gpus=(*L4.gpus, {"name": "Tesla T4", "capability": [7, 5]}), tpu_systems=1
    )
    assert products.devices(seen, "v5litepod-8") == [
        products.Device("CPU:0", ("float32", "bfloat16"), 2048, 0.0),
        LARGE,
        products.Device("GPU:1", ("float32", "float16"), 8192, 65),
        products.Device("TPU:0", ("float32", "bfloat16"), 8192, 197),
    ]


def test_rates_and_share_of_the_peak():
    outcome = child.Outcome(0, _rates(float32=23.456, bfloat16=60.5))
    found = products.judge(LARGE, outcome)
    assert (found.status, found.found) == (
        OK,
        "GPU:0: 23.5 TFLOP/s in float32, 60.5 TFLOP/s in bfloat16 (50% of the peak)",
    )
    unknown = dataclasses.replace(LARGE, peak_teraflops=0.0)
    assert "peak" not in products.judge(unknown, outcome).found


def test_slow_device_is_a_warning():
    found = products.judge(LARGE, child.Outcome(0, _rates(float32=9, bfloat16=12)))
    assert found.status is WARNING
    assert "(10% of the peak)" in found.found


def test_hanging_product_fails_and_keeps_the_earlier_rate():
    outcome = child.Outcome(None, _rates(float32=9), seconds=120.0)
    found = products.judge(LARGE, outcome)
    assert (found.status, found.found) == (
        FAILED,
        "GPU:0: 9 TFLOP/s in float32; but then no end within 120 s, in bfloat16",
    )
    assert "hangs: reboot" in found.remedy


def test_crashing_product_fails():
    outcome = child.Outcome(1, errors="ResourceExhaustedError: OOM\n")
    found = products.judge(LARGE, outcome)
    assert (found.status, found.found) == (
        FAILED,
        "GPU:0: ResourceExhaustedError: OOM, in float32",
    )


def test_wrong_product_fails():
    rates = _rates(float32=9, bfloat16=99).replace("true", "false", 1)
    found = products.judge(LARGE, child.Outcome(0, rates))
    assert found.status is FAILED
    assert found.found.endswith("and wrong results in float32")


def test_product_that_hangs_is_ended(monkeypatch):
    monkeypatch.setattr(products, "_PROGRAM", "import time; time.sleep(1000)")
    outcome = products.observe(LARGE, 1.0)
    assert (
        products.judge(LARGE, outcome).found == "GPU:0: no end within 1 s, in float32"
    )
