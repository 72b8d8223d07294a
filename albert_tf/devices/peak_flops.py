"""Peak FLOP/s of accelerators, for the utilization.

A new accelerator is one entry in a table here.
"""

import os

import tensorflow as tf

# Teraflops of dense bfloat16 products of one device (float16 on V100 and T4, which have
# no bfloat16), from the makers' data sheets. A replica is half a chip of TPU v2 and v3,
# and a whole chip of the others. For a GPU the first entry counts whose words are all
# in the device's name.
_TPU_TERAFLOPS = {"v2": 22.5, "v3": 61.5, "v4": 275, "v5lite": 197, "v5p": 459}
_TPU_TERAFLOPS |= {"v5e": 197, "v6e": 918}
_GPU_TERAFLOPS = {"H200": 989, "H100 PCIe": 756, "H100": 989, "A100": 312, "L4": 121}
_GPU_TERAFLOPS |= {"V100": 125, "T4": 65}


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
        name = os.environ.get("TPU_ACCELERATOR_TYPE", "")
        kind = name.partition("-")[0].removesuffix("pod")
        return _TPU_TERAFLOPS.get(kind, 0.0)
    gpus = tf.config.list_physical_devices("GPU")
    if not gpus:
        return 0.0
    details = tf.config.experimental.get_device_details(gpus[0])
    words = set(details.get("device_name", "").replace("-", " ").split())
    known = (v for kind, v in _GPU_TERAFLOPS.items() if set(kind.split()) <= words)
    return next(known, 0.0)
