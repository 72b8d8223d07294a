"""Documents to records in one compiled loop: segments, masks, bytes.

Pure: tokens in, bytes and counts out. Each copy of each document draws from a stream
of its own, keyed by the seed, the block, the document and the copy, so that a record
depends on nothing that is not in its block.
"""

from typing import NamedTuple

import numpy as np

from albert_tf import compiled, config, masking, random_stream, schema, tokenization
from data_prep import records, sentence_order

# Columns of the counts of a document, before those of n-gram lengths and kinds.
RECORDS, TOKENS, BORROWED, SINGLE_WORD, ODD_LABELS = range(5)
NUM_PLAIN_COUNTS = 5
# Sort keys of held-out records have this bit, so that they lie behind the others.
HELDOUT_BIT = np.uint64(1 << 63)
# In the place of the copy, the key of what is drawn once a document.
_COIN = np.uint64((1 << 64) - 1)


class Settings(NamedTuple):
    """What records are made by; plain values and arrays, as compiled loops take them.

    `is_word_start` is bool [V], or all true where every token counts as a word.
    """

    seed: int
    max_seq_length: int
    max_tokens: int
    max_predictions: int
    short_seq_rate: float
    pair_loss: int
    is_dynamic: bool
    id_bytes: int
    cls_id: int
    sep_id: int
    is_word_start: np.ndarray
    cuts_at: np.ndarray
    law: masking.Law


def make_settings(
    data: config.DataConfig, tokenizer: tokenization.Tokenizer
) -> Settings:
    """The settings of a configuration and a vocabulary."""
    pair_loss = config.PAIR_LOSSES.index(data.pair_loss)
    num_special = sentence_order.NUM_SPECIAL_TOKENS[pair_loss]
    return Settings(
        seed=data.seed,
        max_seq_length=data.max_seq_length,
        max_tokens=data.max_seq_length - num_special,
        max_predictions=data.num_predictions,
        short_seq_rate=data.short_seq_rate,
        pair_loss=pair_loss,
        is_dynamic=data.masking == "dynamic",
        id_bytes=np.dtype(schema.id_dtype(tokenizer.vocab_size)).itemsize,
        cls_id=tokenizer.cls_id,
        sep_id=tokenizer.sep_id,
        # Records without masks hold true bounds; the trainer sees to whole words.
        is_word_start=tokenizer.is_word_start
        | (data.masking == "static" and not data.whole_words),
        cuts_at=tokenizer.is_word_start,
        law=masking.make_law(
            data.max_ngram,
            data.ngram_law,
            data.masked_lm_rate,
            data.num_predictions,
            data.max_seq_length,
            tokenizer.mask_id,
            tokenizer.replacement_ids,
        ),
    )


def num_counts(max_ngram: int) -> int:
    """The number of columns of a document's counts."""
    return NUM_PLAIN_COUNTS + 2 * max_ngram + len(masking.KINDS)


class Made(NamedTuple):
    """Records, in the order in which they were made.

    Attributes:
      data: uint8 [num_bytes], one record behind the other.
      ends: int64 [num_records], where each ends in `data`.
      keys: uint64 [num_records], random, to sort by; see `HELDOUT_BIT`.
      documents: int32 [num_records], the document that each is of.
    """

    data: np.ndarray
    ends: np.ndarray
    keys: np.ndarray
    documents: np.ndarray


def make_records(
    pieces,
    is_heldout,
    block_group,
    block_number,
    first_copy,
    end_copy,
    settings,
    counts,
) -> Made:
    """The records of some copies of a block's documents.

    Args:
      pieces: see `sentence_order.Pieces`.
      is_heldout: bool [D]. Of a held-out document only copy 0 is made.
      block_group: the block's group, with `block_number` the block's identity.
      block_number: see `block_group`.
      first_copy: the first copy to make.
      end_copy: the first copy not to make.
      settings: see `Settings`.
      counts: int64 [D, `num_counts`], to which is added what was made of each document:
        records, tokens of its own and borrowed ones in them, tokens dropped, records
        with label 1, drawn and placed n-gram lengths, kinds of replacement.

    Returns:
      `Made`.
    """
    # Not by the kernel: Ctrl-C while it calls a class is a segmentation fault.
    made = _make_records(
        pieces,
        is_heldout,
        block_group,
        block_number,
        first_copy,
        end_copy,
        settings,
        counts,
    )
    return Made(*made)


