"""What a process may use of its machine."""

import os

import pytest

from albert_tf.core import machine


def write(root, files):
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


@pytest.mark.parametrize(
    ("quota", "count"),
    [("max 100000", 6), ("250000 100000", 3), ("50000 100000", 1), ("900000 1000", 6)],
)
def test_cores_are_those_of_affinity_and_quota(tmp_path, monkeypatch, quota, count):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(2, 8)))
    write(
        tmp_path,
        {"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": f"{quota}\n"},
    )
    assert machine.num_cores(tmp_path) == count


def test_memory_is_what_is_free_within_the_limit(tmp_path):
    write(tmp_path, {"proc/meminfo": "MemTotal: 9 kB\nMemAvailable:   4000 kB\n"})
    assert machine.available_bytes(tmp_path) == 4_096_000
    write(
        tmp_path,
        {"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "1000000\n"},
    )
    assert machine.available_bytes(tmp_path) == 1_000_000


def test_this_machine_has_some():
    assert 1 <= machine.num_cores() <= os.cpu_count()
    assert machine.available_bytes() > 1 << 20
