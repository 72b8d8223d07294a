"""Documents to segments: sentence-order pairs, next-sentence pairs, or none.

Pure: token ids and a stream of random numbers in, places of segments out. Sources:
Lan et al., "ALBERT" (arXiv 1909.11942), section 3.1 (SOP), Devlin et al., "BERT"
(arXiv 1810.04805), section 3.1 (NSP), and the packing of the former's authors.

The tokens of all documents of a block are one array, and a segment is a range
[start, end) of it. The `spans` of a document are its sentences; a sentence that is
longer than a record is several spans, its pieces, cut at the last word boundaries that
fit. Whole spans are gathered into a chunk until the target length is reached, the next
span would not fit, or the document ends. The target is the capacity of a record or, for
a share of the copies of documents, a uniformly random length from 2 up to that.

With a pair loss a piece of a sentence is a chunk by itself. So a chunk of two spans or
more consists of whole sentences, and only such a chunk is a pair: it is cut in two at a
random sentence boundary. Any other chunk is a single segment without a label. Thus each
segment of a pair begins and ends with a sentence, and neither closing punctuation nor
capital letters reveal the label.

SOP: the two parts of a pair are swapped in half of the cases. Every other copy of a
document is packed from its end: the sentence that did not fit into a chunk opens the
next one, and is longer than others. If all were packed from the same end, the longer
segment would more often be the first, and lengths alone would hint at the label.

NSP: the part after the cut is the second segment in half of the cases; in the other
half it opens the next chunk, and sentences of another document take its place. None:
the chunk is the only segment. Nothing is truncated.
"""

from typing import NamedTuple

import numpy as np

from albert_tf.core import config, numba_cache, prng
from albert_tf.data import schema

SOP, NSP, NONE = range(len(config.PAIR_LOSSES))
# The most special tokens of a record, by pair loss: [CLS], [SEP] after segment A, [SEP]
# after segment B.
NUM_SPECIAL_TOKENS = (3, 3, 2)
NO_LABEL = schema.NO_LABEL


class Spans(NamedTuple):
    """The tokens of a block's documents, cut into spans.

    Attributes:
      ids: int32 [T], the tokens of all documents, one document after the other.
      span_starts: int64 [num_spans + 1], where each span begins, and T.
      is_sentence: bool [num_spans], whether a span is a whole sentence, and not a piece
        of one.
      document_spans: int64 [num_documents + 1], the first span of each document,
        and num_spans.
    """

    ids: np.ndarray
    span_starts: np.ndarray
    is_sentence: np.ndarray
    document_spans: np.ndarray


class Segments(NamedTuple):
    """The result of `next_segments`.

    Attributes:
      a_start, a_end, b_start, b_end: ranges of tokens. B is empty if there is no second
        segment.
      label: see `schema.PAIR_LABELS`; `NO_LABEL` if B is empty.
      span: where the next chunk begins; where it ends, if packed from the end.
    """

    a_start: int
    a_end: int
    b_start: int
    b_end: int
    label: int
    span: int


def cut_spans(
    ids, sentence_lengths, document_sentences, is_word_start, max_tokens
) -> Spans:
    """Splits documents into sentences, and sentences longer than a record into several.

    Each span of such a sentence but the last is the longest that ends at the end of a
    word. A word that is longer than a record is cut after `max_tokens`. An empty
    sentence gives no span.

    Differs from the original: it keeps the sentence whole and truncates the pair, so
    that all of the sentence after one record's worth is lost.

    Args:
      ids: int32 [T].
      sentence_lengths: int64 [num_sentences], which sum to T.
      document_sentences: int64 [num_documents], how many sentences each document has.
      is_word_start: bool [V], whether a token begins a word.
      max_tokens: the most tokens of a record, without special tokens.

    Returns:
      `Spans`.
    """
    spans = _cut_spans(
        ids, sentence_lengths, document_sentences, is_word_start, max_tokens
    )
    return Spans(ids, *spans)


