"""Devices and strategies of tf.distribute."""

import contextlib
import contextvars
import functools
import itertools
import json
import os
import signal
import sys
from collections.abc import Iterator

import tensorflow as tf
from tensorflow.compiler.tf2xla.ops import gen_xla_ops
from tensorflow.python.eager import context as eager_context

from albert_tf.devices import batch_server, cpu_threads, kinds, tpu_pod

# How many replicas the program that is traced has within itself.
_PROGRAM_REPLICAS = contextvars.ContextVar("program_replicas", default=1)


def create_strategy(kind: str = "auto", tpu: str = "") -> tf.distribute.Strategy:
    """Connects to the devices of a run; call it before anything is computed.

    Args:
      kind: one of `kinds.STRATEGIES`. "one_device" takes the first GPU or the CPU,
        "mirrored" all GPUs of this machine (or its logical CPU devices, where
        `split_cpu` made some), "multi_worker" those of the machines that TF_CONFIG
        names. "auto" is "tpu" if `tpu` is given or TensorFlow is built for TPUs, then
        "multi_worker" if TF_CONFIG names several workers, then "mirrored" if there are
        several GPUs.
      tpu: "local" on a TPU VM, "pod" on each host of a slice of several, a TPU's name,
        or grpc://ADDRESS.

    Raises:
      ValueError: the devices do not exist, or the arguments contradict each other.
      WorkerLostError: another worker did not start; or this host of a slice only
        served the first host, and has ended.
    """
    if kind not in kinds.STRATEGIES:
        raise ValueError(
            f"--strategy must be one of {', '.join(kinds.STRATEGIES)}; received "
            f"{kind!r}"
        )
    if tpu and kind not in ("auto", "tpu"):
        raise ValueError(f"--tpu requires --strategy=tpu; received {kind!r}")
    cpu_threads.have_two_threads()
    num_workers = _num_workers()
    gpus = tf.config.list_physical_devices("GPU")
    if kind == "auto" and not tpu and tf.config.list_physical_devices("TPU_SYSTEM"):
        tpu = "local"  # the TPU build of TensorFlow
    if kind == "auto" and not tpu:
        several_gpus = "mirrored" if len(gpus) > 1 else "one_device"
        kind = "multi_worker" if num_workers > 1 else several_gpus
    if num_workers > 1 and kind != "multi_worker":
        raise ValueError(
            f"TF_CONFIG names {num_workers} workers, which --strategy={kind} would "
            "not use; unset TF_CONFIG, or omit --strategy"
        )
    if kind == "multi_worker":
        return _multi_worker()
    if kind == "mirrored":
        devices = tf.config.list_logical_devices("GPU" if gpus else "CPU")
        return tf.distribute.MirroredStrategy([device.name for device in devices])
    if kind == "one_device":
        return tf.distribute.OneDeviceStrategy("/gpu:0" if gpus else "/cpu:0")
    return _tpu(tpu or "local")


def split_cpu(num_devices: int) -> None:
    """Splits the CPU into several logical devices."""
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(
        cpu, [tf.config.LogicalDeviceConfiguration()] * num_devices
    )


_WORKERS = ("chief", "worker")  # the first of them leads the coordination service
_LEAVING_TIMEOUT_MS = 20_000
_LEAVINGS = itertools.count()


def _num_workers() -> int:
    """Returns how many workers TF_CONFIG names; 0 if it is not set."""
    text = os.environ.get("TF_CONFIG", "")
    if not text:
        return 0
    try:
        config = json.loads(text)
        groups = [config.get("cluster", {}).get(kind, []) for kind in _WORKERS]
        index = config.get("task", {}).get("index", 0)
        if not all(isinstance(group, list) for group in groups) or int(index) < 0:
            raise TypeError
    # It imports no other subpackage, so it does not read as core.strict_json does.
    # OverflowError is of an index of Infinity.
    except (
        ValueError,
        AttributeError,
        TypeError,
        RecursionError,
        OverflowError,
    ) as error:
        raise ValueError(
            "TF_CONFIG must be JSON with `cluster` and `task`, such as "
            '{"cluster": {"worker": ["host1:2222", "host2:2222"]}, "task": {"type": '
            f'"worker", "index": 0}}}}; received {text[:200]!r}'
        ) from error
    return sum(map(len, groups))


