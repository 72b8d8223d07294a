"""Finds documents that are exact or near duplicates of an earlier one.

Each document has a small fingerprint, computed when it is read. The search needs the
fingerprints of all documents, but not at once: a function `load` gives those of a
block, is called repeatedly, and a part of the fingerprints is searched at a time.
Memory does not grow with the corpus, except for one byte per document of results.

Near duplicates are found by MinHash and locality-sensitive hashing (Leskovec, Rajaraman
and Ullman, Mining of Massive Datasets, chapter 3), with datasketch's permutations and
its choice of bands.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import xxhash

from albert_tf.core import numba_cache
from data_prep.text import ngram_hashing

SHINGLE_WORDS = 5
NUM_PERM = 128
# A document is compared with the first one of its bucket and with this many before it.
NUM_COMPARED_BEFORE = 7

# Memory of a document in a partition that is sorted: parts, whole, order, copy.
_BYTES_PER_KEY = 96
# Weights of false positives and false negatives. A similar pair without a common bucket
# is missed, while a dissimilar pair in one bucket only costs a comparison.
_BAND_WEIGHTS = (0.3, 0.7)
# Above it, datasketch finds no bands; its bands serve for higher similarities as well.
_MAX_BAND_THRESHOLD = 0.95
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)  # odd, with well-mixed bits


def exact_fingerprint(lines: Sequence[str]) -> tuple[int, int]:
    """Computes the fingerprint that equal documents share.

    Documents are equal if they have the same words, including case and punctuation,
    whatever the line breaks and the whitespace between words.

    Returns:
      The high and the low half of 128 bits (XXH3), each of which fits a uint64.
    """
    # The space is the only printable whitespace. Splitting takes ten times as long.
    text = " ".join(
        [line if line.isprintable() else " ".join(line.split()) for line in lines]
    ).strip(" ")
    if "  " in text:
        text = " ".join(text.split())
    value = xxhash.xxh3_128_intdigest(text.encode("utf-8", "surrogatepass"))
    return value >> 64, value & 0xFFFFFFFFFFFFFFFF


class Signatures:
    """Computes MinHash signatures.

    The fraction of equal entries of two signatures estimates the Jaccard similarity of
    the documents' sets of 5-word shingles, with a standard error of at most
    0.5 / sqrt(num_perm). Words are those of `ngram_hashing.word_hashes`. A document of
    fewer than five words is one shingle; one without words is one shingle, its text.

    Args:
      num_perm: number of permutations, which is the number of entries.
      seed: seed of the permutations; signatures of different seeds are not comparable.
    """

    def __init__(self, num_perm: int = NUM_PERM, seed: int = 1):
        library = _datasketch().MinHash(num_perm, seed=seed, scheme="affine32")
        self._multipliers, self._offsets = library.permutations

    def of(self, lines: Sequence[str]) -> np.ndarray:
        """Computes the signature of a document: uint32 [num_perm].

        Equal to datasketch's MinHash over the shingles' hashes, and some ten times as
        fast.
        """
        return _minimums(shingle_hashes(lines), self._multipliers, self._offsets)


def shingle_hashes(lines: Sequence[str]) -> np.ndarray:
    """Hashes a document's shingles: uint32 [max(1, W - 4)] of W words."""
    words = ngram_hashing.word_hashes(lines)
    if len(words):
        size = min(SHINGLE_WORDS, len(words))
        hashes = ngram_hashing.ngram_hashes(words, size)
    else:
        hashes = np.array([exact_fingerprint(lines)[0]], np.uint64)
    return (hashes >> np.uint64(32)).astype(np.uint32)  # as datasketch has them


