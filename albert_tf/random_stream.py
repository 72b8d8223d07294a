"""Streams of random numbers that follow from a key, for compiled loops.

A stream is xoshiro256++ (Blackman and Vigna, "Scrambled linear pseudorandom number
generators", 2021), its state made from the key by the finalizer of SplitMix64. Opening
one costs nanoseconds, so that every copy of every document can have its own.
"""

import numpy as np

from albert_tf import compiled

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)


@compiled.kernel
def mix(value):
    """A uint64 whose every bit depends on every bit of a uint64."""
    value = (value ^ (value >> np.uint64(30))) * _MIX_1
    value = (value ^ (value >> np.uint64(27))) * _MIX_2
    return value ^ (value >> np.uint64(31))


@compiled.kernel
def open_stream(key):
    """The stream of a key.

    Args:
      key: uint64 [K]; keys of equal length that differ anywhere open other streams.

    Returns:
      uint64 [4], the state, which the functions below change.
    """
    state = np.empty(4, np.uint64)
    for word in range(4):
        value = mix(_GOLDEN * np.uint64(word + 1))
        for part in key:
            value = mix((value + _GOLDEN) ^ mix(part + _GOLDEN))
        state[word] = value
    return state


@compiled.kernel
def next_word(state):
    """The next uint64 of a stream."""
    total = state[0] + state[3]
    result = ((total << np.uint64(23)) | (total >> np.uint64(41))) + state[0]
    shifted = state[1] << np.uint64(17)
    state[2] ^= state[0]
    state[3] ^= state[1]
    state[1] ^= state[2]
    state[0] ^= state[3]
    state[2] ^= shifted
    state[3] = (state[3] << np.uint64(45)) | (state[3] >> np.uint64(19))
    return result


@compiled.kernel
def uniform(state):
    """The next float64 in [0, 1), a multiple of 2**-53."""
    return (next_word(state) >> np.uint64(11)) * (1.0 / (1 << 53))


@compiled.kernel
def below(state, count):
    """The next integer in [0, count); uniform to count * 2**-53."""
    return np.int64(uniform(state) * count)
