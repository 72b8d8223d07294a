"""Devices: the only file that names what tf.distribute, TPUs and GPUs need."""

import tensorflow as tf


def create_strategy() -> tf.distribute.Strategy:
    """The strategy that places everything on the best single device of this machine."""
    gpus = tf.config.list_logical_devices("GPU")
    return tf.distribute.OneDeviceStrategy(gpus[0].name if gpus else "/cpu:0")


def replica_id() -> tf.Tensor:
    """int32 scalar: which replica runs the calling code."""
    context = tf.distribute.get_replica_context()
    return tf.cast(context.replica_id_in_sync_group, tf.int32)


def sum_over_replicas(values):
    """`values`, a nest of dense tensors, added up over all replicas, on each."""
    context = tf.distribute.get_replica_context()
    return context.all_reduce(tf.distribute.ReduceOp.SUM, values)


def compiles_with_xla(jit_compile: str) -> bool:
    """Whether XLA compiles forward and backward pass, as train.jit_compile says.

    "auto" is yes on a GPU. On a TPU all goes through XLA without being asked to, and on
    a CPU oneDNN multiplies faster.
    """
    has_gpu = bool(tf.config.list_physical_devices("GPU"))
    return jit_compile == "on" or (jit_compile == "auto" and has_gpu)


def uses_islands(jit_compile: str) -> bool:
    """Whether XLA compiles what lies between the matrix products, and no more.

    "auto" is yes where there is nothing but a CPU.
    """
    kinds = ("GPU", "TPU")
    has_accelerator = any(tf.config.list_physical_devices(kind) for kind in kinds)
    return jit_compile == "auto" and not has_accelerator


def distribute_dataset(strategy: tf.distribute.Strategy, input_fn):
    """The dataset of `input_fn(input_context)`, split over the replicas."""
    return strategy.distribute_datasets_from_function(input_fn)
