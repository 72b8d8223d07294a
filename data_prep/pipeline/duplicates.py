"""The search for documents that repeat an earlier one, over the blocks of a run."""

from collections.abc import Callable, Sequence

import numpy as np

from albert_tf.core import config as config_lib
from albert_tf.core import machine
from data_prep.text import deduplication

# Why a document that cleaning kept has no records, by its mark.
EXACT_DUPLICATE, NEAR_DUPLICATE = 1, 2
REASONS = {
    EXACT_DUPLICATE: "exact_duplicate",
    NEAR_DUPLICATE: "near_duplicate",
}
# Memory of the search, which takes as many passes as that requires: a part of what is
# free, as the number of passes grows with the documents, and their length too; but at
# least this.
_LEAST_SEARCH_BYTES = 512 << 20
_SEARCH_PART = 4


def is_wanted(text: config_lib.TextConfig) -> bool:
    """Returns whether any duplicates are dropped."""
    return text.drop_exact_duplicates or text.near_duplicate_threshold > 0


def find(
    text: config_lib.TextConfig,
    sizes: Sequence[int],
    load_fingerprints: Callable[[int], np.ndarray],
    load_signatures: Callable[[int], np.ndarray],
) -> list[np.ndarray]:
    """Finds which documents repeat an earlier one.

    Args:
      text: defines which kinds of duplicates to look for.
      sizes: the number of documents of each block, in the order of the input.
      load_fingerprints: returns those of a block, see `deduplication.find_exact`.
      load_signatures: returns those of a block, see `deduplication.find_near`.

    Returns:
      For each block, uint8 [D], a key of `REASONS` for duplicates, else 0.
    """
    most_bytes = max(_LEAST_SEARCH_BYTES, machine.available_bytes() // _SEARCH_PART)
    marks = [np.zeros(size, np.uint8) for size in sizes]
    exact = [np.zeros(size, np.bool_) for size in sizes]
    if text.drop_exact_duplicates:
        exact = deduplication.find_exact(load_fingerprints, sizes, most_bytes)
        for mark, is_exact in zip(marks, exact, strict=True):
            mark[is_exact] = EXACT_DUPLICATE
    if text.near_duplicate_threshold:
        near = deduplication.find_near(
            load_signatures,
            sizes,
            text.near_duplicate_threshold,
            most_bytes,
            exact,
        )
        for mark, is_near in zip(marks, near, strict=True):
            mark[is_near] = NEAR_DUPLICATE
    return marks
