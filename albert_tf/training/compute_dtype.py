"""Whether the devices of a run multiply in its `train.compute_dtype`."""

import tensorflow as tf

from albert_tf.devices import strategies
from albert_tf.diagnostics import cpu
from albert_tf.training import loss_scale

_USE_BFLOAT16 = "use train.compute_dtype=bfloat16, which needs no loss scale"
_USE_FLOAT32 = "use train.compute_dtype=float32"


def check(dtype: str, strategy: tf.distribute.Strategy) -> str:
    """Returns a line about devices on which another dtype is better; "" elsewhere.

    Args:
      dtype: `train.compute_dtype`.
      strategy: with the devices.

    Raises:
      ValueError: it is float16 on TPUs.
    """
    kind = strategies.device_kind(strategy)
    if dtype == "bfloat16" and kind == "CPU" and _converts_bfloat16():
        return f"bfloat16 is not faster than float32 on this CPU: {_USE_FLOAT32}"
    if dtype == loss_scale.DTYPE:
        return _check_float16(kind)
    return ""


def _converts_bfloat16() -> bool:
    """Returns whether this CPU is known to have no instructions for bfloat16."""
    observed = cpu.observe()
    return bool(observed.instructions) and not observed.fast_bfloat16


def _check_float16(kind: str) -> str:
    if kind == "TPU":
        raise ValueError(
            "train.compute_dtype must not be float16 on a TPU, which multiplies "
            f"bfloat16: {_USE_BFLOAT16}"
        )
    if kind == "CPU":
        advice = _USE_FLOAT32 if _converts_bfloat16() else _USE_BFLOAT16
        return f"float16 is slow on a CPU: {advice}"
    has_bfloat16 = strategies.gpu_has_bfloat16()
    return f"this GPU has bfloat16: {_USE_BFLOAT16}" if has_bfloat16 else ""
