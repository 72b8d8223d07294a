"""Finds documents that repeat an earlier one, exactly or nearly.

Each document is known by a small fingerprint, made where the document is read. What
follows needs the fingerprints of all documents, but never at once: they come block by
block through a function `load`, again and again, and of each only a part is looked at,
so memory does not grow with the corpus, except for one byte a document of results.

Near duplicates are found by MinHash and locality-sensitive hashing (Leskovec, Rajaraman
and Ullman, Mining of Massive Datasets, chapter 3), with datasketch's permutations and
its choice of bands.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import xxhash

from albert_tf import compiled
from data_prep import contamination

SHINGLE_WORDS = 5
NUM_PERM = 128
# Besides the first of its bucket, a document is compared with this many before it.
NUM_COMPARED_BEFORE = 7

# What a document takes in a partition while that is sorted: parts, whole, order, copy.
_BYTES_PER_KEY = 96
# A similar pair that meets in no band is lost, while a dissimilar one that does meet
# costs a comparison only: so missing counts for more (false positives, negatives).
_BAND_WEIGHTS = (0.3, 0.7)
# Above it, datasketch finds no bands; what is more similar meets in these all the more.
_MAX_BAND_THRESHOLD = 0.95
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)  # odd, with bits that look random


def exact_fingerprint(lines: Sequence[str]) -> tuple[int, int]:
    """The fingerprint by which equal documents are known.

    Documents are equal if they have the same words, with case and punctuation, however
    they are broken into lines and whatever whitespace is between words.

    Returns:
      The high and the low half of 128 bits (XXH3), each to be held as a uint64.
    """
    # Of whitespace, only the space is printable. To split takes ten times as long.
    text = " ".join(
        [line if line.isprintable() else " ".join(line.split()) for line in lines]
    ).strip(" ")
    if "  " in text:
        text = " ".join(text.split())
    value = xxhash.xxh3_128_intdigest(text.encode("utf-8", "surrogatepass"))
    return value >> 64, value & 0xFFFFFFFFFFFFFFFF


class Signatures:
    """Makes MinHash signatures, of which similar documents share entries.

    The share of equal entries of two signatures estimates the Jaccard similarity of the
    documents' sets of 5-word shingles, with a standard error of at most
    0.5 / sqrt(num_perm). Words are those of `contamination.word_hashes`. A document of
    fewer words is one shingle, and so is, as it stands, one that has no words.

    Args:
      num_perm: the number of permutations, which is that of entries.
      seed: picks the permutations; signatures of different seeds do not compare.
    """

    def __init__(self, num_perm: int = NUM_PERM, seed: int = 1):
        library = _datasketch().MinHash(num_perm, seed=seed, scheme="affine32")
        self._multipliers, self._offsets = library.permutations

    def of(self, lines: Sequence[str]) -> np.ndarray:
        """The signature of a document: uint32 [num_perm].

        It is that of datasketch's MinHash over the shingles' hashes, whose own loop is
        some ten times as slow.
        """
        return _minimums(shingle_hashes(lines), self._multipliers, self._offsets)


def shingle_hashes(lines: Sequence[str]) -> np.ndarray:
    """The hashes of a document's shingles: uint32 [max(1, W - 4)] of W words."""
    words = contamination.word_hashes(lines)
    if len(words):
        size = min(SHINGLE_WORDS, len(words))
        hashes = contamination.ngram_hashes(words, size)
    else:
        hashes = np.array([exact_fingerprint(lines)[0]], np.uint64)
    return (hashes >> np.uint64(32)).astype(np.uint32)  # as wide as datasketch expects


@compiled.kernel
def _minimums(hashes, multipliers, offsets):
    """Uint32 [num_perm]: for each permutation, the least of the permuted hashes."""
    result = np.full(len(multipliers), 0xFFFFFFFF, np.uint32)
    for value in hashes:
        # The last step of MurmurHash3, as datasketch does before permuting.
        value = np.uint32((value ^ (value >> 16)) * 0x85EBCA6B)
        value = np.uint32((value ^ (value >> 13)) * 0xC2B2AE35)
        value = np.uint32(value ^ (value >> 16))
        for k in range(len(multipliers)):
            permuted = np.uint32(multipliers[k] * value + offsets[k])
            result[k] = min(result[k], permuted)
    return result


