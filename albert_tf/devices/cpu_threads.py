"""Threads of TensorFlow on CPUs; to be set before it has computed anything."""

import contextlib
import os

import tensorflow as tf

# With more cores, one for each batch may be too few, and the memory of as many batches
# too much; not measured.
_MOST_BATCHES = 8


def have_two_threads() -> None:
    """Lets the next batch be fetched beside a step on a machine with one core.

    There TensorFlow has one thread for operations. A step that runs holds it, and all
    that time would be reported as waiting for input.
    """
    threading = tf.config.threading
    is_single = len(os.sched_getaffinity(0)) == 1
    if is_single and not threading.get_inter_op_parallelism_threads():
        with contextlib.suppress(RuntimeError):  # something was computed before
            threading.set_inter_op_parallelism_threads(2)


def one_core_a_batch() -> int:
    """Gives each operation one core, so that several batches fill a CPU.

    Small operations gain little from more cores, and those that XLA compiles run on
    one.

    Returns:
      How many batches to compute side by side. It is 1, and nothing changes, with an
      accelerator, with many cores, or after something was computed.
    """
    num_cores = len(os.sched_getaffinity(0))
    has_accelerator = len(tf.config.list_physical_devices()) > 1
    if has_accelerator or num_cores > _MOST_BATCHES:
        return 1
    try:
        tf.config.threading.set_intra_op_parallelism_threads(1)
    except RuntimeError:
        return 1
    return num_cores
