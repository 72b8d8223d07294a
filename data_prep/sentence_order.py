"""Documents to segments: sentence-order pairs, next-sentence pairs, or none.

Pure: token ids and a stream of random numbers in, places of segments out. Sources:
Lan et al., "ALBERT" (arXiv 1909.11942), section 3.1 (SOP), Devlin et al., "BERT"
(arXiv 1810.04805), section 3.1 (NSP), and the packing of the former's authors.

All documents of a block stand in one array of tokens, and a segment is a stretch
[start, end) of it. A sentence that is longer than a record counts as several, cut at
the last word boundaries that fit; these are the `pieces` of a document. Whole pieces
are gathered into a chunk until the target length is reached, the next one would not
fit, or the document ends. The target is what a record can hold, or, for a share of the
copies of documents, a uniformly random length from 2 up to that.

SOP: a chunk is cut in two at a random sentence boundary, or at a random word boundary
where it has but one sentence, and the two are swapped in half of the cases. Every other
copy of a document is packed from its end: the sentence that did not fit into a
chunk opens the next one, and is longer than others. From one end only, the longer
segment would more often be the first, and lengths alone would hint at the label.

NSP: what lies behind the cut is the second segment in half of the cases; in the other
half it opens the next chunk, and pieces of another document take its place. None: the
chunk is the only segment. Nothing is truncated.
"""

from typing import NamedTuple

import numpy as np

from albert_tf import compiled, config, random_stream

SOP, NSP, NONE = range(len(config.PAIR_LOSSES))
# [CLS], [SEP] behind segment A, [SEP] behind segment B.
NUM_SPECIAL_TOKENS = (3, 3, 2)  # by pair loss


class Pieces(NamedTuple):
    """The tokens of a block's documents, cut into pieces.

    Attributes:
      ids: int32 [T], the tokens of all documents, one document behind the other.
      piece_starts: int64 [num_pieces + 1], where each piece begins, and T.
      document_pieces: int64 [num_documents + 1], the first piece of each document,
        and num_pieces.
    """

    ids: np.ndarray
    piece_starts: np.ndarray
    document_pieces: np.ndarray


class Segments(NamedTuple):
    """What `next_segments` found.

    Attributes:
      a_start, a_end, b_start, b_end: the stretches of tokens. B is empty where there
        is no second segment; A is empty where the chunk could not be cut.
      label: see `schema.PAIR_LABELS`.
      start: where the next chunk begins; where it ends, if packed from the end.
      piece: the piece that this token belongs to.
    """

    a_start: int
    a_end: int
    b_start: int
    b_end: int
    label: int
    start: int
    piece: int


def cut_pieces(
    ids, sentence_lengths, document_sentences, is_word_start, max_tokens
) -> Pieces:
    """Cuts sentences that are longer than a record.

    Each piece but the last is the longest that ends where a word does. A word that is
    longer than a record is cut where it must be. An empty sentence gives no piece.

    Differs from the original: it keeps the sentence whole and truncates the pair, so
    that all of it behind one record's worth is lost.

    Args:
      ids: int32 [T].
      sentence_lengths: int64 [num_sentences], which sum to T.
      document_sentences: int64 [num_documents], how many sentences each document has.
      is_word_start: bool [V], whether a token begins a word.
      max_tokens: the most tokens of a record, special ones not counted.

    Returns:
      `Pieces`.
    """
    pieces = _cut_pieces(
        ids, sentence_lengths, document_sentences, is_word_start, max_tokens
    )
    return Pieces(ids, *pieces)


