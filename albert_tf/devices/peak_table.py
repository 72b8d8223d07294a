"""Peak teraflops of accelerators by name; no TensorFlow.

A new accelerator is one entry in a table here.
"""

# Teraflops of dense bfloat16 products of one device (float16 on V100 and T4, which have
# no bfloat16), from the makers' data sheets. A replica is half a chip of TPU v2 and v3,
# and a whole chip of the others. For a GPU the first entry counts whose words are all
# in the device's name.
_TPU_TERAFLOPS = {"v2": 22.5, "v3": 61.5, "v4": 275, "v5lite": 197, "v5p": 459}
_TPU_TERAFLOPS |= {"v5e": 197, "v6e": 918}
_GPU_TERAFLOPS = {"H200": 989, "H100 PCIe": 756, "H100": 989, "A100": 312, "L4": 121}
_GPU_TERAFLOPS |= {"V100": 125, "T4": 65}


def of_tpu(name: str) -> float:
    """Returns the peak of one replica of a TPU; 0 if it is unknown.

    Args:
      name: kind or type, such as v5e or v5litepod-8.
    """
    kind = name.partition("-")[0].removesuffix("pod")
    return _TPU_TERAFLOPS.get(kind, 0.0)


def of_gpu(name: str) -> float:
    """Returns the peak of a GPU by its device name; 0 if it is unknown."""
    words = set(name.replace("-", " ").split())
    known = (v for kind, v in _GPU_TERAFLOPS.items() if set(kind.split()) <= words)
    return next(known, 0.0)
