"""Peak FLOP/s of the devices of a run, for the utilization."""

import os

import tensorflow as tf

from albert_tf.devices import peak_table


def peak_flops(strategy: tf.distribute.Strategy, teraflops: float = 0.0) -> float:
    """Returns the peak FLOP/s of bfloat16 products of all devices together.

    Args:
      strategy: the devices.
      teraflops: of one of them; 0: that of the known device.

    Returns:
      FLOP/s, or 0 if the device is unknown, such as a CPU.
    """
    if not teraflops:
        teraflops = _known_teraflops(strategy)
    return teraflops * 1e12 * strategy.num_replicas_in_sync


def _known_teraflops(strategy: tf.distribute.Strategy) -> float:
    if isinstance(strategy, tf.distribute.TPUStrategy):
        return peak_table.of_tpu(os.environ.get("TPU_ACCELERATOR_TYPE", ""))
    gpus = tf.config.list_physical_devices("GPU")
    if not gpus:
        return 0.0
    details = tf.config.experimental.get_device_details(gpus[0])
    return peak_table.of_gpu(details.get("device_name", ""))