def _multi_worker() -> tf.distribute.Strategy:
    if not _num_workers():
        raise ValueError(
            "--strategy=multi_worker needs TF_CONFIG with the addresses of all workers "
            "and the index of this one; it is not set"
        )
    try:
        return tf.distribute.MultiWorkerMirroredStrategy()
    except tf.errors.OpError as error:
        # A worker that does not answer while all wait for each other.
        is_lost = isinstance(
            error, (tf.errors.DeadlineExceededError, tf.errors.UnavailableError)
        )
        if not is_lost and "Barrier" not in error.message:
            raise
        raise WorkerLostError(
            "another worker did not start, or is lost. Start all of them again: the "
            f"same command resumes ({_first_line(error)})"
        ) from error


def _tpu(address: str) -> tf.distribute.Strategy:
    addresses = _serve_pod() if address == "pod" else address
    if address.startswith("grpc://"):
        # TensorFlow would wait for it forever.
        host, _, port = address.removeprefix("grpc://").rpartition(":")
        if not (port.isdigit() and tpu_pod.listens(host, int(port))):
            raise ValueError(
                f"--tpu={address} does not answer; it must be grpc://HOST:PORT of a "
                "TPU's server that runs"
            )
    try:
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver(tpu=addresses)
        if address != "local":
            tf.config.experimental_connect_to_cluster(resolver)
        tf.tpu.experimental.initialize_tpu_system(resolver)
    # Looking up a name without a network raises an OSError.
    except (tf.errors.OpError, RuntimeError, OSError) as error:
        raise ValueError(
            f"--tpu={address} cannot be reached: {_first_line(error)}. On a "
            "TPU VM, is the TPU build of TensorFlow installed (requirements-tpu.txt)?"
        ) from error
    return tf.distribute.TPUStrategy(resolver)


def _serve_pod() -> str:
    """Starts this host's server; on the first host, returns the addresses of all.

    Raises:
      ValueError: this process would take the TPU, which is its server's.
      WorkerLostError: on the other hosts, once the server or the run has ended; on the
        first one, if another host does not answer.
    """
    if os.environ.get("TPU_LOAD_LIBRARY") != "0":
        raise ValueError(
            "--tpu=pod needs TPU_LOAD_LIBRARY=0 in the environment, so that this "
            "process leaves the TPU to the server of its host: put it before the "
            "command, on all hosts"
        )
    number, addresses = tpu_pod.place()
    server = tpu_pod.start_server(
        f"import {__name__} as strategies; strategies.serve_tpu({os.getpid()})"
    )
    if number:
        asked: list[int] = []
        signal.signal(signal.SIGTERM, lambda received, _: asked.append(received))
        tpu_pod.serve_until_lost(server, lambda: bool(asked), addresses[0])
        raise WorkerLostError(f"the TPU server of worker {number} has ended")
    try:
        tpu_pod.wait_for_servers(addresses, lambda line: print(line, file=sys.stderr))
    except TimeoutError as error:
        raise WorkerLostError(str(error)) from error
    return ",".join(f"grpc://{host}:{tpu_pod.SERVER_PORT}" for host in addresses)


def serve_tpu(parent: int) -> None:
    """Serves this host's TPU until the process `parent` has ended."""
    # A slice that is asked to end first saves through the servers.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    _server = tf.distribute.Server(
        {"tpu_worker": [f"localhost:{tpu_pod.SERVER_PORT}"]},
        job_name="tpu_worker",
        task_index=0,
        protocol="grpc",
    )
    tpu_pod.end_with(parent)


def is_on_cpu(strategy: tf.distribute.Strategy) -> bool:
    """Returns whether the replicas are CPUs, which compute in the machine's memory."""
    return device_kind(strategy) == "CPU"


def _is_tpu(strategy: tf.distribute.Strategy) -> bool:
    return isinstance(strategy, tf.distribute.TPUStrategy)


def _is_remote_tpu(strategy: tf.distribute.Strategy) -> bool:
    return _is_tpu(strategy) and bool(strategy.cluster_resolver.master())


def is_chief(strategy: tf.distribute.Strategy) -> bool:
    """Returns whether this process writes the checkpoints and metrics of its run."""
    resolver = strategy.cluster_resolver
    if resolver is None or not resolver.task_type:
        return True
    if resolver.task_type == "worker":
        has_chief = "chief" in resolver.cluster_spec().jobs
        return resolver.task_id == 0 and not has_chief
    return True


def describe(strategy: tf.distribute.Strategy) -> str:
    """Returns a line that names the devices."""
    kind = device_kind(strategy)
    return f"training on {strategy.num_replicas_in_sync} x {kind}"