@numba_cache.kernel
def _cut_spans(ids, sentence_lengths, document_sentences, is_word_start, max_tokens):
    """Implements `cut_spans`; returns the fields of `Spans` but the first."""
    capacity = len(sentence_lengths) + 2 * (len(ids) // max_tokens) + 1
    span_starts = np.empty(capacity, np.int64)
    is_sentence = np.empty(capacity, np.bool_)
    document_spans = np.empty(len(document_sentences) + 1, np.int64)
    num_spans = start = sentence = 0
    for document in range(len(document_sentences)):
        document_spans[document] = num_spans
        for _ in range(document_sentences[document]):
            end = start + sentence_lengths[sentence]
            sentence += 1
            is_whole = end - start <= max_tokens
            while start < end:
                if num_spans + 1 == capacity:  # words so long that cuts are short
                    span_starts = np.append(span_starts, span_starts)
                    is_sentence = np.append(is_sentence, is_sentence)
                    capacity *= 2
                span_starts[num_spans] = start
                is_sentence[num_spans] = is_whole
                num_spans += 1
                start = _cut(ids, start, end, max_tokens, is_word_start)
    document_spans[-1] = num_spans
    span_starts[num_spans] = len(ids)
    return span_starts[: num_spans + 1], is_sentence[:num_spans], document_spans


@numba_cache.kernel
def _cut(ids, start, end, max_tokens, is_word_start):
    """The last word boundary that is at most `max_tokens` after `start`."""
    if end - start <= max_tokens:
        return end
    # The token after the cut must begin a word; the first one always does.
    for cut in range(start + max_tokens, start, -1):
        if is_word_start[ids[cut]]:
            return cut
    return start + max_tokens


@numba_cache.kernel
def draw_target(max_tokens, short_seq_rate, stream):
    """The length to fill for one copy of a document."""
    if prng.uniform(stream) < short_seq_rate:
        return 2 + prng.randint(stream, max_tokens - 1)
    return max_tokens


@numba_cache.kernel
def next_segments(
    spans,
    document,
    span,
    is_backward,
    target,
    max_tokens,
    pair_loss,
    candidate_documents,
    stream,
):
    """The segments of the chunk that begins, or ends, at a span of a document.

    Differs from the original: it lets the last sentence overflow and then truncates
    either segment at either end. Truncation at the inner ends leaves a gap between the
    segments, so that they are not consecutive. Truncation at the outer ends would
    reveal the label: the segment with the broken outer end is the first or the last in
    the document. Here the sentence that would overflow opens the next chunk: nothing is
    truncated, no text is lost, and the price is some padding.

    Differs from the original: a chunk of one sentence has no label. The original takes
    the second segment from a random other document there, which makes an eighth of its
    records next-sentence prediction, whatever the pair loss. A cut inside the sentence
    would reveal the label: only the second part ends as a sentence does.

    Args:
      spans: see `Spans`.
      document: the number of the document in the block.
      span: the first span of the chunk, or the span after its last if packed from the
        end.
      is_backward: whether the document is packed from its end; not with `NSP`.
      target: the length to fill, in tokens.
      max_tokens: the most tokens of a record, without special tokens.
      pair_loss: `SOP`, `NSP` or `NONE`.
      candidate_documents: int64 [M], the documents that a random second segment may
        come from.
      stream: uint64 [4], see `prng`.

    Returns:
      `Segments`.
    """
    first, last = _gather(
        spans, document, span, is_backward, target, max_tokens, pair_loss
    )
    start, end = spans.span_starts[first], spans.span_starts[last]
    next_span = first if is_backward else last
    if pair_loss == NONE or last - first == 1:
        return Segments(start, end, end, end, NO_LABEL, next_span)
    cut_span = first + 1 + prng.randint(stream, last - first - 1)
    cut = spans.span_starts[cut_span]
    b_start, b_end = start, cut
    if pair_loss == NSP:
        # Before the label is drawn, so that it does not depend on what is found.
        b_start, b_end = _random_segment(
            spans,
            document,
            candidate_documents,
            end - cut,
            max_tokens - (cut - start),
            stream,
        )
        if b_start == b_end:
            return Segments(start, end, end, end, NO_LABEL, next_span)
    # The label depends on this draw alone.
    is_negative = prng.uniform(stream) < 0.5
    if not is_negative:
        return Segments(start, cut, cut, end, 0, next_span)
    if pair_loss == SOP:
        return Segments(cut, end, start, cut, 1, next_span)
    return Segments(start, cut, b_start, b_end, 1, cut_span)


@numba_cache.kernel
def _gather(spans, document, span, is_backward, target, max_tokens, pair_loss):
    """The chunk that begins at a span or, if packed from the end, ends before it.

    Returns:
      Its first span, and the span after its last.
    """
    starts = spans.span_starts
    document_first = spans.document_spans[document]
    document_last = spans.document_spans[document + 1]
    first, last = (span - 1, span) if is_backward else (span, span + 1)
    while starts[last] - starts[first] < target:
        longer_first, longer_last = first, last
        if is_backward:
            longer_first -= 1
        else:
            longer_last += 1
        if longer_first < document_first or longer_last > document_last:
            break
        if not _is_chunk(spans, longer_first, longer_last, max_tokens, pair_loss):
            break
        first, last = longer_first, longer_last
    return first, last


@numba_cache.kernel
def _is_chunk(spans, first, last, max_tokens, pair_loss):
    """Whether two spans or more, [first, last), may be a chunk.

    With a pair loss, a piece that shared a chunk with whole sentences would either
    reveal the label or take it away from them. And lengths would hint at the labels,
    since sentences are cut from their beginnings whichever end is packed first.
    """
    if spans.span_starts[last] - spans.span_starts[first] > max_tokens:
        return False
    are_sentences = spans.is_sentence[first] and spans.is_sentence[last - 1]
    return are_sentences or pair_loss == NONE


@numba_cache.kernel
def _random_segment(spans, document, candidate_documents, target, max_tokens, stream):
    """Consecutive sentences of another document from a random one; tokens [start, end).

    Their total length is as near as possible to the target, which is the length of the
    segment that they replace: otherwise the length would hint at the label. Empty if
    there is no other document, or if the random sentence is longer than the room.
    """
    if not _has_candidate(candidate_documents, document):
        return 0, 0
    other = document
    while other == document:
        other = candidate_documents[prng.randint(stream, len(candidate_documents))]
    first, last = spans.document_spans[other], spans.document_spans[other + 1]
    span = first + prng.randint(stream, last - first)
    start = end = spans.span_starts[span]
    while span < last and spans.is_sentence[span]:
        span_end = spans.span_starts[span + 1]
        is_far = end > start and (end + span_end) // 2 - start > target
        if is_far or span_end - start > max_tokens:
            break
        end = span_end
        span += 1
    return start, end


@numba_cache.kernel
def _has_candidate(candidate_documents, document):
    return len(candidate_documents) > 1 or (
        len(candidate_documents) == 1 and candidate_documents[0] != document
    )
