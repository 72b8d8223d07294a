"""Random number generator that is seeded by a key, for compiled loops.

The generator is xoshiro256++ (Blackman and Vigna, "Scrambled linear pseudorandom number
generators", 2021); the finalizer of SplitMix64 makes its state from the key. Seeding
takes nanoseconds, so that every copy of every document can have its own state.
"""

import numpy as np

from albert_tf.core import numba_cache

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)


@numba_cache.kernel
def splitmix64(value):
    """Hashes a uint64: every bit of the result depends on every bit of `value`."""
    value = (value ^ (value >> np.uint64(30))) * _MIX_1
    value = (value ^ (value >> np.uint64(27))) * _MIX_2
    return value ^ (value >> np.uint64(31))


@numba_cache.kernel
def seed_state(key):
    """Makes the state of a generator from a key.

    Args:
      key: uint64 [K]; different keys of equal length give different states.

    Returns:
      uint64 [4], the state, which the functions below change in place.
    """
    state = np.empty(4, np.uint64)
    for word in range(4):
        value = splitmix64(_GOLDEN * np.uint64(word + 1))
        for part in key:
            value = splitmix64((value + _GOLDEN) ^ splitmix64(part + _GOLDEN))
        state[word] = value
    return state


@numba_cache.kernel
def next_word(state):
    """Draws a uint64."""
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


@numba_cache.kernel
def uniform(state):
    """Draws a float64 in [0, 1), a multiple of 2**-53."""
    return (next_word(state) >> np.uint64(11)) * (1.0 / (1 << 53))


@numba_cache.kernel
def randint(state, count):
    """Draws an int64 in [0, count), uniform to count * 2**-53."""
    return np.int64(uniform(state) * count)