@numba_cache.kernel
def _minimums(hashes, multipliers, offsets):
    """Returns the least permuted hash of each permutation: uint32 [num_perm]."""
    result = np.full(len(multipliers), 0xFFFFFFFF, np.uint32)
    for value in hashes:
        # The final mix of MurmurHash3, which datasketch applies before permuting.
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

    The order is that of blocks and of documents in them; the first of equal documents
    is kept.

    Args:
      load: returns the fingerprints of a block, uint64 [n, 2]. It is called once per
        block for each partition of the fingerprints; `memory_bytes` gives the number of
        partitions.
      num_documents_by_block: n of each block. Blocks of 0 are not loaded.
      memory_bytes: memory to use in addition to one block and one byte per document.
        It does not change the result.

    Returns:
      For each block, bool [n]: True for documents to drop.

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
            rows = _rows_in_partition(keys[:, 0], partition, num_partitions)
            keys = keys[rows]
            # Repeats within the block are dropped at once, so that one text that is a
            # large part of the corpus does not fill its partition.
            repeats = _repeats(keys)
            drop[start + rows[repeats]] = True
            kept_keys.append(keys[~repeats])
            kept_documents.append(start + rows[~repeats])
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

    Each band of `bands(threshold)` groups the documents into buckets, in which the
    signatures agree in the whole band. In each of its buckets a document is compared,
    by its whole signature, with the bucket's first document and with the 7 just before
    it, in order of block and row. It is dropped if the fraction of equal entries with
    any of them is at least `threshold`, even if that one is itself dropped.

    Args:
      load: returns the signatures of a block, uint32 [n, num_perm], which may be
        memory-mapped; Fortran order, in which a band is contiguous, reads least. It is
        called once per block for each band and each partition of the buckets, and for
        pairs to compare; `memory_bytes` gives the number of partitions.
      num_documents_by_block: n of each block. Blocks of 0 are not loaded.
      threshold: least estimated similarity of a duplicate, above 0 and at most 1.
      memory_bytes: memory to use in addition to one block and one byte per document.
        It does not change the result. A bucket is sorted whole, so one that holds a
        large part of the corpus may take more, 96 bytes per document.
      exclude: for each block, bool [n]: documents that are already dropped, which are
        in no bucket and are not marked again.

    Returns:
      For each block, bool [n]: True for documents to drop.

    Raises:
      ValueError: `memory_bytes` is below 1, or `threshold` out of range.
    """
    starts = _starts(num_documents_by_block)
    drop = np.zeros(starts[-1], np.bool_)
    # Half for a partition and half for the signatures of pairs.
    num_partitions = _num_partitions(starts[-1], math.ceil(memory_bytes / 2))
    if not starts[-1]:
        return [np.zeros(0, np.bool_) for _ in num_documents_by_block]
    num_perm = load(_filled(starts)[0][0]).shape[1]
    num_bands, num_rows = bands(threshold, num_perm)
    # Up to seven copies of a signature per pair are in memory at once.
    num_pairs = max(1, memory_bytes // (2 * 7 * 4 * num_perm))
    for band in range(num_bands):
        columns = slice(band * num_rows, (band + 1) * num_rows)
        for partition in range(num_partitions):
            keys, documents = [], []
            for block, start in _filled(starts):
                block_keys = _band_keys(load(block)[:, columns])
                rows = _rows_in_partition(block_keys, partition, num_partitions)
                if exclude is not None:
                    rows = rows[~exclude[block][rows]]
                keys.append(block_keys[rows])
                documents.append(start + rows)
            for pairs in _pairs(np.concatenate(keys), np.concatenate(documents)):
                # Documents that are already dropped are not compared again.
                later, earlier = pairs[:, ~drop[pairs[0]]]
                for i in range(0, len(later), num_pairs):
                    some = slice(i, i + num_pairs)
                    similarity = _similarity(load, starts, later[some], earlier[some])
                    drop[later[some][similarity >= threshold]] = True
    return np.split(drop, starts[1:-1])


def bands(threshold: float, num_perm: int = NUM_PERM) -> tuple[int, int]:
    """Chooses (bands, rows): the number of bands, and of signature entries in each.

    Two documents of similarity s have a common bucket with probability
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
    import datasketch  # imports SciPy; needed for near duplicates only

    return datasketch


def _starts(num_documents_by_block: Sequence[int]) -> np.ndarray:
    """Returns int64 [blocks + 1]: the first document of each block, and the total."""
    return np.cumsum([0, *num_documents_by_block], dtype=np.int64)


def _filled(starts: np.ndarray) -> list[tuple[int, int]]:
    """Returns each block that has documents, and its first document."""
    return [(int(i), int(starts[i])) for i in np.flatnonzero(np.diff(starts))]


def _num_partitions(num_documents: int, memory_bytes: int) -> int:
    if memory_bytes < 1:
        raise ValueError(f"memory_bytes must be at least 1; received {memory_bytes}")
    return max(1, math.ceil(num_documents * _BYTES_PER_KEY / memory_bytes))


def _rows_in_partition(
    keys: np.ndarray, partition: int, num_partitions: int
) -> np.ndarray:
    """Returns the indices of the keys, uint64 [n], that are in a partition."""
    high = keys >> np.uint64(32)
    partitions = (high * np.uint64(num_partitions)) >> np.uint64(32)
    return np.flatnonzero(partitions == partition)


def _repeats(keys: np.ndarray) -> np.ndarray:
    """Returns bool [n]: the rows of uint64 [n, 2] that equal an earlier row."""
    order = np.lexsort((keys[:, 1], keys[:, 0]))  # stable
    ordered = keys[order]
    repeats = np.zeros(len(keys), np.bool_)
    repeats[order[1:]] = np.all(ordered[1:] == ordered[:-1], axis=1)
    return repeats


def _band_keys(band: np.ndarray) -> np.ndarray:
    """Hashes the rows of a band: uint32 [n, rows] to uint64 [n]."""
    keys = np.zeros(len(band), np.uint64)
    for column in band.T:
        keys = (keys ^ column) * _MULTIPLIER
        keys ^= keys >> np.uint64(32)
    return keys * _MULTIPLIER


def _pairs(keys: np.ndarray, documents: np.ndarray) -> Iterator[np.ndarray]:
    """Yields pairs to compare, int64 [2, pairs]: later documents and earlier ones.

    Args:
      keys: uint64 [n], equal for documents of one bucket.
      documents: int64 [n], increasing.
    """
    order = np.argsort(keys, kind="stable")
    keys, documents = keys[order], documents[order]
    repeats = np.concatenate([[False], keys[1:] == keys[:-1]])
    not_alone = repeats.copy()
    not_alone[:-1] |= repeats[1:]
    repeats, documents = repeats[not_alone], documents[not_alone]
    indices = np.arange(len(documents))
    first = np.maximum.accumulate(np.where(repeats, 0, indices))
    # The bucket's first document comes first: it often decides without the others.
    yield np.stack([documents[repeats], documents[first[repeats]]])
    for distance in range(1, NUM_COMPARED_BEFORE + 1):
        later = indices[indices - first > distance]
        yield np.stack([documents[later], documents[later - distance]])


def _similarity(
    load: Callable[[int], np.ndarray],
    starts: np.ndarray,
    later: np.ndarray,
    earlier: np.ndarray,
) -> np.ndarray:
    """Returns float64 [pairs]: the fraction of equal signature entries of each pair."""
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
