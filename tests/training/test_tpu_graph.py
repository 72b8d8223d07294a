"""Holds what a TPU is given to what it can do, in graphs built without one."""

import collections
import functools
from collections.abc import Callable
from typing import NamedTuple

import pytest
import tensorflow as tf

from albert_tf.data import input_pipeline
from albert_tf.data import manifest as manifest_lib
from albert_tf.devices import strategies
from albert_tf.model import pretraining_model
from albert_tf.optim import averaging, optimizers
from albert_tf.training import (
    loops,
    objectives,
    step_log,
    train_step,
    trust_ratios,
)
from tests.support import fake_tpu, small_run, tpu_ops


def _step_graph(step: Callable) -> tpu_ops.Ops:
    """A graph that runs `step` on float32 [4, 3] on all replicas."""
    strategy = fake_tpu.create_strategy()

    def step_without_result(inputs):
        step(inputs)

    @tf.function
    def loop(inputs):
        strategy.run(step_without_result, (inputs,))

    return tpu_ops.split(loop.get_concrete_function(tf.TensorSpec([4, 3])).graph)


def _py_function(inputs):
    return tf.py_function(lambda value: value, [inputs], tf.float32)


def _in_a_loop(inputs):
    return tf.while_loop(
        lambda index: index < 3,
        lambda index: index + tf.cast(tf.timestamp(), tf.int32),
        [tf.constant(0)],
    )


def _in_a_branch(inputs):
    chosen = tf.reduce_sum(inputs) > 0
    return tf.cond(chosen, lambda: tf.random.uniform([]), lambda: tf.constant(0.0))


PLANTED = {
    "py_function": (
        _py_function,
        {
            tpu_ops.Fault("EagerPyFunc", "is for the host"),
            tpu_ops.Fault("EagerPyFunc", "XLA cannot compile it"),
            tpu_ops.Fault("EagerPyFunc", "has a shape that is not static"),
        },
    ),
    "dynamic_shape": (
        lambda inputs: tf.where(inputs > 0.0),
        {tpu_ops.Fault("Where", "has a shape that is not static")},
    ),
    "string": (
        lambda inputs: tf.strings.length(tf.constant(["a", "bc"])),
        {
            tpu_ops.Fault("Const", "is string"),
            tpu_ops.Fault("StringLength", "is string"),
            tpu_ops.Fault("StringLength", "XLA cannot compile it"),
        },
    ),
    "float64": (
        lambda inputs: tf.cast(inputs, tf.float64),
        {tpu_ops.Fault("Cast", "is float64")},
    ),
    "timestamp": (
        lambda inputs: tf.timestamp(),
        {
            tpu_ops.Fault("Timestamp", "is for the host"),
            tpu_ops.Fault("Timestamp", "XLA cannot compile it"),
            tpu_ops.Fault("Timestamp", "is float64"),
        },
    ),
    "assertion": (
        lambda inputs: tf.debugging.Assert(inputs[0, 0] > 0.0, [inputs]),
        {tpu_ops.Fault("Assert", "is for the host")},
    ),
    "stateful_random": (
        lambda inputs: tf.random.normal([2]),
        {tpu_ops.Fault("RandomStandardNormal", "is for the host")},
    ),
    "no_xla_kernel": (
        lambda inputs: tf.math.special.bessel_j0(inputs),
        {tpu_ops.Fault("BesselJ0", "XLA cannot compile it")},
    ),
    "island": (
        lambda inputs: tf.function(tf.sin, jit_compile=True)(inputs),
        {tpu_ops.Fault("PartitionedCall", "is compiled by itself")},
    ),
    "in_a_loop": (
        _in_a_loop,
        {
            tpu_ops.Fault("Timestamp", "is for the host"),
            tpu_ops.Fault("Timestamp", "XLA cannot compile it"),
            tpu_ops.Fault("Timestamp", "is float64"),
            tpu_ops.Fault("Cast", "is float64"),
        },
    ),
    "in_a_branch": (_in_a_branch, {tpu_ops.Fault("RandomUniform", "is for the host")}),
}