@compiled.kernel
def _cut_pieces(ids, sentence_lengths, document_sentences, is_word_start, max_tokens):
    """Does what `cut_pieces` says; gives `piece_starts` and `document_pieces`."""
    capacity = len(sentence_lengths) + 2 * (len(ids) // max_tokens) + 1
    piece_starts = np.empty(capacity, np.int64)
    document_pieces = np.empty(len(document_sentences) + 1, np.int64)
    num_pieces = start = sentence = 0
    for document in range(len(document_sentences)):
        document_pieces[document] = num_pieces
        for _ in range(document_sentences[document]):
            end = start + sentence_lengths[sentence]
            sentence += 1
            while start < end:
                if num_pieces + 1 == capacity:  # words so long that cuts are short
                    capacity *= 2
                    longer = np.empty(capacity, np.int64)
                    longer[:num_pieces] = piece_starts[:num_pieces]
                    piece_starts = longer
                piece_starts[num_pieces] = start
                num_pieces += 1
                start = _cut(ids, start, end, max_tokens, is_word_start)
    document_pieces[-1] = num_pieces
    piece_starts[num_pieces] = len(ids)
    return piece_starts[: num_pieces + 1], document_pieces


@compiled.kernel
def _cut(ids, start, end, max_tokens, is_word_start):
    """The last place up to `max_tokens` behind `start` where a word ends."""
    if end - start <= max_tokens:
        return end
    # The token behind the cut must begin a word; the first one always does.
    for cut in range(start + max_tokens, start, -1):
        if is_word_start[ids[cut]]:
            return cut
    return start + max_tokens


@compiled.kernel
def draw_target(max_tokens, short_seq_rate, stream):
    """The length to fill for one copy of a document."""
    if random_stream.uniform(stream) < short_seq_rate:
        return 2 + random_stream.below(stream, max_tokens - 1)
    return max_tokens


@compiled.kernel
def next_segments(
    pieces,
    document,
    start,
    piece,
    is_backward,
    target,
    max_tokens,
    pair_loss,
    others,
    is_word_start,
    stream,
):
    """The segments of the chunk that begins, or ends, at a token of a document.

    Differs from the original: it lets the last sentence overflow and then truncates
    either segment at either end. A cut at the inner ends opens a gap between the
    segments, so that they are not consecutive. A cut at the outer ends would give the
    label away: the segment with the broken outer end is the first or the last in the
    document. Here the sentence that would overflow opens the next chunk: nothing is
    truncated, no text is lost, and the price is some padding.

    Args:
      pieces: see `Pieces`.
      document: the number of the document in the block.
      start: the token that the chunk begins with, or that stands behind it.
      piece: the piece that this token belongs to.
      is_backward: whether the document is packed from its end; not with `NSP`.
      target: the length to fill, in tokens.
      max_tokens: the most tokens of a record, special ones not counted.
      pair_loss: `SOP`, `NSP` or `NONE`.
      others: int64 [M], the documents that a random second segment may come from.
      is_word_start: bool [V].
      stream: uint64 [4], see `random_stream`.

    Returns:
      `Segments`.
    """
    first_piece, last_piece, start, end = _gather(
        pieces, document, start, piece, is_backward, target, max_tokens
    )
    if is_backward:
        next_start, next_piece = start, first_piece
    else:
        next_start, next_piece = end, last_piece
    if pair_loss == NONE:
        return Segments(start, end, end, end, 0, next_start, next_piece)
    cut, cut_piece = _random_cut(
        pieces, start, end, first_piece, last_piece, is_word_start, stream
    )
    if cut == start:
        return Segments(start, start, end, end, 0, next_start, next_piece)
    # The label depends on nothing but this draw.
    is_odd = random_stream.uniform(stream) < 0.5
    if pair_loss == NSP:
        if is_odd and _has_other(pieces, others, document):
            b_start, b_end = _random_segment(
                pieces,
                document,
                others,
                end - cut,
                max_tokens - (cut - start),
                is_word_start,
                stream,
            )
            return Segments(start, cut, b_start, b_end, 1, cut, cut_piece)
        return Segments(start, cut, cut, end, 0, next_start, next_piece)
    if is_odd:
        return Segments(cut, end, start, cut, 1, next_start, next_piece)
    return Segments(start, cut, cut, end, 0, next_start, next_piece)


@compiled.kernel
def _gather(pieces, document, start, piece, is_backward, target, max_tokens):
    """The chunk that begins at a token or, if packed from the end, ends before it.

    Returns:
      Its first piece, the piece behind its last, its first token, and the token behind
      its last.
    """
    starts = pieces.piece_starts
    first_piece = last_piece = piece
    end = start
    if is_backward:
        while first_piece > pieces.document_pieces[document]:
            piece_start = starts[first_piece - 1]
            if end > start and end - piece_start > max_tokens:
                break
            start = piece_start
            first_piece -= 1
            if end - start >= target:
                break
        return first_piece, last_piece, start, end
    while last_piece < pieces.document_pieces[document + 1]:
        piece_end = starts[last_piece + 1]
        if end > start and piece_end - start > max_tokens:
            break
        end = piece_end
        last_piece += 1
        if end - start >= target:
            break
    return first_piece, last_piece, start, end


@compiled.kernel
def _random_cut(pieces, start, end, first_piece, last_piece, is_word_start, stream):
    """Cuts a chunk in two at a random piece boundary, or else word boundary.

    Differs from the original: a chunk of one sentence is cut inside it. The original
    takes the second segment from a random other document there, which makes an
    eighth of its records next-sentence prediction, whatever is asked for.

    Returns:
      The cut, which is `start` for a single word, and the piece it lies in or before.
    """
    num_pieces = last_piece - first_piece
    if num_pieces > 1:
        chosen = first_piece + 1 + random_stream.below(stream, num_pieces - 1)
        return pieces.piece_starts[chosen], chosen
    num_boundaries = 0
    for place in range(start + 1, end):
        num_boundaries += is_word_start[pieces.ids[place]]
    if not num_boundaries:
        return start, first_piece
    chosen = random_stream.below(stream, num_boundaries)
    for place in range(start + 1, end):
        if is_word_start[pieces.ids[place]]:
            if not chosen:
                return place, first_piece
            chosen -= 1
    return start, first_piece


@compiled.kernel
def _has_other(pieces, others, document):
    return len(others) > 1 or (len(others) == 1 and others[0] != document)


@compiled.kernel
def _random_segment(
    pieces, document, others, target, max_tokens, is_word_start, stream
):
    """Pieces of another document from a random one on; [start, end) of tokens.

    They are as many as come nearest to the target, which is the length of the segment
    that they stand for: else its length would hint at the label.
    """
    other = document
    while other == document:
        other = others[random_stream.below(stream, len(others))]
    first, last = pieces.document_pieces[other], pieces.document_pieces[other + 1]
    piece = first + random_stream.below(stream, last - first)
    start = end = pieces.piece_starts[piece]
    while piece < last:
        piece_end = pieces.piece_starts[piece + 1]
        is_far = end > start and (end + piece_end) // 2 - start > target
        if is_far or piece_end - start > max_tokens:
            break
        end = piece_end
        piece += 1
    if end == start:
        piece_end = pieces.piece_starts[piece + 1]
        end = _cut(pieces.ids, start, piece_end, max_tokens, is_word_start)
    return start, end
