"""Traffic of a compiled program with the device's memory, from its text."""

import math
import re

# Bits of an element whose type's name does not begin with letters and their number.
_BITS = {"pred": 8, "bf16": 16, "token": 0}
# Of a type, such as bf16[8,128]{1,0:T(8,128)(2,1)S(1)}; S(1) is memory on the chip.
_ARRAY = re.compile(r"(\w+)\[([\d,]*)\](?:\{([^}]*)\})?")
_INSTRUCTION = re.compile(r"^\s+(?:ROOT )?(%[\w.-]+) = (.*?) ([a-z][\w-]*)\((.*)$")
# Asynchronous copies between HBM and the chip by the place of the array that moves
# among the arrays of their type.
_COPIES = {"copy-start": 0, "slice-start": 1}
# These move nothing; an asynchronous copy is counted where it starts.
_FREE = frozenset(
    ("parameter", "constant", "tuple", "get-tuple-element", "bitcast", "after-all")
    + ("copy-done", "slice-done", "async-done", "all-reduce-done", "partition-id")
)


def hbm_bytes(hlo: str) -> int:
    """Returns the bytes that the instructions of a compiled program move in HBM.

    Operands and results of each instruction of the entry computation, without those in
    memory on the chip. A fused instruction counts as one. Bodies of loops are not
    among them.

    Args:
      hlo: text of an optimized HLO module.
    """
    _, _, entry = hlo.partition("\nENTRY ")
    sizes: dict[str, int] = {}
    total = 0
    for line in entry.splitlines():
        match = _INSTRUCTION.match(line)
        if match is None:
            continue
        name, type_, opcode, rest = match.groups()
        sizes[name] = _size(type_)
        if opcode in _FREE:
            continue
        if opcode in _COPIES:
            array = _ARRAY.findall(type_)[_COPIES[opcode]]
            total += _bits(*array[:2]) // 8
            continue
        operands = re.findall(r"%[\w.-]+", rest.partition(")")[0])
        total += sizes[name] + sum(sizes.get(operand, 0) for operand in operands)
    return total


def _size(type_: str) -> int:
    """Returns the bytes of a type's arrays that are not in memory on the chip."""
    arrays = _ARRAY.findall(type_)
    bits = (_bits(*array[:2]) for array in arrays if "S(" not in array[2])
    return sum(bits) // 8


def _bits(dtype: str, shape: str) -> int:
    of_element = _BITS.get(dtype)
    if of_element is None:
        of_element = int(re.sub(r"^\D+|\D.*", "", dtype) or 0)
    return of_element * math.prod(int(size) for size in shape.split(",") if size)
