"""CPU, memory, disk and clock of synthetic machines."""

import dataclasses
import pathlib
import time

import pytest

from albert_tf.diagnostics import clock, cpu, disk, findings, memory

OK, WARNING, FAILED = findings.Status
GIB = 1 << 30


def _write(root: pathlib.Path, files: dict[str, str]) -> pathlib.Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


# ---- CPU ----

ZEN = cpu.Observed(
    name="AMD EPYC 9B14",
    architecture="x86_64",
    cores=8,
    usable_cores=8,
    quota=None,
    load=0.25,
    instructions=frozenset(["avx", "avx2", "fma", "avx512f", "avx512_bf16"]),
)


def _cpu(**changes) -> findings.Finding:
    [found] = cpu.judge(dataclasses.replace(ZEN, **changes))
    return found


def test_instructions_of_a_cpu():
    found = _cpu()
    assert (found.status, found.found) == (
        OK,
        "8 cores of AMD EPYC 9B14; load 0.2; AVX2, AVX-512, AVX512_BF16, no AMX; "
        "bfloat16 is fast",
    )
    assert found.values["fast_bfloat16"] is True


def test_cores_that_the_process_may_not_use_are_named():
    found = _cpu(usable_cores=4, quota=1.5)
    assert "; 4 of them for this process; time of 1.5 cores; load" in found.found


def test_cpu_without_avx_fails_and_without_avx2_is_slow():
    found = _cpu(instructions=frozenset(["sse2"]))
    assert found.status is FAILED and "need AVX" in found.remedy
    found = _cpu(instructions=frozenset(["avx"]))
    assert found.status is WARNING
    assert found.found.endswith("bfloat16 is not faster than float32")


def test_arm_has_no_avx_and_needs_none():
    arm = {"architecture": "aarch64", "name": "", "cores": 3, "usable_cores": 3}
    found = _cpu(**arm, instructions=frozenset(["asimd", "bf16"]))
    assert (found.status, found.found) == (
        OK,
        "3 cores of aarch64; load 0.2; bfloat16 is fast",
    )


def test_cpu_is_read_from_proc(tmp_path):
    _write(
        tmp_path,
        {
            "proc/cpuinfo": "processor\t: 0\nmodel name\t: A  B\nflags\t\t: fpu avx\n",
            "proc/self/cgroup": "0::/job\n",
            "sys/fs/cgroup/job/cpu.max": "150000 100000\n",
        },
    )
    observed = cpu.observe(tmp_path)
    assert (observed.name, observed.quota) == ("A  B", 1.5)
    assert observed.instructions == {"fpu", "avx"}


# ---- Memory ----

_MEMINFO = "MemTotal:       8388608 kB\nMemFree: 1 kB\nMemAvailable:    6291456 kB\n"


@pytest.mark.parametrize(
    ("files", "limit"),
    [
        ({}, None),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "max\n"}, None),
        # The least of the group and those above it.
        (
            {
                "proc/self/cgroup": "0::/a/b\n",
                "sys/fs/cgroup/a/b/memory.max": "max\n",
                "sys/fs/cgroup/a/memory.max": f"{4 * GIB}\n",
                "sys/fs/cgroup/memory.max": f"{5 * GIB}\n",
            },
            4 * GIB,
        ),
        # A container whose path is that of the host.
        (
            {
                "proc/self/cgroup": "9:cpu,memory:/docker/1\n1:name=systemd:/\n",
                "sys/fs/cgroup/memory/memory.limit_in_bytes": f"{2 * GIB}\n",
            },
            2 * GIB,
        ),
        (
            {
                "proc/self/cgroup": "9:memory:/x\n",
                "sys/fs/cgroup/memory/x/memory.limit_in_bytes": "9223372036854771712\n",
            },
            None,
        ),
    ],
)
def test_memory_limit_of_the_control_group(tmp_path, files, limit):
    observed = memory.observe(_write(tmp_path, {"proc/meminfo": _MEMINFO, **files}))
    assert observed == memory.Observed(8 * GIB, 6 * GIB, limit)


