"""Batches that this process makes for the hosts of a TPU over the network.

TensorFlow's program for a slice of several hosts runs in one process, and servers on
the hosts execute the operations that it sends them. Dynamic masks and the batches of
tasks are made by Python code, for which TensorFlow sends each call back to this
process, at the address localhost: other machines cannot reach it. So tf.data's service
runs in this process: it makes such batches here, and each host reads its own.
"""

import functools
import socket
from collections.abc import Callable

import tensorflow as tf

InputFn = Callable[[tf.distribute.InputContext], tf.data.Dataset]

_HERE = "/job:localhost/replica:0/task:0/device:CPU:0"
_PYTHON_OPS = {"PyFunc", "PyFuncStateless", "EagerPyFunc"}
# Batches of replicas that a host holds in advance.
_NUM_BUFFERED = 16
_IGNORE_STATE = 1  # of DatasetToGraphV2: a graph that is read and not run has none


class BatchServer:
    """Makes batches in this process, and serves them to others."""

    def __init__(self, address: str):
        """Starts the service, on free ports.

        Args:
          address: of this machine, by which the other hosts reach it.
        """
        service = tf.data.experimental.service
        self._dispatcher = service.DispatchServer(service.DispatcherConfig(port=0))
        port = self._dispatcher.target.rpartition(":")[2]
        self._target = f"grpc://{address}:{port}"
        # A single one, so that batches arrive in order.
        self._worker = service.WorkerServer(
            service.WorkerConfig(
                dispatcher_address=f"{address}:{port}",
                worker_address=f"{address}:%port%",
            )
        )
        # TensorFlow calls the functions of these, but does not keep them.
        self._datasets: list[tf.data.Dataset] = []

    def wrap(self, input_fn: InputFn) -> InputFn:
        """Returns an input function with the same batches, for hosts without Python.

        Its datasets read from this server if those of `input_fn` call Python code; else
        they are those of `input_fn`, made by the host itself.
        """

        def wrapped(context: tf.distribute.InputContext) -> tf.data.Dataset:
            # Here, though the host that asks has set its own device.
            with tf.device(_HERE):
                dataset = input_fn(context)
                is_served = calls_python(dataset)
                if is_served:
                    identity, size = self._register(dataset), dataset.cardinality()
            if not is_served:
                return input_fn(context)
            return self._read(identity, dataset.element_spec, size)

        return wrapped

    def _register(self, dataset: tf.data.Dataset) -> tf.Tensor:
        """Offers a dataset to the hosts; returns its name."""
        self._datasets.append(dataset)
        return tf.data.experimental.service.register_dataset(
            self._target, dataset, compression=None
        )

    def _read(self, identity: tf.Tensor, spec, size: tf.Tensor) -> tf.data.Dataset:
        """Returns a dataset of the current device, with the batches of another."""
        served = tf.data.experimental.service.from_dataset_id(
            tf.data.experimental.service.ShardingPolicy.OFF,
            self._target,
            identity,
            spec,
            max_outstanding_requests=_NUM_BUFFERED,
        )
        if size == tf.data.INFINITE_CARDINALITY:
            # Otherwise several hosts would ask one another before each batch.
            served = served.apply(tf.data.experimental.assert_cardinality(size))
        options = tf.data.Options()
        options.autotune.enabled = False  # its thread may take most of a minute to end
        return served.with_options(options)


@functools.cache
def start(peer: str) -> BatchServer:
    """Starts the server of this process, the same for each peer.

    Args:
      peer: grpc://HOST:PORT of one of the hosts that are to be served.
    """
    host, _, port = peer.removeprefix("grpc://").rpartition(":")
    # Nothing is sent: this asks for the address of this machine on the way there.
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((host, int(port)))
        address = probe.getsockname()[0]
    return BatchServer(address)


def calls_python(dataset: tf.data.Dataset) -> bool:
    """Returns whether a dataset calls Python code, in any of its functions."""
    serialized = tf.raw_ops.DatasetToGraphV2(
        input_dataset=tf.data.experimental.to_variant(dataset),
        external_state_policy=_IGNORE_STATE,
    )
    graph = tf.compat.v1.GraphDef.FromString(serialized.numpy())
    functions = (function.node_def for function in graph.library.function)
    return any(node.op in _PYTHON_OPS for nodes in functions for node in nodes)
