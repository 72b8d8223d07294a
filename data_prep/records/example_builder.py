"""Documents to records in one compiled loop: segments, masks, bytes.

Pure: tokens in, bytes and counts out. Each copy of each document has its own random
stream, keyed by the seed, the block, the document and the copy, so that a record
depends on its block alone.
"""

from typing import NamedTuple

import numpy as np

from albert_tf.core import config, numba_cache, prng
from albert_tf.data import masking, schema
from albert_tf.tokenization import tokenizer as tokenizer_lib
from data_prep.records import example_proto, segment_pairs

# Columns of the counts of a document, before those of n-gram lengths and kinds.
RECORDS, TOKENS, TOKENS_FROM_OTHER_DOCUMENTS, PAIRS, NEGATIVE_PAIRS = range(5)
NUM_PLAIN_COUNTS = 5
# Set in the sort keys of held-out records, which places them after all others.
HELDOUT_BIT = np.uint64(1 << 63)
# In the place of the copy, the key of the stream that is drawn from once a document.
_COIN = np.uint64((1 << 64) - 1)


class RecordSettings(NamedTuple):
    """Settings of `make_records`: plain values and arrays, as compiled loops take them.

    `is_word_start` is bool [V], the tokens that begin a word for masking: all if every
    token counts as a word.
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
    law: masking.MaskingParams


def make_settings(
    data: config.DataConfig, tokenizer: tokenizer_lib.Tokenizer
) -> RecordSettings:
    """Returns the settings of a configuration and a vocabulary."""
    pair_loss = config.PAIR_LOSSES.index(data.pair_loss)
    num_special = segment_pairs.NUM_SPECIAL_TOKENS[pair_loss]
    return RecordSettings(
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
        # Records without masks hold the true word starts; the trainer, which masks
        # them, applies `whole_words`.
        is_word_start=tokenizer.is_word_start
        | (data.masking == "static" and not data.whole_words),
        law=masking.make_params(
            data.max_ngram,
            data.ngram_distribution,
            data.masked_lm_rate,
            data.num_predictions,
            data.max_seq_length,
            tokenizer.mask_id,
            tokenizer.replacement_ids,
            data.mask_token_rate,
            data.random_token_rate,
        ),
    )


def num_counts(max_ngram: int) -> int:
    """The number of columns of a document's counts."""
    return NUM_PLAIN_COUNTS + 2 * max_ngram + len(schema.REPLACEMENTS)


class RecordBatch(NamedTuple):
    """Serialized records, in the order in which they were made.

    Attributes:
      data: uint8 [num_bytes], the records one after the other.
      ends: int64 [num_records], where each record ends in `data`.
      keys: uint64 [num_records], random sort keys; see `HELDOUT_BIT`.
      documents: int32 [num_records], the document of each record.
    """

    data: np.ndarray
    ends: np.ndarray
    keys: np.ndarray
    documents: np.ndarray


def make_records(
    spans,
    is_heldout,
    block_group,
    block_number,
    first_copy,
    end_copy,
    settings,
    counts,
) -> RecordBatch:
    """Makes the records of some copies of a block's documents.

    Args:
      spans: see `segment_pairs.Spans`.
      is_heldout: bool [D]. A held-out document has copy 0 only.
      block_group: the block's group, with `block_number` the block's identity.
      block_number: see `block_group`.
      first_copy: the first copy to make.
      end_copy: the first copy not to make.
      settings: see `RecordSettings`.
      counts: int64 [D, `num_counts`], incremented for each document: records, their
        tokens from the document and from other documents, records with a label and
        with label 1, drawn and placed n-gram lengths, kinds of replacement.

    Returns:
      `RecordBatch`.
    """
    # Not in the kernel: Ctrl-C while it calls a class is a segmentation fault.
    fields = _make_records(
        spans,
        is_heldout,
        block_group,
        block_number,
        first_copy,
        end_copy,
        settings,
        counts,
    )
    return RecordBatch(*fields)


