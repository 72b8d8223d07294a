"""Batches that Python code makes reach hosts that cannot call it."""

import itertools
import socket

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.data import input_pipeline
from albert_tf.data import manifest as manifest_lib
from albert_tf.devices import batch_server, strategies
from albert_tf.finetuning import batches
from tests.support import fake_tpu, small_rows, small_run
from tests.support import training_processes as processes

DYNAMIC = ("data.masking=dynamic", "train.batch_size=16", "train.eval_batch_size=5")


def numbers(context: tf.distribute.InputContext) -> tf.data.Dataset:
    """0, 1, 2, ... 9 of host 0 and 100, 101, ... of host 1, by a function in Python."""
    first = 100 * context.input_pipeline_id

    def add(number):
        return np.int64(number + first)

    def call(number):
        found = tf.numpy_function(add, [number], tf.int64, stateful=False)
        return tf.ensure_shape(found, [])

    return tf.data.Dataset.range(10).map(call)


def test_functions_in_python_are_found_wherever_they_are():
    generated = tf.data.Dataset.from_generator(
        lambda: iter([1]), output_signature=tf.TensorSpec([], tf.int32)
    )
    assert batch_server.calls_python(numbers(tf.distribute.InputContext()))
    assert batch_server.calls_python(generated.prefetch(2))
    assert not batch_server.calls_python(tf.data.Dataset.range(3).map(tf.square))


# ---- A process on another host, which loopback takes the place of ----

_REMOTE = "/job:worker/replica:0/task:0/device:CPU:0"


def _serve(port: int) -> None:
    """What runs on the other host."""
    tf.distribute.Server({"worker": [f"127.0.0.1:{port}"]}, "worker", 0).join()


def _read(port: int, path: str) -> None:
    """Reads on that host; writes what it found."""
    tf.config.experimental_connect_to_host(f"127.0.0.1:{port}")
    context = tf.distribute.InputContext(num_input_pipelines=2, input_pipeline_id=1)
    server = batch_server.start(f"grpc://127.0.0.1:{port}")
    with tf.device(_REMOTE):
        dataset = server.wrap(numbers)(context)
        # Twice, as an evaluation is. An end would be an error in the log.
        elements = [list(itertools.islice(dataset, 10)) for _ in range(2)]
        found = [[int(element) for element in each] for each in elements]
        # On loopback, and nowhere else, TensorFlow could call this process from there.
        calls = [batch_server.calls_python(one) for one in (numbers(context), dataset)]
    np.savez(
        path,
        calls_python=calls,
        numbers=found,
        devices=[element.backing_device for element in elements[0]],
    )


def test_a_host_without_python_reads_its_batches_in_order(tmp_path):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    context, path = processes.forkserver(), tmp_path / "found.npz"
    host = context.Process(target=_serve, args=(port,))
    reader = context.Process(target=_read, args=(port, str(path)))
    try:
        for process in (host, reader):
            process.start()
        assert processes.exit_codes([reader]) == [0]
    finally:
        for process in (host, reader):
            if process.is_alive():
                process.kill()
            process.join()
    found = np.load(path)
    assert found["calls_python"].tolist() == [True, False]
    assert found["numbers"].tolist() == [list(range(100, 110))] * 2
    assert set(found["devices"]) == {_REMOTE}


# ---- The batches of runs ----


def remote_tpu() -> tf.distribute.TPUStrategy:
    strategy = fake_tpu.create_strategy()
    strategy.cluster_resolver.master = lambda: "grpc://127.0.0.1:8470"
    return strategy


def first_batches(strategy, input_fn, count: int) -> list[dict[str, np.ndarray]]:
    """The first batches of all replicas, one replica after another."""
    iterator = iter(strategies.distribute_dataset(strategy, input_fn))
    return [
        {name: values.numpy() for name, values in part.items()}
        for _ in range(count)
        for part in strategies.local_values(strategy, next(iterator))
    ]


def assert_equal(ours, theirs) -> None:
    for one, other in zip(ours, theirs, strict=True):
        assert one.keys() == other.keys()
        for name, values in one.items():
            np.testing.assert_array_equal(values, other[name])


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory) -> str:
    return str(small_run.write_records(tmp_path_factory.mktemp("dynamic"), *DYNAMIC))


@pytest.mark.parametrize("split", ["train", "heldout"])
def test_dynamic_masks_are_those_of_a_tpu_of_this_machine(data_dir, split):
    manifest = manifest_lib.read_manifest(data_dir)
    config = small_run.small_config(*DYNAMIC)
    if split == "train":
        # From the fourth step on, as a run that resumes.
        input_fn = input_pipeline.train_input_fn(data_dir, manifest, config, 3)
    else:
        input_fn, _ = input_pipeline.eval_input_fn(data_dir, manifest, config)
    ours, theirs = (
        first_batches(strategy, input_fn, 2)
        for strategy in (remote_tpu(), fake_tpu.create_strategy())
    )
    assert len(ours) == 2 * fake_tpu.NUM_REPLICAS
    assert_equal(ours, theirs)
    assert not np.array_equal(ours[0]["input_ids"], ours[1]["input_ids"])


def test_batches_of_a_task_are_those_of_a_tpu_of_this_machine():
    batcher = batches.FeatureBatcher(
        small_rows.make("classification"), "classification", 0, small_rows.LENGTH
    )
    run = small_run.small_config("train.batch_size=16").train
    for input_fn in (
        batches.train_input_fn(batcher, run, 5),
        batches.eval_input_fn(batcher, 2),
    ):
        ours, theirs = (
            first_batches(strategy, input_fn, 2)
            for strategy in (remote_tpu(), fake_tpu.create_strategy())
        )
        assert_equal(ours, theirs)


def test_hosts_read_records_with_masks_themselves(tmp_path, monkeypatch):
    data_dir = str(small_run.write_records(tmp_path, "data.masking=static"))
    config = small_run.small_config("data.masking=static", "train.batch_size=16")
    manifest = manifest_lib.read_manifest(data_dir)
    input_fn = input_pipeline.train_input_fn(data_dir, manifest, config, 0)
    monkeypatch.setattr(
        batch_server.BatchServer, "_register", lambda *_: pytest.fail("served")
    )
    assert len(first_batches(remote_tpu(), input_fn, 1)) == fake_tpu.NUM_REPLICAS
