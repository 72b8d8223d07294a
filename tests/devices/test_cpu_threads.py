"""Threads of TensorFlow, which can be set in a new process only."""

import subprocess
import sys

import pytest

SCRIPT = """
import os
import sys

import tensorflow as tf

from albert_tf.devices import cpu_threads

os.sched_getaffinity = lambda _: range(int(sys.argv[1]))
if sys.argv[2] == "late":
    tf.constant(1) + 1
found = cpu_threads.one_core_a_batch()
print(found, tf.config.threading.get_intra_op_parallelism_threads())
"""


@pytest.mark.parametrize(
    ("num_cores", "when", "expected"),
    [(2, "early", "2 1"), (2, "late", "1 0"), (64, "early", "1 0")],
)
def test_batches_have_a_core_each_where_they_can(num_cores, when, expected):
    found = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(num_cores), when],
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout.split("\n")[-2] == expected
