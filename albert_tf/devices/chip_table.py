"""Accelerators for a plan: memory, rates and topologies by name; no TensorFlow.

A new accelerator is one entry in `_CHIPS`. What a replica is, differs: one core of a
TPU v2 or v3 with half of the chip's memory; a whole chip of the others, also on v4 and
v5p, whose two cores then work as one device. For v4 libtpu assumes that only if it is
told to by the chip configuration "megacore"; otherwise it compiles for one core with
half of the memory.
"""

import dataclasses
import re

from albert_tf.devices import peak_table

_GIB = 1 << 30


@dataclasses.dataclass(frozen=True)
class Chip:
    """A kind of accelerator, as its replicas see it.

    kind: such as v3 or a100.
    hbm_bytes: of one replica's memory that a program may use: by libtpu 0.0.51 for
      TPUs, by the data sheet for GPUs; 0 if it is that of the machine.
    hbm_rate: bytes per second between one replica and its memory.
    link_rate: bytes per second that a chip sends to others over all its links.
    replicas_per_chip: 2 if each core of a chip is a replica.
    counted_per_chip: what a chip adds to the number in a slice's name.
    topology: libtpu's name of the smallest slice of four chips; empty for no TPU.
    chip_config: what libtpu must be told beside it; empty for its default.
    per_machine: chips that the links reach, of GPUs; 0 if they reach a whole slice.
    network_rate: bytes per second that such a chip sends to other machines.
    """

    kind: str
    hbm_bytes: int
    hbm_rate: float
    link_rate: float
    replicas_per_chip: int = 1
    counted_per_chip: int = 1
    topology: str = ""
    chip_config: str = ""
    per_machine: int = 0
    network_rate: float = 0.0

    @property
    def peak_flops(self) -> float:
        """FLOP/s of bfloat16 products of one replica; 0 if unknown."""
        if self.topology:
            return 1e12 * peak_table.of_tpu(self.kind)
        return 1e12 * peak_table.of_gpu(self.kind.upper())

    @property
    def compiled_replicas(self) -> int:
        """Replicas of `topology`, for which a program of several is compiled."""
        return 4 * self.replicas_per_chip


def _gib(amount: float) -> int:
    return int(amount * _GIB)


def _gpu(
    kind: str, hbm_bytes: int, hbm_rate: float, link_rate: float, network_rate: float
) -> Chip:
    return Chip(
        kind, hbm_bytes, hbm_rate, link_rate, per_machine=8, network_rate=network_rate
    )


# Rates are those of the makers' data sheets. The GPUs are those with SXM sockets; their
# links are NVLink, and reach the eight GPUs of one machine. Each has an adapter of its
# own to the network, as in NVIDIA's DGX: 200 Gb/s for the A100, 400 for the others.
_CHIPS = {
    chip.kind: chip
    for chip in (
        Chip("v2", _gib(7.48), 350e9, 248e9, 2, 2, "v2:2x2"),
        Chip("v3", _gib(15.48), 450e9, 328e9, 2, 2, "v3:2x2"),
        Chip("v4", _gib(30.75), 1228e9, 300e9, 1, 2, "v4:2x2x1", "megacore"),
        Chip("v5e", _gib(15.75), 819e9, 200e9, 1, 1, "v5e:2x2"),
        Chip("v5p", _gib(95.73), 2765e9, 600e9, 1, 2, "v5p:2x2x1"),
        Chip("v6e", _gib(31.24), 1640e9, 400e9, 1, 1, "v6e:2x2"),
        _gpu("a100", 80 * 10**9, 2039e9, 300e9, 25e9),
        _gpu("h100", 80 * 10**9, 3350e9, 450e9, 50e9),
        _gpu("h200", 141 * 10**9, 4800e9, 450e9, 50e9),
        Chip("cpu", 0, 0.0, 0.0),
    )
}
_LARGEST_SLICE = 1 << 14


@dataclasses.dataclass(frozen=True)
class Accelerator:
    """One or more chips of a kind.

    name: as given, such as v3-512.
    chip: the kind.
    num_chips: how many.
    """

    name: str
    chip: Chip
    num_chips: int

    @property
    def num_replicas(self) -> int:
        """Devices that share a batch."""
        return self.num_chips * self.chip.replicas_per_chip


def find(name: str) -> Accelerator:
    """Returns the accelerator called `name`.

    Args:
      name: a kind, or a kind and a number, such as v3-512 or h100-8. The number counts
        cores for v2, v3, v4 and v5p, as in the names of their slices, and chips for the
        others. Without one it is one chip. v5litepod is v5e.

    Raises:
      ValueError: there is no such accelerator.
    """
    match = re.fullmatch(r"([a-z0-9]+?)(?:-(\d{1,5}))?", name)
    kind = match[1].replace("v5litepod", "v5e") if match else ""
    chip = _CHIPS.get(kind)
    if match is None or chip is None:
        raise ValueError(
            f"--accelerator must be one of {', '.join(_CHIPS)}, alone or with a number "
            f"as in v3-512; received {name!r}"
        )
    number = int(match[2]) if match[2] else chip.counted_per_chip
    num_chips, rest = divmod(number, chip.counted_per_chip)
    if rest or not 1 <= num_chips <= _LARGEST_SLICE or (not chip.hbm_rate and match[2]):
        rule = {2: "an even number of cores", 1: "a number of chips"}
        asked = rule[chip.counted_per_chip] if chip.hbm_rate else "no number"
        raise ValueError(
            f"--accelerator={kind} takes {asked}, at most {_LARGEST_SLICE} chips; "
            f"received {name!r}"
        )
    return Accelerator(name, chip, num_chips)