def find_exact(
    load: Callable[[int], np.ndarray],
    num_documents_by_block: Sequence[int],
    memory_bytes: int = 256 << 20,
) -> list[np.ndarray]:
    """Finds the documents that have the fingerprint of an earlier one.

    Earlier is in order of block and place in it, so the first of equal ones stays.

    Args:
      load: gives a block's fingerprints, uint64 [n, 2]. It is called once a block for
        each partition of the fingerprints, which are as many as memory requires.
      num_documents_by_block: each block's n. Blocks of none are not loaded.
      memory_bytes: the memory to use besides one block's and one byte a document. It
        has no influence on what is found.

    Returns:
      For each block, bool [n]: whether to drop the document.

    Raises:
      ValueError: `memory_bytes` is below 1.
    """
    starts = _starts(num_documents_by_block)
    drop = np.zeros(starts[-1], np.bool_)
    num_partitions = _num_partitions(starts[-1], memory_bytes)
    if not starts[-1]:
        return [np.zeros(0, np.bool_) for _ in num_documents_by_block]
    for partition in range(num_partitions):
        kept_keys, kept_documents = [], []
        for block, start in _filled(starts):
            keys = load(block)
            places = _places(keys[:, 0], partition, num_partitions)
            keys = keys[places]
            # Repeats within the block go at once: thus one text that makes up a large
            # part of the corpus does not fill its partition.
            repeats = _repeats(keys)
            drop[start + places[repeats]] = True
            kept_keys.append(keys[~repeats])
            kept_documents.append(start + places[~repeats])
        repeats = _repeats(np.concatenate(kept_keys))
        drop[np.concatenate(kept_documents)[repeats]] = True
    return np.split(drop, starts[1:-1])


