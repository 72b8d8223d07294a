"""A TPU that is not there: TensorFlow builds graphs for it, which cannot be run.

Each replica's variables and batches lie on the CPU. So all that surrounds a step is
done as on a TPU VM, from the iterators to the variables of eight replicas, and the step
itself is traced as for a TPU.
"""

from typing import NamedTuple

import tensorflow as tf

NUM_REPLICAS = 8  # the cores of a v3-8: a mesh of two by two chips with two cores each

_HOST = "/job:localhost/replica:0/task:0"


class _Device(NamedTuple):
    name: str


class _SystemMetadata(NamedTuple):
    """What TPUStrategy reads of a TPU system."""

    devices: tuple[_Device, ...]
    num_cores: int
    num_hosts: int
    num_of_cores_per_host: int


class _Resolver(tf.distribute.cluster_resolver.ClusterResolver):
    """Finds a TPU of one host without looking."""

    task_type = None
    task_id = None
    environment = ""

    def get_tpu_system_metadata(self) -> _SystemMetadata:
        devices = (_Device(f"{_HOST}/device:TPU:{i}") for i in range(NUM_REPLICAS))
        return _SystemMetadata(tuple(devices), NUM_REPLICAS, 1, NUM_REPLICAS)

    def cluster_spec(self) -> tf.train.ClusterSpec:
        return tf.train.ClusterSpec({})

    def master(self, *unused_args, **unused_kwargs) -> str:
        return ""


class _OnCpu(tf.tpu.experimental.DeviceAssignment):
    """One core a replica, whose memory is the CPU's."""

    def tpu_device(self, *unused_args, **unused_kwargs) -> str:
        return f"{_HOST}/device:CPU:0"


def create_strategy() -> tf.distribute.TPUStrategy:
    """A strategy of `NUM_REPLICAS` replicas, under which graphs can be built."""
    cores = [[x, y, 0, core] for x in range(2) for y in range(2) for core in range(2)]
    topology = tf.tpu.experimental.Topology(
        mesh_shape=[2, 2, 1, 2], device_coordinates=[cores]
    )
    placed = tf.tpu.experimental.DeviceAssignment.build(
        topology, num_replicas=NUM_REPLICAS
    )
    return tf.distribute.TPUStrategy(
        _Resolver(),
        experimental_device_assignment=_OnCpu(topology, placed.core_assignment),
    )
