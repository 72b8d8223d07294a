"""Choice of devices, and errors where they are absent."""

import json
import os
import socket
import types

import pytest
import tensorflow as tf

from albert_tf.devices import peak_flops, strategies
from tests.support import fake_tpu


def _cluster(*workers, kind="worker"):
    task = {"type": kind, "index": 0}
    return json.dumps({"cluster": {kind: list(workers)}, "task": task})


def test_a_machine_with_one_device_trains_on_it():
    strategy = strategies.create_strategy()
    assert isinstance(strategy, tf.distribute.OneDeviceStrategy)
    assert strategies.is_chief(strategy)
    assert strategies.describe(strategy) == "training on 1 x CPU"
    assert peak_flops.peak_flops(strategy) == 0.0
    assert peak_flops.peak_flops(strategy, 1.5) == 1.5e12


@pytest.mark.parametrize(
    ("cores", "before", "after"), [(1, 0, 2), (1, 4, 4), (2, 0, 0)]
)
def test_one_core_has_a_thread_for_the_next_batch_too(
    cores, before, after, monkeypatch
):
    threads = [before]
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(cores)))
    threading = tf.config.threading
    monkeypatch.setattr(
        threading, "get_inter_op_parallelism_threads", lambda: threads[-1]
    )
    monkeypatch.setattr(threading, "set_inter_op_parallelism_threads", threads.append)
    strategies.create_strategy("one_device")
    assert threads[-1] == after


def test_what_was_computed_before_keeps_its_threads(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0})
    tf.constant(1.0)
    count = tf.config.threading.get_inter_op_parallelism_threads()
    strategies.create_strategy("one_device")
    assert tf.config.threading.get_inter_op_parallelism_threads() == count


def test_several_gpus_are_all_taken(monkeypatch):
    made = []
    monkeypatch.setattr(
        tf.config, "list_physical_devices", lambda kind: [kind] * 2 * (kind == "GPU")
    )
    monkeypatch.setattr(tf.distribute, "MirroredStrategy", made.append)
    monkeypatch.setattr(
        tf.config,
        "list_logical_devices",
        lambda kind: [type("", (), {"name": f"/{kind}:{n}"}) for n in range(2)],
    )
    strategies.create_strategy()
    assert made == [["/GPU:0", "/GPU:1"]]


def test_several_workers_are_all_taken(monkeypatch):
    monkeypatch.setenv("TF_CONFIG", _cluster("a:1", "b:1"))
    monkeypatch.setattr(tf.distribute, "MultiWorkerMirroredStrategy", lambda: "all")
    assert strategies.create_strategy() == "all"
    assert strategies.create_strategy("multi_worker") == "all"
    with pytest.raises(
        ValueError, match="TF_CONFIG names 2 workers, which --strategy="
    ):
        strategies.create_strategy("one_device")


# What TensorFlow says if a worker is frozen where all wait for each other, and if the
# port of a worker is taken.
_FROZEN = tf.errors.InternalError(
    *(None, None),
    "Barrier failed because: task is set to ERROR: UNAVAILABLE: Task "
    "/job:worker/replica:0/task:1 heartbeat timeout. Barrier Id: WaitForAllTasks::47",
)
_TAKEN = tf.errors.UnknownError(None, None, "Could not start gRPC server")


@pytest.mark.parametrize(
    ("error", "expected"),
    [(_FROZEN, strategies.WorkerLostError), (_TAKEN, tf.errors.UnknownError)],
)
def test_a_worker_that_is_lost_at_the_start_can_be_started_again(
    monkeypatch, error, expected
):
    def fail():
        raise error

    monkeypatch.setattr(tf.distribute, "MultiWorkerMirroredStrategy", fail)
    monkeypatch.setenv("TF_CONFIG", _cluster("a:1", "b:1"))
    with pytest.raises(expected):
        strategies.create_strategy()


def test_one_worker_is_one_device(monkeypatch):
    monkeypatch.setenv("TF_CONFIG", _cluster("a:1"))
    strategy = strategies.create_strategy()
    assert isinstance(strategy, tf.distribute.OneDeviceStrategy)


@pytest.mark.parametrize("text", ["{", "[1]", '"text"', '{"cluster": {"worker": 3}}'])
def test_a_tf_config_that_is_none_is_an_error(text, monkeypatch):
    monkeypatch.setenv("TF_CONFIG", text)
    with pytest.raises(ValueError, match="TF_CONFIG must be JSON with `cluster`"):
        strategies.create_strategy()


def test_workers_without_tf_config_are_an_error(monkeypatch):
    monkeypatch.delenv("TF_CONFIG", raising=False)
    with pytest.raises(ValueError, match="multi_worker needs TF_CONFIG"):
        strategies.create_strategy("multi_worker")


def test_a_strategy_that_is_none_or_does_not_fit_is_an_error():
    with pytest.raises(ValueError, match="--strategy must be one of auto, one_device"):
        strategies.create_strategy("many")
    with pytest.raises(ValueError, match="--tpu requires --strategy=tpu; received 'mi"):
        strategies.create_strategy("mirrored", "local")


@pytest.mark.parametrize("address", ["local", "no-such-tpu"])
def test_a_tpu_that_is_not_there_is_said(address):
    with pytest.raises(ValueError, match=f"--tpu={address} cannot be reached: "):
        strategies.create_strategy(tpu=address)