def device_kind(strategy: tf.distribute.Strategy) -> str:
    """Returns "CPU", "GPU" or "TPU"."""
    if _is_tpu(strategy):
        return "TPU"
    device = strategy.extended.worker_devices[0]
    return device.rpartition("device:")[2].split(":")[0]


def gpu_has_bfloat16() -> bool:
    """Returns whether the first GPU multiplies in bfloat16."""
    gpu = tf.config.list_physical_devices("GPU")[0]
    details = tf.config.experimental.get_device_details(gpu)
    # NVIDIA's from Ampere on.
    return details.get("compute_capability", (0, 0)) >= (8, 0)


def num_hosts(strategy: tf.distribute.Strategy) -> int:
    """Returns how many hosts read records, each its own shards."""
    if _is_tpu(strategy):
        return strategy.cluster_resolver.get_tpu_system_metadata().num_hosts
    return max(_num_workers(), 1)


def has_several_processes() -> bool:
    """Returns whether several processes take the steps of a run together."""
    return _num_workers() > 1


def worker_suffix(strategy: tf.distribute.Strategy) -> str:
    """Returns the suffix of a file that every process writes; "" for one process."""
    if not has_several_processes():
        return ""
    resolver = strategy.cluster_resolver
    return f"-{resolver.task_type}{resolver.task_id}"


def _first_line(error: Exception) -> str:
    line = (str(error).splitlines() or [type(error).__name__])[0]
    return line if len(line) < 160 else f"{line[:160]}..."


class WorkerLostError(Exception):
    """Another worker is lost; the run resumes when all are started again."""


@contextlib.contextmanager
def raise_worker_lost(strategy: tf.distribute.Strategy) -> Iterator[None]:
    """Raises WorkerLostError if workers cannot reach each other any more.

    Raises:
      WorkerLostError: instead of the error of the unfinished all-reduce.
    """
    try:
        yield
    except tf.errors.OpError as error:
        is_aborted = "Collective ops is aborted" in error.message
        is_lost = is_aborted or isinstance(error, tf.errors.UnavailableError)
        is_several = _num_workers() > 1 or _is_remote_tpu(strategy)
        if not (is_several and is_lost):
            raise
        raise WorkerLostError(
            "another worker, or the storage, is lost. Start all of them again: the "
            "same command resumes from the last checkpoint"
            + ("" if is_aborted else f" ({_first_line(error)})")
        ) from error


@contextlib.contextmanager
def replicas_within_program(num_replicas: int) -> Iterator[None]:
    """Traces sums over replicas as operations of the XLA program itself.

    For a program of several replicas that another runtime compiles. TensorFlow runs
    its own programs of one replica each, and reduces between them.

    Args:
      num_replicas: of the program; with 1 nothing changes.
    """
    token = _PROGRAM_REPLICAS.set(num_replicas)
    try:
        yield
    finally:
        _PROGRAM_REPLICAS.reset(token)


def replica_id() -> tf.Tensor:
    """Returns the number of the calling replica over all hosts: int32 scalar."""
    if _PROGRAM_REPLICAS.get() > 1:
        return tf.cast(gen_xla_ops.xla_replica_id(), tf.int32)
    context = tf.distribute.get_replica_context()
    return tf.cast(context.replica_id_in_sync_group, tf.int32)


def sum_over_replicas(values):
    """Returns the sum of `values`, a nest of dense tensors, over all replicas."""
    num_replicas = _PROGRAM_REPLICAS.get()
    if num_replicas > 1:
        return tf.nest.map_structure(
            lambda value: gen_xla_ops.xla_all_reduce(
                input=value,
                group_assignment=[[*range(num_replicas)]],
                reduce_op="Add",
                mode="CrossReplica",
            ),
            values,
        )
    context = tf.distribute.get_replica_context()
    return context.all_reduce(tf.distribute.ReduceOp.SUM, values)


def gather_over_replicas(values):
    """Returns `values`, a nest of dense tensors, concatenated over all replicas."""
    context = tf.distribute.get_replica_context()
    return context.all_gather(values, axis=0)


def run_on_replicas(strategy: tf.distribute.Strategy, function, arguments: tuple):
    """Runs `function` on all replicas; returns the first replica's result."""
    results = strategy.run(function, arguments)
    return tf.nest.map_structure(
        lambda value: strategy.experimental_local_results(value)[0], results
    )