@pytest.mark.parametrize("name", PLANTED)
def test_a_fault_planted_in_a_step_is_named(name):
    step, expected = PLANTED[name]
    assert tpu_ops.faults(_step_graph(step)) == expected


def test_a_step_without_fault_has_none_whatever_surrounds_it():
    strategy = fake_tpu.create_strategy()

    def step(inputs):
        return strategies.sum_over_replicas(tf.reduce_sum(inputs))

    @tf.function
    def loop(inputs):
        tf.print(tf.timestamp(), tf.as_string(inputs))
        return strategies.run_on_replicas(strategy, step, (inputs,))

    ops = tpu_ops.split(loop.get_concrete_function(tf.TensorSpec([4, 3])).graph)
    assert tpu_ops.faults(ops) == set()
    assert tpu_ops.types(ops.inside)["CrossReplicaSum"] == 1
    assert {"Timestamp", "PrintV2", "AsString"} <= set(tpu_ops.types(ops.outside))


# ---- The graphs of a run ----

RECIPES = {
    "lamb": (),
    "muon": ("optimizer.name=muon", "train.compute_dtype=bfloat16"),
    "adamw_in_parts": (
        "optimizer.name=adamw",
        "train.accumulation_steps=2",
        "train.compute_dtype=bfloat16",
        "train.remat=block",
        "train.ema_decay=0.999",
    ),
}


class Run(NamedTuple):
    """What a run on a TPU is made of, as `pretraining.train` makes it."""

    strategy: tf.distribute.Strategy
    model: pretraining_model.PretrainingModel
    adam: optimizers.AdamW
    batch_shapes: list[tf.TensorShape]  # of the token ids, one a replica
    graph: tf.Graph  # of the loop
    loop: tpu_ops.Ops
    evaluate: Callable


def _make_run(data_dir: str, *overrides: str) -> Run:
    config = small_run.small_config(
        "model.hidden_dropout_rate=0.1",
        "model.attention_dropout_rate=0.2",
        "train.batch_size=32",
        "train.eval_batch_size=3",
        "train.jit_compile=auto",
        *overrides,
    )
    manifest = manifest_lib.read_manifest(data_dir)
    strategy = fake_tpu.create_strategy()
    with strategy.scope():
        model = pretraining_model.build_pretraining_model(
            config.model, 1, pretraining_model.compute_form(config.train)
        )
        adam = optimizers.create(
            config.optimizer,
            config.train.num_steps,
            model.compute.fuse_elementwise,
            compute_dtype=model.compute.dtype,
        )
        adam.build(model.trainable_variables)
        if config.train.ema_decay:
            adam.keep_average(averaging.MovingAverage(model, config.train.ema_decay))
    objective = objectives.PretrainingObjective(config.data.pair_loss)
    state, signals = loops.TrainState(objective), loops.Signals()
    loop = loops.make_train_loop(
        strategy,
        train_step.make_train_step(model, adam, config, objective),
        state,
        signals,
        0,
    )
    input_fn = input_pipeline.train_input_fn(data_dir, manifest, config, 3)
    batches = iter(strategies.distribute_dataset(strategy, input_fn))
    graph = loop.get_concrete_function(batches, tf.TensorSpec([], tf.int32)).graph
    parts = strategies.local_values(strategy, next(batches))
    shapes = [part["input_ids"].shape for part in parts]
    make_sums = loops.make_evaluation_sums(strategy, model, config, objective, signals)
    evaluate = make_sums(*input_pipeline.eval_input_fn(data_dir, manifest, config))
    return Run(strategy, model, adam, shapes, graph, tpu_ops.split(graph), evaluate)