@pytest.mark.parametrize(
    ("observed", "status", "text"),
    [
        (
            memory.Observed(8 * GIB, 6 * GIB, None),
            OK,
            "6.0 GiB of 8.0 available; no limit by a control group",
        ),
        (
            memory.Observed(8 * GIB, 6 * GIB, 2 * GIB),
            WARNING,
            "6.0 GiB of 8.0 available; the control group is limited to 2.0 GiB",
        ),
        (
            memory.Observed(8 * GIB, GIB, 100 * GIB),
            WARNING,
            "1.0 GiB of 8.0 available; no limit by a control group",
        ),
    ],
)
def test_little_memory_is_a_warning(observed, status, text):
    [found] = memory.judge(observed)
    assert (found.status, found.found) == (status, text)
    assert bool(found.remedy) == (status is WARNING)


# ---- Disk ----

DISK = disk.Observed("--model_dir", "/run", 7_000_000_000, 10_000_000_000, 5000)


@pytest.mark.parametrize(
    ("changes", "min_free_gb", "status", "text"),
    [
        ({}, 5.0, OK, "--model_dir: 7.0 GB of 10.0 free in /run"),
        ({}, 8.0, WARNING, "7.0 GB of 10.0 free"),
        ({"free_bytes": 20_000_000}, 5.0, FAILED, "0.0 GB of 10.0 free"),
        ({"free_files": 3}, 5.0, FAILED, "but only 3 more files"),
        ({"free_files": None}, 5.0, OK, "7.0 GB"),
        ({"error": "no end within 9 s"}, 5.0, FAILED, "--model_dir: no end within 9 s"),
    ],
)
def test_space_on_a_disk(changes, min_free_gb, status, text):
    found = disk.judge(dataclasses.replace(DISK, **changes), min_free_gb)
    assert found.status is status
    assert text in found.found
    assert bool(found.remedy) == (status is not OK)


def test_space_is_that_of_the_nearest_directory_that_exists(tmp_path):
    temporary, model_dir = disk.observe(str(tmp_path / "a" / "b"), 60.0)
    assert (model_dir.purpose, model_dir.path) == ("--model_dir", str(tmp_path))
    assert 0 < model_dir.free_bytes <= model_dir.total_bytes
    assert (temporary.purpose, temporary.error) == ("temporary files", "")
    assert not (tmp_path / "a").exists()
    [only] = disk.observe("gs://bucket/run", 60.0)
    assert only.purpose == "temporary files"


def test_disk_that_does_not_answer_fails(monkeypatch):
    """As a file server that is away."""
    monkeypatch.setattr(disk, "_PROGRAM", "import time; time.sleep(1000)")
    [found] = [disk.judge(one, 1.0) for one in disk.observe("", 1.0)]
    assert (found.status, found.found) == (
        FAILED,
        "temporary files: no end within 1 s",
    )
    assert "TMPDIR" in found.remedy


# ---- Clock ----

START = clock.Reading(1_795_000_000.0, 50.0)  # in November 2026
LATER = clock.Reading(START.system + 20, 70.0)


def _clock(first=START, last=LATER, ahead=None) -> findings.Finding:
    [found] = clock.judge(first, last, ahead or {})
    return found


def test_clock_without_a_storage():
    assert _clock().status is OK
    expected = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(1_795_000_020))
    assert _clock().found == expected


@pytest.mark.parametrize("year", [1970, 2003, 2099])
def test_clock_in_another_time_fails(year):
    seconds = (year - 1970) * 365.25 * 86400 + 1e6
    reading = clock.Reading(seconds, 50.0)
    found = _clock(reading, reading)
    assert found.status is FAILED
    assert "Set the clock" in found.remedy


@pytest.mark.parametrize(
    ("ahead", "status", "text"),
    [
        (-0.3, OK, "0.3 s ahead of the storage of gs://b"),
        (30.0, WARNING, "30.0 s behind the storage of gs://b"),
        (-3600.0, FAILED, "3600.0 s ahead of the storage of gs://b"),
    ],
)
def test_clock_far_from_the_storages_fails(ahead, status, text):
    found = _clock(ahead={"/local": 0.0, "gs://b": ahead})
    assert found.status is status
    assert text in found.found
    assert found.values["storage_ahead_seconds"]["gs://b"] == ahead


def test_clock_that_is_set_during_the_checks_is_a_warning():
    found = _clock(last=clock.Reading(START.system + 20 - 7, 70.0))
    assert found.status is WARNING
    assert "was set by -7.0 s" in found.found