def find_near(
    load: Callable[[int], np.ndarray],
    num_documents_by_block: Sequence[int],
    threshold: float,
    memory_bytes: int = 1 << 30,
    exclude: Sequence[np.ndarray] | None = None,
) -> list[np.ndarray]:
    """Finds the documents that are similar to an earlier one.

    Each of the bands of `bands(threshold)` puts the documents into buckets: together
    are those whose signatures agree in the whole band. In each of its buckets a
    document is compared, by its whole signature, with the bucket's first document and
    with the 7 just before it, in order of block and place. It is dropped if the share
    of equal entries with any of them is at least `threshold`, whether that one is
    itself dropped or not.

    Args:
      load: gives a block's signatures, uint32 [n, num_perm], which may be
        memory-mapped; in Fortran order, where a band lies in one piece, that reads
        least. It is called once a block for each band and each partition of the
        buckets, which are as many as memory requires, and where there are pairs to
        compare.
      num_documents_by_block: each block's n. Blocks of none are not loaded.
      threshold: the least estimated similarity to drop for, above 0 and at most 1.
      memory_bytes: the memory to use besides one block's and one byte a document. It
        has no influence on what is found. A bucket is sorted whole, so one that holds a
        large part of the corpus may take more, 96 bytes a document.
      exclude: for each block, bool [n]: documents that are in no bucket, because they
        are dropped already; they are not marked again.

    Returns:
      For each block, bool [n]: whether to drop the document.

    Raises:
      ValueError: `memory_bytes` is below 1, or `threshold` out of its range.
    """
    starts = _starts(num_documents_by_block)
    drop = np.zeros(starts[-1], np.bool_)
    # Half for a partition and half for the signatures of pairs.
    num_partitions = _num_partitions(starts[-1], math.ceil(memory_bytes / 2))
    if not starts[-1]:
        return [np.zeros(0, np.bool_) for _ in num_documents_by_block]
    num_perm = load(_filled(starts)[0][0]).shape[1]
    num_bands, num_rows = bands(threshold, num_perm)
    # For each pair, up to seven copies of a signature at once.
    num_pairs = max(1, memory_bytes // (2 * 7 * 4 * num_perm))
    for band in range(num_bands):
        columns = slice(band * num_rows, (band + 1) * num_rows)
        for partition in range(num_partitions):
            keys, documents = [], []
            for block, start in _filled(starts):
                block_keys = _band_keys(load(block)[:, columns])
                places = _places(block_keys, partition, num_partitions)
                if exclude is not None:
                    places = places[~exclude[block][places]]
                keys.append(block_keys[places])
                documents.append(start + places)
            for pairs in _pairs(np.concatenate(keys), np.concatenate(documents)):
                # What is dropped already need not be compared again.
                later, earlier = pairs[:, ~drop[pairs[0]]]
                for i in range(0, len(later), num_pairs):
                    some = slice(i, i + num_pairs)
                    similarity = _similarity(load, starts, later[some], earlier[some])
                    drop[later[some][similarity >= threshold]] = True
    return np.split(drop, starts[1:-1])


def bands(threshold: float, num_perm: int = NUM_PERM) -> tuple[int, int]:
    """The number of bands and the rows in each, such that similar documents meet.

    Two documents of similarity s have a bucket in common with probability
    1 - (1 - s ** rows) ** bands.

    Raises:
      ValueError: `threshold` is not above 0 and at most 1.
    """
    if not 0.0 < threshold <= 1.0:
        raise ValueError(
            f"threshold must be above 0 and at most 1; received {threshold}"
        )
    lsh = _datasketch().MinHashLSH(
        min(threshold, _MAX_BAND_THRESHOLD), num_perm, weights=_BAND_WEIGHTS
    )
    return lsh.b, lsh.r


def _datasketch() -> Any:
    import datasketch  # brings SciPy with it: only where near duplicates are sought

    return datasketch


def _starts(num_documents_by_block: Sequence[int]) -> np.ndarray:
    """Int64 [blocks + 1]: each block's first document, and the number of all."""
    return np.cumsum([0, *num_documents_by_block], dtype=np.int64)


def _filled(starts: np.ndarray) -> list[tuple[int, int]]:
    """Each block that has documents, and its first one."""
    return [(int(i), int(starts[i])) for i in np.flatnonzero(np.diff(starts))]


def _num_partitions(num_documents: int, memory_bytes: int) -> int:
    if memory_bytes < 1:
        raise ValueError(f"memory_bytes must be at least 1; received {memory_bytes}")
    return max(1, math.ceil(num_documents * _BYTES_PER_KEY / memory_bytes))


def _places(keys: np.ndarray, partition: int, num_partitions: int) -> np.ndarray:
    """The places of the keys, uint64 [n], that lie in a partition."""
    high = keys >> np.uint64(32)
    partitions = (high * np.uint64(num_partitions)) >> np.uint64(32)
    return np.flatnonzero(partitions == partition)


def _repeats(keys: np.ndarray) -> np.ndarray:
    """Bool [n]: which rows of uint64 [n, 2] are the same as one before them."""
    order = np.lexsort((keys[:, 1], keys[:, 0]))  # stable
    ordered = keys[order]
    repeats = np.zeros(len(keys), np.bool_)
    repeats[order[1:]] = np.all(ordered[1:] == ordered[:-1], axis=1)
    return repeats


def _band_keys(band: np.ndarray) -> np.ndarray:
    """Uint64 [n] for uint32 [n, rows]: equal where the rows of the band are equal."""
    keys = np.zeros(len(band), np.uint64)
    for column in band.T:
        keys = (keys ^ column) * _MULTIPLIER
        keys ^= keys >> np.uint64(32)
    return keys * _MULTIPLIER


def _pairs(keys: np.ndarray, documents: np.ndarray) -> Iterator[np.ndarray]:
    """Pairs to compare, int64 [2, pairs]: the later documents and the earlier ones.

    Args:
      keys: uint64 [n], equal for documents of one bucket.
      documents: int64 [n], rising.
    """
    order = np.argsort(keys, kind="stable")
    keys, documents = keys[order], documents[order]
    repeats = np.concatenate([[False], keys[1:] == keys[:-1]])
    not_alone = repeats.copy()
    not_alone[:-1] |= repeats[1:]
    repeats, documents = repeats[not_alone], documents[not_alone]
    places = np.arange(len(documents))
    first = np.maximum.accumulate(np.where(repeats, 0, places))
    # The first of the bucket comes first: where it decides, there is no more to do.
    yield np.stack([documents[repeats], documents[first[repeats]]])
    for distance in range(1, NUM_COMPARED_BEFORE + 1):
        later = places[places - first > distance]
        yield np.stack([documents[later], documents[later - distance]])


def _similarity(
    load: Callable[[int], np.ndarray],
    starts: np.ndarray,
    later: np.ndarray,
    earlier: np.ndarray,
) -> np.ndarray:
    """Float64 [pairs]: the share of equal entries in the signatures of each pair."""
    documents = np.unique(np.concatenate([later, earlier]))
    parts = []
    bounds = np.searchsorted(documents, starts)
    for block in np.flatnonzero(np.diff(bounds)):
        here = documents[bounds[block] : bounds[block + 1]]
        parts.append(load(int(block))[here - starts[block]])
    signatures = np.concatenate(parts)
    one = signatures[np.searchsorted(documents, later)]
    other = signatures[np.searchsorted(documents, earlier)]
    return np.count_nonzero(one == other, axis=1) / signatures.shape[1]
