"""Sentence-order prediction: documents to pairs of consecutive segments, half swapped.

Pure: token ids and a generator in, pairs out. Source: Lan et al., "ALBERT" (arXiv
1909.11942), section 3.1, and the packing of its authors' `create_pretraining_data`.
"""

import collections
import dataclasses
from collections.abc import Iterator, Sequence

import numpy as np

from albert_tf import schema

# [CLS], [SEP] behind segment A, [SEP] behind segment B.
NUM_SPECIAL_TOKENS = 3

SINGLE_WORD = "single_word"


@dataclasses.dataclass(frozen=True)
class Pair:
    """Two consecutive segments of one document.

    Attributes:
      segment_a: int32 [num_tokens_a], without special tokens.
      segment_b: int32 [num_tokens_b].
      label: `schema.SWAPPED` if segment B comes first in the document, else
        `schema.IN_ORDER`.
    """

    segment_a: np.ndarray
    segment_b: np.ndarray
    label: int


def pack_document(
    sentences: Sequence[np.ndarray],
    is_word_start: np.ndarray,
    max_seq_length: int,
    short_seq_rate: float,
    rng: np.random.Generator,
) -> tuple[list[Pair], collections.Counter]:
    """Packs a document into pairs of segments that stand side by side in it.

    Whole sentences are gathered into a chunk until the target length is reached, the
    next sentence would not fit, or the document ends. The target is what a record
    can hold, or, for a share `short_seq_rate` of the documents, a uniformly random
    length from 2 up to that. A chunk is cut into two segments at a uniformly random
    sentence boundary, and one of two pairs is swapped. A sentence that is longer than
    a record counts as several, cut at the last word boundaries that fit.

    Args:
      sentences: int32 [num_tokens] each, in the document's order.
      is_word_start: bool [V], whether a token begins a word.
      max_seq_length: S, the most tokens of a record, special tokens included.
      short_seq_rate: the share of documents with a shorter target.
      rng: the source of all that is random here.

    Returns:
      The pairs, and the number of tokens that are in none of them by reason; the only
      reason is `SINGLE_WORD`: a chunk with nothing to cut.
    """
    max_num_tokens = max_seq_length - NUM_SPECIAL_TOKENS
    target = max_num_tokens
    if rng.random() < short_seq_rate:
        target = int(rng.integers(2, max_num_tokens, endpoint=True))
    pairs = []
    dropped: collections.Counter = collections.Counter()
    pieces = [
        piece
        for sentence in sentences
        for piece in _cut_long(sentence, is_word_start, max_num_tokens)
    ]
    for chunk in _chunks(pieces, target, max_num_tokens):
        cut = _random_cut(chunk, is_word_start, rng)
        if cut is None:
            dropped[SINGLE_WORD] += sum(map(len, chunk))
            continue
        first, second = cut
        # Whether it is swapped depends on nothing but this draw.
        if rng.random() < 0.5:
            pairs.append(Pair(second, first, schema.SWAPPED))
        else:
            pairs.append(Pair(first, second, schema.IN_ORDER))
    return pairs, dropped


def _chunks(
    pieces: Sequence[np.ndarray], target: int, max_num_tokens: int
) -> Iterator[list[np.ndarray]]:
    """Gathers pieces into chunks of at most `max_num_tokens` tokens.

    Differs from the original: it lets the last sentence overflow and then truncates
    either segment at either end. A cut at the inner ends opens a gap between the
    segments, so that they are not consecutive. A cut at the outer ends would give the
    label away: the segment with the broken outer end is the first or the last in the
    document. Here the sentence that would overflow opens the next chunk: nothing is
    truncated, no text is lost, and the price is some padding.
    """
    chunk: list[np.ndarray] = []
    length = 0
    for piece in pieces:
        if chunk and length + len(piece) > max_num_tokens:
            yield chunk
            chunk, length = [], 0
        chunk.append(piece)
        length += len(piece)
        if length >= target:
            yield chunk
            chunk, length = [], 0
    if chunk:
        yield chunk


def _random_cut(
    chunk: Sequence[np.ndarray], is_word_start: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray] | None:
    """Cuts a chunk in two at a random sentence boundary, or else word boundary.

    Differs from the original: a chunk of one sentence is cut inside it. The original
    takes the second segment from a random other document there, which makes an
    eighth of its records next-sentence prediction, whatever is asked for.

    Returns:
      int32 [num_tokens_first], int32 [num_tokens_second]; or None for a single word.
    """
    if len(chunk) > 1:
        split = int(rng.integers(1, len(chunk)))
        return np.concatenate(chunk[:split]), np.concatenate(chunk[split:])
    (sentence,) = chunk
    boundaries = np.flatnonzero(is_word_start[sentence[1:]]) + 1  # [num_words - 1]
    if not len(boundaries):
        return None
    split = int(boundaries[rng.integers(len(boundaries))])
    return sentence[:split], sentence[split:]


def _cut_long(
    sentence: np.ndarray, is_word_start: np.ndarray, max_num_tokens: int
) -> Iterator[np.ndarray]:
    """Cuts a sentence into pieces of at most `max_num_tokens` tokens.

    Each piece but the last is the longest that ends where a word does. A word that is
    longer than that is cut where it must be. An empty sentence gives no piece.

    Differs from the original: it keeps the sentence whole and truncates the pair, so
    that all of it behind one record's worth is lost.
    """
    while len(sentence) > max_num_tokens:
        # The token behind the cut must begin a word; the first one always does.
        starts = np.flatnonzero(is_word_start[sentence[1 : max_num_tokens + 1]])
        cut = int(starts[-1]) + 1 if len(starts) else max_num_tokens
        yield sentence[:cut]
        sentence = sentence[cut:]
    if len(sentence):
        yield sentence