@compiled.kernel
def _make_records(
    pieces,
    is_heldout,
    block_group,
    block_number,
    first_copy,
    end_copy,
    settings,
    counts,
):
    """Does what `make_records` says; gives the fields of `Made`."""
    num_documents = len(is_heldout)
    any_document, in_training = _others(pieces, is_heldout)
    # Room for what is expected; more is made where it does not suffice.
    num_copies = end_copy - first_copy
    data = np.empty(3 * num_copies * len(pieces.ids) + 4096, np.uint8)
    capacity = 16 + num_copies * (len(pieces.ids) // settings.max_tokens * 2)
    keys = np.empty(capacity, np.uint64)
    ends = np.empty(capacity, np.int64)
    documents = np.empty(capacity, np.int32)
    num_records = at = 0
    most_bytes = 512 + settings.max_seq_length * (2 * settings.id_bytes + 3)

    max_ngram = len(settings.law.cumulative)
    lengths_end = NUM_PLAIN_COUNTS + 2 * max_ngram
    input_ids = np.empty(settings.max_seq_length, np.int32)
    flags = np.empty(settings.max_seq_length, np.bool_)
    positions = np.empty(settings.max_predictions, np.int32)
    labels = np.empty(settings.max_predictions, np.int32)
    stream_key = np.empty(5, np.uint64)
    for document in range(num_documents):
        first_piece = pieces.document_pieces[document]
        last_piece = pieces.document_pieces[document + 1]
        others = any_document if is_heldout[document] else in_training
        own = counts[document]
        drawn = own[NUM_PLAIN_COUNTS : NUM_PLAIN_COUNTS + max_ngram]
        placed = own[NUM_PLAIN_COUNTS + max_ngram : lengths_end]
        kinds = own[lengths_end:]
        stream_key[0] = settings.seed
        stream_key[1] = block_group
        stream_key[2] = block_number
        stream_key[3] = document
        stream_key[4] = _COIN
        stream = random_stream.open_stream(stream_key)
        coin = random_stream.below(stream, 2)
        for copy in range(first_copy, end_copy):
            if is_heldout[document] and copy > 0:
                break
            stream_key[4] = copy
            stream = random_stream.open_stream(stream_key)
            target = sentence_order.draw_target(
                settings.max_tokens, settings.short_seq_rate, stream
            )
            # Every other copy; which one the first is, is up to the document's coin.
            is_backward = (
                settings.pair_loss == sentence_order.SOP and (coin + copy) % 2 == 1
            )
            piece = last_piece if is_backward else first_piece
            start = pieces.piece_starts[piece]
            while piece > first_piece if is_backward else piece < last_piece:
                found = sentence_order.next_segments(
                    pieces,
                    document,
                    start,
                    piece,
                    is_backward,
                    target,
                    settings.max_tokens,
                    settings.pair_loss,
                    others,
                    settings.cuts_at,
                    stream,
                )
                num_own = abs(found.start - start)
                start, piece = found.start, found.piece
                if found.a_start == found.a_end:
                    own[SINGLE_WORD] += num_own
                    continue
                num_tokens, segment_a_length = _join(
                    pieces.ids, found, settings, input_ids, flags
                )
                own[RECORDS] += 1
                own[TOKENS] += num_own
                num_in_text = found.a_end - found.a_start + found.b_end - found.b_start
                own[BORROWED] += num_in_text - num_own
                own[ODD_LABELS] += found.label

                while at + most_bytes > len(data):
                    data = _longer(data, at)
                if num_records == len(keys):
                    keys = _longer(keys, num_records)
                    ends = _longer(ends, num_records)
                    documents = _longer(documents, num_records)
                if settings.is_dynamic:
                    at = records.put_dynamic(
                        data,
                        at,
                        input_ids[:num_tokens],
                        flags,
                        segment_a_length,
                        found.label,
                        settings.id_bytes,
                    )
                else:
                    num_masked = masking.mask_sequence(
                        input_ids[:num_tokens],
                        flags,
                        segment_a_length,
                        settings.law,
                        stream,
                        positions,
                        labels,
                        drawn,
                        placed,
                        kinds,
                    )
                    at = records.put_static(
                        data,
                        at,
                        input_ids[:num_tokens],
                        positions[:num_masked],
                        labels[:num_masked],
                        segment_a_length,
                        found.label,
                        settings.id_bytes,
                    )
                key = random_stream.next_word(stream) >> np.uint64(1)
                keys[num_records] = key | HELDOUT_BIT if is_heldout[document] else key
                ends[num_records] = at
                documents[num_records] = document
                num_records += 1
    return data[:at], ends[:num_records], keys[:num_records], documents[:num_records]


@compiled.kernel
def _others(pieces, is_heldout):
    """The documents that a random second segment may come from.

    For a held-out document any; for a training one only those in training, so that no
    held-out text is trained on.
    """
    any_document = np.empty(len(is_heldout), np.int64)
    in_training = np.empty(len(is_heldout), np.int64)
    num_any = num_in_training = 0
    for document in range(len(is_heldout)):
        if pieces.document_pieces[document] == pieces.document_pieces[document + 1]:
            continue
        any_document[num_any] = document
        num_any += 1
        if not is_heldout[document]:
            in_training[num_in_training] = document
            num_in_training += 1
    return any_document[:num_any], in_training[:num_in_training]


@compiled.kernel
def _join(ids, found, settings, input_ids, flags):
    """Fills in [CLS], segment A, [SEP], segment B, [SEP], and where words begin.

    Returns:
      The number of tokens, and of those up to the first [SEP].
    """
    input_ids[0] = settings.cls_id
    flags[0] = False
    place = 1
    for start, end in (
        (found.a_start, found.a_end),
        (found.b_start, found.b_end),
    ):
        if start == end:
            continue
        flags_start = place
        for token in range(start, end):
            input_ids[place] = ids[token]
            flags[place] = settings.is_word_start[ids[token]]
            place += 1
        flags[flags_start] = True
        input_ids[place] = settings.sep_id
        flags[place] = False
        place += 1
    return place, found.a_end - found.a_start + 2


@compiled.kernel
def _longer(values, size):
    longer = np.empty(2 * len(values) + 65536, values.dtype)
    longer[:size] = values[:size]
    return longer


def sort_records(made: Made) -> Made:
    """The same records in the order of their keys.

    Args:
      made: see `Made`.

    Returns:
      `Made`.
    """
    return Made(*_sort_records(made))


@compiled.kernel
def _sort_records(made):
    """Does what `sort_records` says; gives the fields of `Made`."""
    order = np.argsort(made.keys, kind="mergesort")
    data = np.empty_like(made.data)
    ends = np.empty_like(made.ends)
    at = 0
    for rank in range(len(order)):
        record = order[rank]
        start = made.ends[record - 1] if record else 0
        size = made.ends[record] - start
        data[at : at + size] = made.data[start : made.ends[record]]
        at += size
        ends[rank] = at
    return data, ends, made.keys[order], made.documents[order]