def test_a_tpu_that_does_not_answer_is_said_at_once():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"grpc://127.0.0.1:{probe.getsockname()[1]}"
        with pytest.raises(ValueError, match="does not answer; it must be grpc://HOST"):
            strategies.create_strategy(tpu=address)
    with pytest.raises(ValueError, match="does not answer"):
        strategies.create_strategy(tpu="grpc://nowhere")


@pytest.mark.parametrize(
    ("kind", "index", "chief"),
    [("worker", 0, True), ("worker", 1, False), ("chief", 0, True)],
)
def test_the_first_worker_writes(kind, index, chief):
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
        tf.train.ClusterSpec({kind: ["a:1", "b:1"]}), task_type=kind, task_id=index
    )
    strategy = type("", (), {"cluster_resolver": resolver})
    assert strategies.is_chief(strategy) == chief


def test_beside_a_chief_no_worker_writes():
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
        tf.train.ClusterSpec({"chief": ["a:1"], "worker": ["b:1"]}),
        task_type="worker",
        task_id=0,
    )
    strategy = type("", (), {"cluster_resolver": resolver})
    assert not strategies.is_chief(strategy)


def test_a_tpus_utilisation_is_of_its_kind(monkeypatch):
    strategy = fake_tpu.create_strategy()
    monkeypatch.setenv("TPU_ACCELERATOR_TYPE", "v3-8")
    assert peak_flops.peak_flops(strategy) == 8 * 61.5e12
    monkeypatch.setenv("TPU_ACCELERATOR_TYPE", "v5litepod-8")
    assert peak_flops.peak_flops(strategy) == 8 * 197e12
    monkeypatch.setenv("TPU_ACCELERATOR_TYPE", "v9-8")
    assert peak_flops.peak_flops(strategy) == 0.0
    assert strategies.describe(strategy) == "training on 8 x TPU"


@pytest.mark.parametrize(
    ("name", "teraflops"),
    [
        ("NVIDIA A100-SXM4-80GB", 312),
        ("NVIDIA H100 PCIe", 756),
        ("NVIDIA H100 80GB HBM3", 989),
        ("Tesla T4", 65),
        ("NVIDIA L40S", 0),
        ("NVIDIA T400 4GB", 0),
    ],
)
def test_a_gpus_utilisation_is_of_its_name(name, teraflops, monkeypatch):
    strategy = strategies.create_strategy()
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: [kind])
    monkeypatch.setattr(
        tf.config.experimental, "get_device_details", lambda gpu: {"device_name": name}
    )
    assert peak_flops.peak_flops(strategy) == teraflops * 1e12


def test_the_tpu_build_of_tensorflow_trains_on_the_tpu(monkeypatch):
    monkeypatch.setattr(
        tf.config, "list_physical_devices", lambda kind: [kind] * (kind == "TPU_SYSTEM")
    )
    monkeypatch.setattr(strategies, "_tpu", lambda address: address)
    assert strategies.create_strategy() == "local"


class _FakeService:
    """The keys of a coordination service; what is asked for and absent is late."""

    def __init__(self, known):
        self.known, self.calls = set(known), []

    def set_config_key_value(self, key, value):
        self.calls.append(("set", key))

    def get_config_key_value(self, key, timeout_in_ms):
        self.calls.append(("get", key))
        if key not in self.known:
            raise tf.errors.DeadlineExceededError(None, None, f"{timeout_in_ms} ms")


@pytest.mark.parametrize(
    ("this", "known", "expected"),
    [
        # The first holds the service: it goes when the others need it no more.
        (0, "done-1 done-2 gone-1 gone-2", "set-done-0 done-1 done-2 gone-1 gone-2"),
        (2, "done-0 done-1", "set-done-2 done-0 done-1 set-gone-2"),
        # One is lost.
        (0, "done-1", "set-done-0 done-1 done-2"),
        (1, "", "set-done-1 done-0"),
    ],
)
def test_workers_leave_when_all_have_the_last_sum(this, known, expected, monkeypatch):
    workers = [f"127.0.0.1:{port}" for port in (1, 2, 3)]
    monkeypatch.setenv("TF_CONFIG", _cluster(*workers))
    resolver = types.SimpleNamespace(
        task_type="worker",
        task_id=this,
        cluster_spec=lambda: tf.train.ClusterSpec({"worker": workers}),
    )
    monkeypatch.setattr(strategies, "_LEAVINGS", iter([5]))
    names = {"done": "has all", "gone": "leaves"}

    def key(word):
        *_, what, worker = word.split("-")
        return f"albert_tf/5/{names[what]}/worker/{worker}"

    service = _FakeService(map(key, known.split()))
    monkeypatch.setattr(strategies.eager_context, "context", lambda: service)
    strategies.leave_together(types.SimpleNamespace(cluster_resolver=resolver))
    assert service.calls == [
        ("set" if word.startswith("set-") else "get", key(word))
        for word in expected.split()
    ]


def test_a_process_that_is_alone_leaves_at_once(monkeypatch):
    monkeypatch.delenv("TF_CONFIG", raising=False)
    strategies.leave_together(None)
