"""Devices as TensorFlow sees them, and the rate of matrix products on one of them.

A driver may crash or hang, so albert_tf/diagnostics calls these functions in processes
of their own. They print JSON, one object a line.
"""

import json
import math
import time

import numpy as np
import tensorflow as tf

from albert_tf.devices import strategies

_WARMUP_PRODUCTS = 2
_SECONDS = 0.5


def print_devices() -> None:
    """Prints the devices, and what this TensorFlow was built for."""
    gpus = []
    for gpu in tf.config.list_physical_devices("GPU"):
        details = tf.config.experimental.get_device_details(gpu)
        gpus.append(
            {
                "name": details.get("device_name", ""),
                "capability": details.get("compute_capability"),
            }
        )
    build = tf.sysconfig.get_build_info()
    found = {
        "version": tf.__version__,
        "gpus": gpus,
        "tpu_systems": len(tf.config.list_physical_devices("TPU_SYSTEM")),
        "has_cuda": bool(build.get("is_cuda_build")),
        "cuda": build.get("cuda_version", ""),
    }
    print(json.dumps(found), flush=True)


def print_rates(device: str, dtypes: str, size: int) -> None:
    """Prints the FLOP/s of products of two [size, size] matrices in each dtype.

    Args:
      device: such as "CPU:0", "GPU:1" or "TPU:0".
      dtypes: separated by commas.
      size: rows and columns of the matrices.
    """
    if device.startswith("TPU"):
        strategies.create_strategy("tpu", "local")
    # Entries of -1 and 1, so that sums in float32 are exact, and random: a processor
    # that multiplies equal numbers takes less power, and may be clocked higher.
    generator = np.random.default_rng(0)
    left, right = (2 * generator.integers(0, 2, (2, size, size), np.int8) - 1).astype(
        np.float32
    )
    for dtype in dtypes.split(","):
        # [size, size]
        with tf.device(device):
            factors = tf.cast(left, dtype), tf.cast(right, dtype)
            for _ in range(_WARMUP_PRODUCTS):
                product = tf.linalg.matmul(*factors)
            first_row = tf.cast(product[0], tf.float32).numpy()
            seconds = _seconds(factors)
        expected = left[0] @ right
        # bfloat16 has 8 bits, and float16 more, to round an entry to.
        tolerance = 0.0 if dtype == "float32" else 2.0**-8
        error = np.abs(first_row - expected) - tolerance * np.abs(expected)
        found = {
            "dtype": dtype,
            "size": size,
            "seconds": seconds,
            "flops": 2 * size**3 / seconds,
            "is_right": bool(np.max(error) <= 0.0),
        }
        print(json.dumps(found), flush=True)


def _seconds(factors: tuple[tf.Tensor, tf.Tensor]) -> float:
    """Returns the mean time of a product, over as many as fill `_SECONDS`."""
    count = 1
    while True:
        started = time.perf_counter()
        for _ in range(count):
            product = tf.linalg.matmul(*factors)
        product[0, 0].numpy()  # waits for the device
        elapsed = time.perf_counter() - started
        if elapsed >= _SECONDS / 2:
            return elapsed / count
        count = math.ceil(count * min(10.0, _SECONDS / max(elapsed, 1e-6)))
