"""Double-array tries: builds that of the pieces, and scans SentencePiece's."""

import numpy as np

from albert_tf.core import numba_cache

_BLOCK = 256  # units; base ^ byte is in the block of the base
_FREE = -1


@numba_cache.kernel
def _find_base(units, is_base, labels, start):
    """Finds the first base, from `start`, whose slots for all labels are free."""
    slot = start
    while True:
        base = slot ^ labels[0]
        if units[slot] == _FREE and not is_base[base]:
            is_free = True
            for label in labels:
                is_free &= units[base ^ label] == _FREE
            if is_free:
                return base
        slot += 1


@numba_cache.kernel
def build(data, starts, ids):
    """Builds a trie of strings, which `viterbi.segment` reads.

    Each node has a base. The unit at base ^ byte is the child for this byte if its low
    8 bits equal the byte; the next 28 bits are then the child's base, and the bits
    above are 1 + the id of the string that ends there, or 0. Unit 0 holds the base of
    the root. It and free units have the low byte 0xFF, which does not occur in UTF-8.

    Args:
      data: uint8 [num_bytes], the strings' UTF-8, sorted and concatenated.
      starts: int64 [num_strings + 1], the start of each string in `data`.
      ids: int64 [num_strings], their ids.

    Returns:
      int64 [num_units].
    """
    units = np.full(1 << 14, _FREE, np.int64)
    is_base = np.zeros(units.size, np.bool_)
    num_slots = 2 * _BLOCK  # the first block stays empty: it is the base of leaves
    # The strings from begin to end share their first `depth` bytes, whose unit is at
    # `slot`; the root has no such unit.
    stack = [(0, ids.size, 0, 0)]
    root = 0
    while stack:
        begin, end, depth, slot = stack.pop()
        string_id = -1
        if starts[begin] + depth == starts[begin + 1]:
            string_id = ids[begin]
            begin += 1
        base = 0
        if begin < end:
            labels, firsts = [], []  # type: ignore[var-annotated]
            for string in range(begin, end):
                label = np.int64(data[starts[string] + depth])
                if not labels or label != labels[-1]:
                    labels.append(label)
                    firsts.append(string)
            firsts.append(end)
            if num_slots + 2 * _BLOCK > units.size:
                units = np.append(units, np.full_like(units, _FREE))
                is_base = np.append(is_base, np.zeros_like(is_base))
            # Not from the first slot: few of the early ones are free.
            base = _find_base(
                units, is_base, labels, max(_BLOCK, num_slots - 16 * _BLOCK)
            )
            is_base[base] = True
            num_slots = max(num_slots, (base | (_BLOCK - 1)) + 1)
            for child in range(len(labels)):
                units[base ^ labels[child]] = labels[child]
                stack.append(
                    (
                        firsts[child],
                        firsts[child + 1],
                        depth + 1,
                        base ^ labels[child],
                    )
                )
        if depth:
            units[slot] |= base << 8 | (string_id + 1) << 36
        else:
            root = base
    units[0] = root << 8 | 0xFF
    return units[:num_slots].copy()


@numba_cache.kernel
def scan(units):
    """Scans the strings of a double array of the library Darts-clone.

    Args:
      units: uint32 [num_units], the strings that SentencePiece's normalizer replaces.

    Returns:
      (first_bytes, has_space): bool [256], the first bytes of the strings that are all
      ASCII; and whether a string contains a space.
    """
    first_bytes = np.zeros(256, np.bool_)
    has_space = False
    is_seen = np.zeros(units.size, np.bool_)
    # Node, and of the string that leads to it: first byte, is ASCII, has a space.
    stack = [(np.int64(0), np.int64(0), True, False)]
    while stack:
        node, first, is_ascii, spaced = stack.pop()
        unit = np.int64(units[node])
        base = node ^ ((unit >> 10) << ((unit & 512) >> 6))
        if (unit >> 8) & 1:
            first_bytes[first] |= is_ascii
            has_space |= spaced
        for byte in range(1, 256):
            child = base ^ byte
            if child >= units.size or is_seen[child]:
                continue
            if np.int64(units[child]) & 0x800000FF == byte:
                is_seen[child] = True
                stack.append(
                    (
                        child,
                        first if node else np.int64(byte),
                        is_ascii and byte < 128,
                        spaced or byte == 32,
                    )
                )
    return first_bytes, has_space
