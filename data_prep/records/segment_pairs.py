"""Documents to segments: sentence-order pairs, next-sentence pairs, or none.

Pure: token ids and a stream of random numbers in, places of segments out. Sources:
Lan et al., "ALBERT" (arXiv 1909.11942), section 3.1 (SOP), Devlin et al., "BERT"
(arXiv 1810.04805), section 3.1 (NSP), and the packing of the former's authors.

The tokens of all documents of a block are one array, and a segment is a range
[start, end) of it. The `spans` of a document are its sentences; a sentence that is
longer than a record is several spans, cut at the last word boundaries that fit. Whole
spans are gathered into a chunk until the target length is reached, the next span would
not fit, or the document ends. The target is the capacity of a record or, for a share of
the copies of documents, a uniformly random length from 2 up to that.

SOP: a chunk is cut in two at a random sentence boundary, or at a random word boundary
if it is a single sentence, and the two parts are swapped in half of the cases. Every
other copy of a document is packed from its end: the sentence that did not fit into a
chunk opens the next one, and is longer than others. If all were packed from the same
end, the longer segment would more often be the first, and lengths alone would hint at
the label.

NSP: the part after the cut is the second segment in half of the cases; in the other
half it opens the next chunk, and spans of another document take its place. None: the
chunk is the only segment. Nothing is truncated.
"""

from typing import NamedTuple

import numpy as np

from albert_tf.core import config, numba_cache, prng

SOP, NSP, NONE = range(len(config.PAIR_LOSSES))
# [CLS], [SEP] after segment A, [SEP] after segment B.
NUM_SPECIAL_TOKENS = (3, 3, 2)  # by pair loss


class Spans(NamedTuple):
    """The tokens of a block's documents, cut into spans.

    Attributes:
      ids: int32 [T], the tokens of all documents, one document after the other.
      span_starts: int64 [num_spans + 1], where each span begins, and T.
      document_spans: int64 [num_documents + 1], the first span of each document,
        and num_spans.
    """

    ids: np.ndarray
    span_starts: np.ndarray
    document_spans: np.ndarray


class Segments(NamedTuple):
    """The result of `next_segments`.

    Attributes:
      a_start, a_end, b_start, b_end: ranges of tokens. B is empty if there is no second
        segment; A is empty if the chunk could not be cut.
      label: see `schema.PAIR_LABELS`.
      start: where the next chunk begins; where it ends, if packed from the end.
      span: the span that this token belongs to.
    """

    a_start: int
    a_end: int
    b_start: int
    b_end: int
    label: int
    start: int
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
    """Implements `cut_spans`; returns `span_starts` and `document_spans`."""
    capacity = len(sentence_lengths) + 2 * (len(ids) // max_tokens) + 1
    span_starts = np.empty(capacity, np.int64)
    document_spans = np.empty(len(document_sentences) + 1, np.int64)
    num_spans = start = sentence = 0
    for document in range(len(document_sentences)):
        document_spans[document] = num_spans
        for _ in range(document_sentences[document]):
            end = start + sentence_lengths[sentence]
            sentence += 1
            while start < end:
                if num_spans + 1 == capacity:  # words so long that cuts are short
                    capacity *= 2
                    longer = np.empty(capacity, np.int64)
                    longer[:num_spans] = span_starts[:num_spans]
                    span_starts = longer
                span_starts[num_spans] = start
                num_spans += 1
                start = _cut(ids, start, end, max_tokens, is_word_start)
    document_spans[-1] = num_spans
    span_starts[num_spans] = len(ids)
    return span_starts[: num_spans + 1], document_spans


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
    start,
    span,
    is_backward,
    target,
    max_tokens,
    pair_loss,
    candidate_documents,
    is_word_start,
    stream,
):
    """The segments of the chunk that begins, or ends, at a token of a document.

    Differs from the original: it lets the last sentence overflow and then truncates
    either segment at either end. Truncation at the inner ends leaves a gap between the
    segments, so that they are not consecutive. Truncation at the outer ends would
    reveal the label: the segment with the broken outer end is the first or the last in
    the document. Here the sentence that would overflow opens the next chunk: nothing is
    truncated, no text is lost, and the price is some padding.

    Args:
      spans: see `Spans`.
      document: the number of the document in the block.
      start: the first token of the chunk, or the token after its last if packed from
        the end.
      span: the span that this token belongs to.
      is_backward: whether the document is packed from its end; not with `NSP`.
      target: the length to fill, in tokens.
      max_tokens: the most tokens of a record, without special tokens.
      pair_loss: `SOP`, `NSP` or `NONE`.
      candidate_documents: int64 [M], the documents that a random second segment may
        come from.
      is_word_start: bool [V].
      stream: uint64 [4], see `prng`.

    Returns:
      `Segments`.
    """
    first_span, last_span, start, end = _gather(
        spans, document, start, span, is_backward, target, max_tokens
    )
    if is_backward:
        next_start, next_span = start, first_span
    else:
        next_start, next_span = end, last_span
    if pair_loss == NONE:
        return Segments(start, end, end, end, 0, next_start, next_span)
    cut, cut_span = _random_cut(
        spans, start, end, first_span, last_span, is_word_start, stream
    )
    if cut == start:
        return Segments(start, start, end, end, 0, next_start, next_span)
    # The label depends on this draw alone.
    is_negative = prng.uniform(stream) < 0.5
    if pair_loss == NSP:
        if is_negative and _has_candidate(spans, candidate_documents, document):
            b_start, b_end = _random_segment(
                spans,
                document,
                candidate_documents,
                end - cut,
                max_tokens - (cut - start),
                is_word_start,
                stream,
            )
            return Segments(start, cut, b_start, b_end, 1, cut, cut_span)
        return Segments(start, cut, cut, end, 0, next_start, next_span)
    if is_negative:
        return Segments(cut, end, start, cut, 1, next_start, next_span)
    return Segments(start, cut, cut, end, 0, next_start, next_span)


