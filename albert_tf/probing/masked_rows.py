"""Rows of tokens with masks, from which a sentence's pseudo-log-likelihood is summed.

A sentence of n tokens has n rows [CLS] tokens [SEP]; in each, one token is masked and
scored. Rows that are equal, of one sentence or of several, are computed once: in a
minimal pair that differs in one token, the row where that token is masked is the same.

Shapes: R rows of S tokens, M scored tokens, of N sentences.

`settings` has the sources.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from albert_tf.probing import settings
from albert_tf.tokenization import tokenizer as tokenizer_lib

# Rows are made for so many bytes of them at a time; equal ones are found among these.
_PORTION_BYTES = 64 << 20


class MaskedRows(NamedTuple):
    """Rows of one length, each different, and the tokens that are scored in them.

    Attributes:
      input_ids: int32 [R, S].
      positions: int32 [R], of the scored tokens; masked.
      target_rows: int32 [M], the row of each scored token, ascending.
      target_ids: int32 [M], the scored token.
      sentences: int32 [M], the index of its sentence.
    """

    input_ids: np.ndarray
    positions: np.ndarray
    target_rows: np.ndarray
    target_ids: np.ndarray
    sentences: np.ndarray


def num_tokens(sentences: Sequence[Sequence[int]]) -> int:
    """Counts the tokens of all rows of sentences, of equal ones too."""
    return sum(len(ids) * (len(ids) + 2) for ids in sentences)


def make(
    sentences: Sequence[Sequence[int]],
    tokenizer: tokenizer_lib.Tokenizer,
    metric: str,
) -> Iterator[MaskedRows]:
    """Yields the rows of all sentences by ascending length, a portion at a time.

    Args:
      sentences: N lists of token ids, without [CLS] and [SEP], none empty.
      tokenizer: the one that made them.
      metric: one of `settings.METRICS`.
    """
    lengths = np.array([len(ids) for ids in sentences])
    for length in np.unique(lengths).tolist():
        of_length = np.flatnonzero(lengths == length)
        size = max(1, _PORTION_BYTES // (4 * length * (length + 2)))
        for first in range(0, len(of_length), size):
            indices = of_length[first : first + size]
            ids = np.array(
                [sentences[index] for index in indices.tolist()], np.int32
            )  # [n, L]
            yield _of_length(ids, indices, tokenizer, metric)


def _of_length(
    ids: np.ndarray,
    indices: np.ndarray,
    tokenizer: tokenizer_lib.Tokenizer,
    metric: str,
) -> MaskedRows:
    """Makes the rows of sentences int32 [n, L] that have one length."""
    num_sentences, length = ids.shape
    framed = np.full([num_sentences, length + 2], tokenizer.cls_id, np.int32)
    framed[:, 1:-1], framed[:, -1] = ids, tokenizer.sep_id
    is_masked = np.zeros([num_sentences, length, length + 2], bool)
    is_masked[:, :, 1:-1] = np.eye(length, dtype=bool)
    if metric == settings.WITHIN_WORD:
        is_masked[:, :, 1:-1] |= _later_in_word(tokenizer.is_word_start[ids])
    rows = np.where(is_masked, tokenizer.mask_id, framed[:, None])  # [n, L, L + 2]
    rows = rows.reshape(-1, length + 2).astype(np.int32)
    # Equal rows as equal bytes: sorting these is far faster than sorting rows.
    keys = np.ascontiguousarray(rows).view(f"V{rows.dtype.itemsize * rows.shape[1]}")
    _, first, inverse = np.unique(keys[:, 0], return_index=True, return_inverse=True)
    order = np.argsort(inverse, kind="stable")
    positions = np.tile(np.arange(1, length + 1, dtype=np.int32), num_sentences)
    return MaskedRows(
        rows[first],
        positions[first],
        inverse[order].astype(np.int32),
        ids.reshape(-1)[order],
        np.repeat(indices, length)[order].astype(np.int32),
    )


def _later_in_word(is_start: np.ndarray) -> np.ndarray:
    """Returns which tokens are later in a word: bool [n, L, L] of bool [n, L]."""
    words = np.cumsum(is_start, axis=1)  # [n, L], the number of each token's word
    same = words[:, :, None] == words[:, None, :]
    length = is_start.shape[1]
    return same & np.triu(np.ones([length, length], bool), 1)
