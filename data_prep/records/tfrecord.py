"""Framing of a record in a TFRecord file: length, checksum, record, checksum.

The checksums are masked CRC-32C. Source: TensorFlow's description of the format.
"""

import numpy as np

LENGTH_BYTES, CHECKSUM_BYTES = 8, 4
_DELTA = np.uint32(0xA282EAD8)


def mask(checksums: np.ndarray) -> np.ndarray:
    """Masks checksums, so that they can be part of checked data; uint32, any shape."""
    rotated = (checksums >> np.uint32(15)) | (checksums << np.uint32(17))
    return rotated + _DELTA