@numba_cache.kernel
def _gather(spans, document, start, span, is_backward, target, max_tokens):
    """The chunk that begins at a token or, if packed from the end, ends before it.

    Returns:
      Its first span, the span after its last, its first token, and the token after
      its last.
    """
    starts = spans.span_starts
    first_span = last_span = span
    end = start
    if is_backward:
        while first_span > spans.document_spans[document]:
            span_start = starts[first_span - 1]
            if end > start and end - span_start > max_tokens:
                break
            start = span_start
            first_span -= 1
            if end - start >= target:
                break
        return first_span, last_span, start, end
    while last_span < spans.document_spans[document + 1]:
        span_end = starts[last_span + 1]
        if end > start and span_end - start > max_tokens:
            break
        end = span_end
        last_span += 1
        if end - start >= target:
            break
    return first_span, last_span, start, end


@numba_cache.kernel
def _random_cut(spans, start, end, first_span, last_span, is_word_start, stream):
    """Cuts a chunk in two at a random span boundary, or a word boundary if one span.

    Differs from the original: a chunk of one sentence is cut inside it. The original
    takes the second segment from a random other document there, which makes an
    eighth of its records next-sentence prediction, whatever the pair loss.

    Returns:
      The cut, which is `start` for a single word, and the span that holds the first
      token after it.
    """
    num_spans = last_span - first_span
    if num_spans > 1:
        chosen = first_span + 1 + prng.randint(stream, num_spans - 1)
        return spans.span_starts[chosen], chosen
    num_boundaries = 0
    for place in range(start + 1, end):
        num_boundaries += is_word_start[spans.ids[place]]
    if not num_boundaries:
        return start, first_span
    chosen = prng.randint(stream, num_boundaries)
    for place in range(start + 1, end):
        if is_word_start[spans.ids[place]]:
            if not chosen:
                return place, first_span
            chosen -= 1
    return start, first_span


@numba_cache.kernel
def _has_candidate(spans, candidate_documents, document):
    return len(candidate_documents) > 1 or (
        len(candidate_documents) == 1 and candidate_documents[0] != document
    )


@numba_cache.kernel
def _random_segment(
    spans, document, candidate_documents, target, max_tokens, is_word_start, stream
):
    """Consecutive spans of another document from a random one; tokens [start, end).

    Their total length is as near as possible to the target, which is the length of the
    segment that they replace: otherwise the length would hint at the label.
    """
    other = document
    while other == document:
        other = candidate_documents[prng.randint(stream, len(candidate_documents))]
    first, last = spans.document_spans[other], spans.document_spans[other + 1]
    span = first + prng.randint(stream, last - first)
    start = end = spans.span_starts[span]
    while span < last:
        span_end = spans.span_starts[span + 1]
        is_far = end > start and (end + span_end) // 2 - start > target
        if is_far or span_end - start > max_tokens:
            break
        end = span_end
        span += 1
    if end == start:
        span_end = spans.span_starts[span + 1]
        end = _cut(spans.ids, start, span_end, max_tokens, is_word_start)
    return start, end
