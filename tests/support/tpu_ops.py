"""Operations of a graph inside the program of a TPU, and those not allowed there."""

import collections
import functools
import re
from collections.abc import Iterator
from typing import NamedTuple

import tensorflow as tf
from tensorflow.python.framework import kernels

HOST_ONLY = re.compile(
    "(Eager)?PyFunc|Decode|Parse|(MultiDevice)?Iterator|Timestamp|Print|Assert"
    "|.*Summary"
    # Random operations with a state, which neither resume nor differ by replica.
    "|Random|TruncatedNormal|ParameterizedTruncatedNormal|Multinomial|Rng"
    "|Stateful(Random|Standard|Uniform|Truncated)|NonDeterministic"
)

# What only the TPU's own compiler knows, and the arguments of functions.
NO_XLA_KERNEL_HERE = {"TPUReplicateMetadata", "CrossReplicaSum", "Placeholder"}

FORBIDDEN_DTYPES = (tf.string, tf.float64)


class Fault(NamedTuple):
    """An operation that must not be in the replicated step, and why not."""

    op_type: str
    reason: str


def _all_ops(
    graph: tf.Graph, inside: bool = False, seen: set | None = None
) -> Iterator[tuple[tf.Operation, bool]]:
    """The operations of a graph and its functions, and if they are in the step.

    In the step is what carries the mark that TPUStrategy makes, and all that is called
    from there.
    """
    seen = set() if seen is None else seen
    for op in graph.get_operations():
        attributes = op.node_def.attr
        is_inside = inside or "_tpu_replicate" in attributes
        yield op, is_inside
        for attribute in attributes.values():
            called = [*attribute.list.func]
            if attribute.HasField("func"):
                called.append(attribute.func)
            for function in called:
                key = function.name, is_inside
                if key not in seen:
                    seen.add(key)
                    body = graph._get_function(function.name).graph
                    yield from _all_ops(body, is_inside, seen)


class Ops(NamedTuple):
    """The operations of a graph with a replicated step."""

    inside: list[tf.Operation]
    outside: list[tf.Operation]


def split(graph: tf.Graph) -> Ops:
    ops = Ops([], [])
    for op, is_inside in _all_ops(graph):
        (ops.inside if is_inside else ops.outside).append(op)
    return ops


def types(ops: list[tf.Operation]) -> collections.Counter:
    return collections.Counter(op.type for op in ops)


def step_bodies(graph: tf.Graph) -> list[tf.Graph]:
    """The graphs, of `graph` and its functions, that hold a replicated step."""
    ops = [op for op, _ in _all_ops(graph) if op.type == "TPUReplicateMetadata"]
    return list({id(op.graph): op.graph for op in ops}.values())


def crossings(body: tf.Graph) -> collections.Counter:
    """The types of the operations of a body that read what its replicated step gives.

    A result that nobody reads has none.
    """
    found, new = (
        set(),
        [op for op in body.get_operations() if "_tpu_replicate" in op.node_def.attr],
    )
    seen = set(new)
    while new:
        for tensor in new.pop().outputs:
            for reader in set(tensor.consumers()) - seen:
                seen.add(reader)
                new.append(reader)
                found.add(reader)
    return types([op for op in found if op.type != "TPUReplicatedOutput"])


@functools.cache
def _xla_ops() -> frozenset[str]:
    """The types that XLA can compile, on some device."""
    tf.function(lambda: tf.constant(0.0), jit_compile=True)()  # registers them
    found = kernels.get_all_registered_kernels().kernel
    return frozenset(k.op for k in found if k.device_type.startswith("XLA_"))


def faults(ops: Ops) -> set[Fault]:
    return {Fault(op.type, reason) for op in ops.inside for reason in _reasons(op)}


def _reasons(op: tf.Operation) -> Iterator[str]:
    attributes = op.node_def.attr
    if HOST_ONLY.match(op.type):
        yield "is for the host"
    if op.type not in _xla_ops() | NO_XLA_KERNEL_HERE:
        yield "XLA cannot compile it"
    if attributes["_XlaMustCompile"].b:
        yield "is compiled by itself"
    if "_xla_outside_compilation" in attributes:
        yield "goes back to the host"
    tensors = [*op.inputs, *op.outputs]
    enums = [dtype for a in attributes.values() for dtype in (a.type, *a.list.type)]
    for dtype in FORBIDDEN_DTYPES:
        is_tensor = any(tensor.dtype == dtype for tensor in tensors)
        if is_tensor or dtype.as_datatype_enum in enums:
            yield f"is {dtype.name}"
    # A loop's condition has all that its body has as arguments, and no shape for those
    # that it does not read.
    is_unused = op.type == "Placeholder" and not op.outputs[0].consumers()
    if not is_unused and any(
        tensor.dtype != tf.resource and not tensor.shape.is_fully_defined()
        for tensor in op.outputs
    ):
        yield "has a shape that is not static"


# ---- The checks themselves can fail ----