@functools.cache
def _make_total(strategy: tf.distribute.Strategy):
    """Returns a function that sums float32 [2] over all replicas, traced once."""

    @tf.function(autograph=False)
    def total(parts):
        return run_on_replicas(
            strategy, lambda given: sum_over_replicas(tf.identity(given)), (parts,)
        )

    return total


def check_same_step(strategy: tf.distribute.Strategy, step: int) -> None:
    """Waits for all workers, and checks that they are at the same step.

    Raises:
      ValueError: they are not.
    """
    # In two parts, whose sums over thousands of replicas are exact in float32.
    parts = tf.constant([float(step // 1000), float(step % 1000)])
    thousands, rest = _make_total(strategy)(parts).numpy().tolist()
    mean = (1000.0 * thousands + rest) / strategy.num_replicas_in_sync
    if mean != step:
        leave_together(strategy)
        raise ValueError(
            f"all workers must resume from the same step; this one has {step}, their "
            f"mean is {mean:g}. --model_dir must be one directory that all of them see"
        )


def leave_together(strategy: tf.distribute.Strategy) -> None:
    """Waits until no other worker needs this one any more.

    A worker that has its part of a sum may end while another still reads that sum from
    it, which the other takes for the loss of a worker. It is no error here if a worker
    is lost, or does not come within 20 seconds: this waits no longer. What is to be
    kept must be saved before.
    """
    if not has_several_processes():
        return
    resolver = strategy.cluster_resolver
    jobs = resolver.cluster_spec().as_dict()
    workers = [
        (job, index) for job in _WORKERS for index in range(len(jobs.get(job, ())))
    ]
    this = (resolver.task_type, resolver.task_id)
    turn = next(_LEAVINGS)
    # Of the coordination service, which the first worker holds.
    service = eager_context.context()

    def say(what: str) -> None:
        service.set_config_key_value(_leaving_key(turn, what, this), "")

    def wait_for_others(what: str) -> None:
        for worker in workers:
            if worker != this:
                key = _leaving_key(turn, what, worker)
                service.get_config_key_value(key, _LEAVING_TIMEOUT_MS)

    try:
        say("has all")
        wait_for_others("has all")
        # The first worker holds the service, in which the others still read.
        if this == workers[0]:
            wait_for_others("leaves")
        else:
            say("leaves")
    except tf.errors.OpError:
        pass


def _leaving_key(turn: int, what: str, worker: tuple[str, int]) -> str:
    job, index = worker
    return f"albert_tf/{turn}/{what}/{job}/{index}"


def compiles_with_xla(jit_compile: str) -> bool:
    """Returns whether XLA compiles forward and backward pass, by train.jit_compile.

    "auto" compiles on a GPU. On a TPU everything goes through XLA anyway, and on a CPU
    oneDNN multiplies faster.
    """
    has_gpu = bool(tf.config.list_physical_devices("GPU"))
    return jit_compile == "on" or (jit_compile == "auto" and has_gpu)


def fuses_elementwise(jit_compile: str) -> bool:
    """Returns whether XLA compiles only the operations between matrix products.

    "auto" does if there is only a CPU. Call it in the strategy's scope: a TPU over the
    network is not among this process's devices.
    """
    has_accelerator = _is_tpu(tf.distribute.get_strategy()) or bool(
        tf.config.list_physical_devices("GPU")
    )
    return jit_compile == "auto" and not has_accelerator


def local_values(strategy: tf.distribute.Strategy, values) -> list:
    """Returns a nest of values for each replica of this process."""
    flat = [
        strategy.experimental_local_results(value) for value in tf.nest.flatten(values)
    ]
    return [tf.nest.pack_sequence_as(values, part) for part in zip(*flat, strict=True)]


def distribute_dataset(strategy: tf.distribute.Strategy, input_fn):
    """Returns the dataset of `input_fn(input_context)`: one element per replica."""
    is_one = isinstance(strategy, tf.distribute.OneDeviceStrategy)
    if is_one and not tf.config.list_physical_devices("GPU"):
        # Nothing to prefetch to. A distributed dataset would start a tuning thread of
        # TensorFlow's, which may take most of a minute to end.
        return whole_dataset(input_fn)
    if _is_remote_tpu(strategy):
        server = batch_server.start(strategy.cluster_resolver.master())
        input_fn = server.wrap(input_fn)
    return strategy.distribute_datasets_from_function(input_fn)


def whole_dataset(input_fn) -> tf.data.Dataset:
    """Returns the dataset of `input_fn(input_context)` for a single replica."""
    return input_fn(tf.distribute.InputContext())