@numba_cache.kernel
def _make_records(
    spans,
    is_heldout,
    block_group,
    block_number,
    first_copy,
    end_copy,
    settings,
    counts,
):
    """Implements `make_records`; returns the fields of `RecordBatch`."""
    any_document, in_training = _candidate_documents(spans, is_heldout)
    # Room for the expected size; more is allocated where it does not suffice.
    num_copies = end_copy - first_copy
    data = np.empty(3 * num_copies * len(spans.ids) + 4096, np.uint8)
    capacity = 16 + num_copies * (len(spans.ids) // settings.max_tokens * 2)
    keys = np.empty(capacity, np.uint64)
    ends = np.empty(capacity, np.int64)
    documents = np.empty(capacity, np.int32)
    num_records = at = 0
    max_record_bytes = 512 + settings.max_seq_length * (2 * settings.id_bytes + 3)

    input_ids = np.empty(settings.max_seq_length, np.int32)
    flags = np.empty(settings.max_seq_length, np.bool_)
    positions = np.empty(settings.max_predictions, np.int32)
    labels = np.empty(settings.max_predictions, np.int32)
    stream_key = np.empty(5, np.uint64)
    for document in range(len(is_heldout)):
        first_span = spans.document_spans[document]
        last_span = spans.document_spans[document + 1]
        candidates = any_document if is_heldout[document] else in_training
        own_counts = counts[document]
        stream_key[0] = settings.seed
        stream_key[1] = block_group
        stream_key[2] = block_number
        stream_key[3] = document
        stream_key[4] = _COIN
        stream = prng.seed_state(stream_key)
        coin = prng.randint(stream, 2)
        for copy in range(first_copy, end_copy):
            if is_heldout[document] and copy > 0:
                break
            stream_key[4] = copy
            stream = prng.seed_state(stream_key)
            target = segment_pairs.draw_target(
                settings.max_tokens, settings.short_seq_rate, stream
            )
            # Every other copy; the document's coin says whether the first one is.
            is_backward = (
                settings.pair_loss == segment_pairs.SOP and (coin + copy) % 2 == 1
            )
            span = last_span if is_backward else first_span
            while span > first_span if is_backward else span < last_span:
                found = segment_pairs.next_segments(
                    spans,
                    document,
                    span,
                    is_backward,
                    target,
                    settings.max_tokens,
                    settings.pair_loss,
                    candidates,
                    stream,
                )
                _count_segments(found, spans, span, own_counts)
                span = found.span
                while at + max_record_bytes > len(data):
                    data = _longer(data, at)
                if num_records == len(keys):
                    keys = _longer(keys, num_records)
                    ends = _longer(ends, num_records)
                    documents = _longer(documents, num_records)
                at = _write_record(
                    data,
                    at,
                    spans.ids,
                    found,
                    settings,
                    stream,
                    own_counts,
                    input_ids,
                    flags,
                    positions,
                    labels,
                )
                key = prng.next_word(stream) >> np.uint64(1)
                keys[num_records] = key | HELDOUT_BIT if is_heldout[document] else key
                ends[num_records] = at
                documents[num_records] = document
                num_records += 1
    return data[:at], ends[:num_records], keys[:num_records], documents[:num_records]


@numba_cache.kernel
def _count_segments(found, spans, span, own_counts):
    """Adds segments to the counts of their document.

    Args:
      found: see `segment_pairs.Segments`.
      spans: see `segment_pairs.Spans`.
      span: where the chunk begins; where it ends, if packed from the end.
      own_counts: int64 [`num_counts`], of the document.
    """
    num_own = abs(spans.span_starts[found.span] - spans.span_starts[span])
    own_counts[RECORDS] += 1
    own_counts[TOKENS] += num_own
    num_in_text = found.a_end - found.a_start + found.b_end - found.b_start
    own_counts[TOKENS_FROM_OTHER_DOCUMENTS] += num_in_text - num_own
    own_counts[PAIRS] += found.label != segment_pairs.NO_LABEL
    own_counts[NEGATIVE_PAIRS] += found.label == 1


@numba_cache.kernel
def _write_record(
    data,
    at,
    ids,
    found,
    settings,
    stream,
    own_counts,
    input_ids,
    flags,
    positions,
    labels,
):
    """Writes one record, masked unless `settings.is_dynamic`.

    Args:
      data: uint8, with room for the record.
      at: where to write.
      ids: int32 [T], see `segment_pairs.Spans`.
      found: see `segment_pairs.Segments`.
      settings: see `RecordSettings`.
      stream: uint64 [4], see `prng`.
      own_counts: int64 [`num_counts`], of the document.
      input_ids: int32 [S], overwritten, as are the next three.
      flags: bool [S].
      positions: int32 [P].
      labels: int32 [P].

    Returns:
      The place after the record.
    """
    num_tokens, segment_a_length = _join(ids, found, settings, input_ids, flags)
    if settings.is_dynamic:
        return example_proto.put_dynamic(
            data,
            at,
            input_ids[:num_tokens],
            flags,
            segment_a_length,
            found.label,
            settings.id_bytes,
        )
    max_ngram = len(settings.law.cumulative)
    placed_start = NUM_PLAIN_COUNTS + max_ngram
    kinds_start = placed_start + max_ngram
    num_masked = masking.mask_sequence(
        input_ids[:num_tokens],
        flags,
        segment_a_length,
        settings.law,
        stream,
        positions,
        labels,
        own_counts[NUM_PLAIN_COUNTS:placed_start],
        own_counts[placed_start:kinds_start],
        own_counts[kinds_start:],
    )
    return example_proto.put_static(
        data,
        at,
        input_ids[:num_tokens],
        positions[:num_masked],
        labels[:num_masked],
        segment_a_length,
        found.label,
        settings.id_bytes,
    )


@numba_cache.kernel
def _candidate_documents(spans, is_heldout):
    """The documents that a random second segment may come from.

    For a held-out document any; for a training document only training documents, so
    that no held-out text is trained on.
    """
    any_document = np.empty(len(is_heldout), np.int64)
    in_training = np.empty(len(is_heldout), np.int64)
    num_any = num_in_training = 0
    for document in range(len(is_heldout)):
        if spans.document_spans[document] == spans.document_spans[document + 1]:
            continue
        any_document[num_any] = document
        num_any += 1
        if not is_heldout[document]:
            in_training[num_in_training] = document
            num_in_training += 1
    return any_document[:num_any], in_training[:num_in_training]


@numba_cache.kernel
def _join(ids, found, settings, input_ids, flags):
    """Fills in [CLS], segment A, [SEP], segment B, [SEP], and the word starts.

    Returns:
      The number of tokens, and the number up to and including the first [SEP].
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


@numba_cache.kernel
def _longer(values, size):
    longer = np.empty(2 * len(values) + 65536, values.dtype)
    longer[:size] = values[:size]
    return longer


def sort_records(batch: RecordBatch) -> RecordBatch:
    """Returns the records in the order of their keys; equal keys keep their order."""
    return RecordBatch(*_sort_records(batch))


@numba_cache.kernel
def _sort_records(batch):
    """Implements `sort_records`; returns the fields of `RecordBatch`."""
    order = np.argsort(batch.keys, kind="mergesort")
    data = np.empty_like(batch.data)
    ends = np.empty_like(batch.ends)
    at = 0
    for rank in range(len(order)):
        record = order[rank]
        start = batch.ends[record - 1] if record else 0
        size = batch.ends[record] - start
        data[at : at + size] = batch.data[start : batch.ends[record]]
        at += size
        ends[rank] = at
    return data, ends, batch.keys[order], batch.documents[order]