def _graph_of(function: Callable) -> tpu_ops.Ops:
    """What `function` would run, up to where the host takes a value from a tensor."""

    @tf.function(autograph=False)
    def trace():
        with pytest.raises((AttributeError, TypeError), match="numpy|float"):
            function()

    return tpu_ops.split(trace.get_concrete_function().graph)


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory) -> str:
    return str(small_run.write_records(tmp_path_factory.mktemp("tpu")))


@pytest.fixture(scope="module")
def make_run(data_dir):
    """A function of a recipe's name, that makes each run once."""
    return functools.cache(lambda name: _make_run(data_dir, *RECIPES[name]))


@pytest.mark.slow
@pytest.mark.parametrize("name", RECIPES)
def test_the_train_step_holds_nothing_that_a_tpu_cannot_do(make_run, name):
    ops = make_run(name).loop
    assert tpu_ops.faults(ops) == set()
    # The search has found the step, and the step is the one asked for.
    in_parts = name == "adamw_in_parts"
    types = tpu_ops.types(ops.inside)
    # With remat some are done again. Ten matrices are orthogonalized by five iterations
    # of three products.
    num_products = {"lamb": 51, "muon": 51 + 10 * 5 * 3, "adamw_in_parts": 63}
    assert types["MatMul"] == num_products[name]
    assert types["StatelessRandomUniformV2"] == (13 if in_parts else 7)
    assert types["While"] == (1 if in_parts else 0)
    products = {op.outputs[0].dtype for op in ops.inside if op.type == "BatchMatMulV2"}
    assert products == {tf.float32 if name == "lamb" else tf.bfloat16}


@pytest.mark.slow
def test_the_step_of_packed_rows_holds_nothing_that_a_tpu_cannot_do(tmp_path):
    packed = "data.pack_sequences=2"
    data_dir = small_run.write_records(tmp_path, packed, "data.dupe_factor=4")
    run = _make_run(str(data_dir), packed)
    assert tpu_ops.faults(run.loop) == set()
    assert run.batch_shapes == [[4, 48]] * 8
    # Each of the two layers compares for itself, the last one where it is read.
    read = 8 + 11
    compared = [
        op.outputs[0].shape.as_list()
        for op in run.loop.inside
        if op.type == "NotEqual" and op.outputs[0].shape.rank == 4
    ]
    assert compared == [[4, 1, 48, 48], [4, 1, read, 48]]


@pytest.mark.slow
def test_attention_in_parts_holds_nothing_that_a_tpu_cannot_do(data_dir):
    ops = _make_run(data_dir, "train.queries_at_once=10").loop
    assert tpu_ops.faults(ops) == set()
    # Forward and backward in the first layer; the last one has few queries.
    types = tpu_ops.types(ops.inside)
    assert types["While"] + types["StatelessWhile"] == 2
    shapes = [
        output.shape.as_list()
        for op in ops.inside
        for output in op.outputs
        if output.shape.rank == 4
    ]
    assert [4, 2, 8, 24] in shapes  # three parts of 8 queries
    assert [4, 2, 24, 24] not in shapes


@pytest.mark.slow
@pytest.mark.parametrize("name", RECIPES)
def test_a_step_is_replicated_once_and_fed_by_the_host(make_run, name):
    run = make_run(name)
    (metadata,) = (op for op in run.loop.inside if op.type == "TPUReplicateMetadata")
    assert metadata.get_attr("num_replicas") == 8
    outside = tpu_ops.types(run.loop.outside)
    assert outside["IteratorGetNext"] == 8
    assert outside["Timestamp"] == 2
    assert run.batch_shapes == [[4, 24]] * 8


@pytest.mark.slow
@pytest.mark.parametrize("name", RECIPES)
def test_gradients_cross_replicas_once_a_step_and_the_sums_as_one_vector(
    make_run, name
):
    run = make_run(name)
    shapes = [
        tuple(op.outputs[0].shape)
        for op in run.loop.inside
        if op.type == "CrossReplicaSum"
    ]
    variables = [tuple(variable.shape) for variable in run.model.trainable_variables]
    assert len(variables) == 32
    # The weights of both losses, the gradients, then seven sums and `stop`.
    assert shapes == [(2,), *variables, (8,)]


