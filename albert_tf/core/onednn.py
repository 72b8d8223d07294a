"""TensorFlow's use of oneDNN for the operations of a CPU.

On x86 TensorFlow uses oneDNN by default only where the processor has instructions for
neural networks (AVX512_VNNI, AVX512_BF16, AVX-VNNI or AMX). It also makes small models
faster on one with AVX2 alone: docs/experiments.md, "oneDNN without AVX-512".
"""

import os
import platform

_VARIABLE = "TF_ENABLE_ONEDNN_OPTS"


def turn_on() -> None:
    """Turns oneDNN on for a TensorFlow that is not imported yet, on x86.

    A variable that the user has set stays. On processors of other kinds TensorFlow has
    other kernels, and decides itself.
    """
    if platform.machine() in ("x86_64", "AMD64"):
        os.environ.setdefault(_VARIABLE, "1")
