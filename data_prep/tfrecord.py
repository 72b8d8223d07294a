"""The frame of a record in a TFRecord file: length, checksum, the record, checksum.

The checksums are CRC-32C, masked. Source: TensorFlow's description of the format.
"""

import numpy as np

LENGTH_BYTES, CHECKSUM_BYTES = 8, 4
_DELTA = np.uint32(0xA282EAD8)


def mask(checksums: np.ndarray) -> np.ndarray:
    """Masks checksums, which are then safe inside checked data; uint32 of any shape."""
    rotated = (checksums >> np.uint32(15)) | (checksums << np.uint32(17))
    return rotated + _DELTA