@pytest.mark.slow
def test_no_step_waits_for_what_the_host_makes_of_the_one_before(make_run):
    (body,) = tpu_ops.step_bodies(make_run("lamb").graph)
    assert tpu_ops.crossings(body) == {}
    # Nor does the host read a variable of the devices between steps: only `stop`, and
    # `heartbeat` to add 1 to, are its own.
    own = collections.Counter(
        op.type
        for op in body.get_operations()
        if "_tpu_replicate" not in op.node_def.attr and "Variable" in op.type
    )
    assert own == {"ReadVariableOp": 1, "AssignVariableOp": 1, "AssignAddVariableOp": 1}


@pytest.mark.slow
def test_the_host_reads_the_log_once_for_many_steps(make_run):
    outside = make_run("lamb").loop.outside
    columns = len(objectives.PRETRAINING_SUMS) + 6
    read = [
        op
        for op in outside
        if op.type == "ReadVariableOp"
        and op.outputs[0].shape == [step_log.NUM_ROWS, columns]
    ]
    assert len(read) == 1


def test_several_processes_agree_on_the_step_before_the_last(monkeypatch):
    """They alone read a result of a step: `stop`, which the next step but one needs."""
    monkeypatch.setattr(strategies, "has_several_processes", lambda: True)
    strategy = fake_tpu.create_strategy()
    objective = objectives.PretrainingObjective("sop")

    def step(features, stop, mean_loss, num_skipped):
        total = strategies.sum_over_replicas(features["x"] + stop)
        values = dict.fromkeys(objective.sum_names, total)
        numbers = ("loss", "gradient_norm", "is_bad")
        return {**values, **dict.fromkeys(numbers, total + mean_loss), "stop": total}

    loop = loops.make_train_loop(
        strategy, step, loops.TrainState(objective), loops.Signals(), 0
    )
    dataset = tf.data.Dataset.from_tensors({"x": 1.0}).repeat()
    batches = iter(strategies.distribute_dataset(strategy, lambda _: dataset))
    graph = loop.get_concrete_function(batches, tf.TensorSpec([], tf.int32)).graph
    (body,) = tpu_ops.step_bodies(graph)
    # One of each replica, and the one that the loop carries.
    assert tpu_ops.crossings(body) == {"Identity": fake_tpu.NUM_REPLICAS + 1}


@pytest.mark.slow
# Elsewhere its iterator is made before the graph.
@pytest.mark.filterwarnings("ignore:To make it possible to preserve tf.data options")
def test_an_evaluation_holds_nothing_that_a_tpu_cannot_do(make_run):
    ops = _graph_of(make_run("lamb").evaluate)
    assert tpu_ops.faults(ops) == set()
    sums = [op.outputs[0].shape for op in ops.inside if op.type == "CrossReplicaSum"]
    assert sums == [[8]]


@pytest.mark.slow
def test_trust_ratios_hold_nothing_that_a_tpu_cannot_do(make_run):
    run = make_run("lamb")
    ratios = trust_ratios.make_trust_ratios(run.strategy, run.model, run.adam)
    ops = _graph_of(lambda: ratios(2))
    assert tpu_ops.faults(ops) == set()
    assert tpu_ops.types(ops.inside)["DivNoNan"] == 13  # the variables that are adapted


def test_workers_agree_by_one_sum_on_the_tpu():
    strategy = fake_tpu.create_strategy()
    ops = _graph_of(lambda: strategies.check_same_step(strategy, 3))
    assert tpu_ops.faults(ops) == set()
    assert tpu_ops.types(ops.inside)["CrossReplicaSum"] == 1
