"""Devices on the PCI bus, as Linux shows them below /sys."""

import pathlib
from typing import NamedTuple


class Device(NamedTuple):
    """The numbers of a device, in hexadecimal with 0x.

    Attributes:
      vendor: such as 0x10de, NVIDIA.
      device: the vendor's number of the product.
      kind: class, such as 0x030200: the first two digits are the base class.
    """

    vendor: str
    device: str
    kind: str


def devices(root: pathlib.Path) -> list[Device]:
    """Returns the devices below `root`, which has sys/; none where it has no PCI."""
    folders = (root / "sys" / "bus" / "pci" / "devices").glob("*")
    names = ("vendor", "device", "class")
    return [
        Device(*((folder / name).read_text().strip() for name in names))
        for folder in folders
    ]
