"""Checks of records, by compiled loops.

Nothing in a record is trusted: no byte after its end is read, whatever lengths the
record states.
"""

from typing import NamedTuple

import numpy as np

from albert_tf.core import config as config_lib
from albert_tf.core import numba_cache
from albert_tf.data import schema
from albert_tf.tokenization import tokenizer as tokenizer_lib
from data_prep.records import example_proto

_INPUT_IDS, _IS_WORD_START, _MASKED_IDS, _MASKED_POSITIONS, _LABELS, _LENGTH = (
    example_proto.FEATURE_NAMES
)
_SEQUENCES = example_proto.SEQUENCES
_POSITION_BYTES = example_proto.POSITION_BYTES
_FIELD_1, _FIELD_2 = example_proto.FIELD_1, example_proto.FIELD_2
_BYTES_LIST, _INT64_LIST = example_proto.BYTES_LIST, example_proto.INT64_LIST

FAULTS = (
    "",
    "it does not hold the features that the manifest's settings ask for",
    "it has more tokens than seq_length, or none",
    "segment_a_length is not within the tokens, or not all of them without a label",
    "a token id is not in the vocabulary",
    "[CLS] and [SEP] are not where the segments begin and end",
    "it has more masked tokens than num_predictions, or not one id for each position",
    "masked_lm_positions do not ascend, or are on [CLS], [SEP] or outside the tokens",
    "is_word_start is not one bit for each token, 0 at [CLS] and [SEP]",
    "next_sentence_labels is not -1, 0 or 1, or not -1 without a pair loss",
    "it is packed, and has no sequence, or more of them or of tokens than a row",
)
(
    _FINE,
    _FEATURES,
    _NUM_TOKENS,
    _SEGMENT,
    _TOKEN_ID,
    _SPECIAL,
    _NUM_MASKED,
    _POSITIONS,
    _WORD_STARTS,
    _PAIR_LABEL,
    _ROW,
) = range(len(FAULTS))


NUM_TOTALS = 4


class Rules(NamedTuple):
    """Rules for records, as compiled loops take them; see `make_rules`.

    A packed record has at most `row_sequences` sequences of `row_length` tokens in all;
    0 if records are not packed.
    """

    vocab_size: int
    seq_length: int
    row_length: int
    row_sequences: int
    num_predictions: int
    id_bytes: int
    is_dynamic: bool
    has_pairs: bool
    cls_id: int
    sep_id: int


def make_rules(manifest: schema.Manifest, tokenizer: tokenizer_lib.Tokenizer) -> Rules:
    """Returns the rules of a manifest's settings and its vocabulary."""
    row = config_lib.DataConfig(**manifest.data).row
    return Rules(
        manifest.vocab_size,
        manifest.seq_length,
        row.length,
        row.num_sequences,
        manifest.num_predictions,
        np.dtype(schema.id_dtype(manifest.vocab_size)).itemsize,
        manifest.data["masking"] == "dynamic",
        manifest.data["pair_loss"] != "none",
        tokenizer.cls_id,
        tokenizer.sep_id,
    )


@numba_cache.kernel
def check_records(data, starts, ends, rules, totals):
    """Checks records against the rules.

    Args:
      data: uint8.
      starts: int64 [n], where the records begin in `data`.
      ends: int64 [n], where they end.
      rules: see `Rules`.
      totals: int64 [4], incremented by sequences without a label, with label 1, tokens
        and masked tokens.

    Returns:
      The first record that breaks a rule, and the index of its fault in `FAULTS`.
    """
    for record in range(len(starts)):
        if rules.row_sequences:
            fault = _check_row(data, starts[record], ends[record], rules, totals)
        else:
            fault = _check_record(data, starts[record], ends[record], rules, totals)
        if fault != _FINE:
            return record, fault
    return len(starts), _FINE


@numba_cache.kernel
def _check_row(data, at, end, rules, totals):
    """Checks a packed record in data[at:end]; returns an index in `FAULTS`."""
    if at == end or data[at] != _FIELD_1:
        return _FEATURES
    size, at = _get_varint(data, at + 1, end)
    if size != end - at:
        return _FEATURES
    at, items_end = _items(data, at, end, _SEQUENCES, _BYTES_LIST)
    if at < 0 or items_end != end:
        return _FEATURES
    num_sequences = 0
    num_tokens = totals[2]
    while at < end:
        if data[at] != _FIELD_1:
            return _FEATURES
        size, at = _get_varint(data, at + 1, end)
        if not 0 <= size <= end - at:
            return _FEATURES
        fault = _check_record(data, at, at + size, rules, totals)
        if fault != _FINE:
            return fault
        at += size
        num_sequences += 1
    num_tokens = totals[2] - num_tokens
    if not 0 < num_sequences <= rules.row_sequences or num_tokens > rules.row_length:
        return _ROW
    return _FINE


@numba_cache.kernel
def _check_record(data, at, end, rules, totals):
    """Checks data[at:end] against the rules; returns an index in `FAULTS`."""
    if at == end or data[at] != _FIELD_1:
        return _FEATURES
    size, at = _get_varint(data, at + 1, end)
    if size != end - at:
        return _FEATURES
    # A missing payload makes the following ones fail, too.
    ids_at, ids_end = _payload(data, at, end, _INPUT_IDS, _BYTES_LIST)
    if rules.is_dynamic:
        own_at, own_end = _payload(data, ids_end, end, _IS_WORD_START, _BYTES_LIST)
        positions_at, positions_end = own_end, own_end
    else:
        own_at, own_end = _payload(data, ids_end, end, _MASKED_IDS, _BYTES_LIST)
        positions_at, positions_end = _payload(
            data, own_end, end, _MASKED_POSITIONS, _BYTES_LIST
        )
    label_at, label_end = _payload(data, positions_end, end, _LABELS, _INT64_LIST)
    length_at, length_end = _payload(data, label_end, end, _LENGTH, _INT64_LIST)
    if length_end != end or (ids_end - ids_at) % rules.id_bytes:
        return _FEATURES
    label, label_stop = _get_label(data, label_at, label_end)
    segment_a_length, length_stop = _get_varint(data, length_at, length_end)
    if label_stop != label_end or length_stop != length_end:
        return _FEATURES

    if not -1 <= label <= (1 if rules.has_pairs else -1):
        return _PAIR_LABEL
    num_tokens = (ids_end - ids_at) // rules.id_bytes
    is_pair = label >= 0
    fault = _check_tokens(data, ids_at, num_tokens, segment_a_length, is_pair, rules)
    if fault != _FINE:
        return fault
    num_masked = np.int64(0)
    if rules.is_dynamic:
        num_bytes = own_end - own_at
        fault = _check_bits(data, own_at, num_bytes, num_tokens, segment_a_length)
    else:
        num_masked = (own_end - own_at) // rules.id_bytes
        if (
            num_masked > rules.num_predictions
            or own_end - own_at != num_masked * rules.id_bytes
            or positions_end - positions_at != num_masked * _POSITION_BYTES
        ):
            return _NUM_MASKED
        fault = _check_masked(
            data, own_at, positions_at, num_masked, num_tokens, segment_a_length, rules
        )
    if fault != _FINE:
        return fault
    totals[0] += label == -1
    totals[1] += label == 1
    totals[2] += num_tokens
    totals[3] += num_masked
    return _FINE


@numba_cache.kernel
def _check_tokens(data, at, num_tokens, segment_a_length, is_pair, rules):
    if not 3 <= num_tokens <= rules.seq_length:
        return _NUM_TOKENS
    # Each segment has one token or more, then [SEP].
    longest = num_tokens - 2 if is_pair else num_tokens
    shortest = 3 if is_pair else num_tokens
    if not shortest <= segment_a_length <= longest:
        return _SEGMENT
    for place in range(num_tokens):
        token = _get_integer(data, at + place * rules.id_bytes, rules.id_bytes)
        if not 0 <= token < rules.vocab_size:
            return _TOKEN_ID
        is_end = place == segment_a_length - 1 or place == num_tokens - 1
        if place == 0 and token != rules.cls_id or is_end and token != rules.sep_id:
            return _SPECIAL
    return _FINE


@numba_cache.kernel
def _check_masked(
    data, ids_at, positions_at, num_masked, num_tokens, segment_a_length, rules
):
    before = 0  # the position of [CLS]
    for i in range(num_masked):
        place = positions_at + i * _POSITION_BYTES
        position = _get_integer(data, place, _POSITION_BYTES)
        if (
            position <= before
            or position >= num_tokens - 1
            or position == segment_a_length - 1
        ):
            return _POSITIONS
        before = position
        token = _get_integer(data, ids_at + i * rules.id_bytes, rules.id_bytes)
        if not 0 <= token < rules.vocab_size:
            return _TOKEN_ID
    return _FINE


@numba_cache.kernel
def _check_bits(data, at, num_bytes, num_tokens, segment_a_length):
    if num_bytes != (num_tokens + 7) // 8:
        return _WORD_STARTS
    for place in range(num_bytes * 8):
        is_text = 0 < place < num_tokens - 1 and place != segment_a_length - 1
        if not is_text and (data[at + place // 8] >> (place % 8)) & 1:
            return _WORD_STARTS
    return _FINE


@numba_cache.kernel
def _payload(data, at, end, name, kind):
    """The place of a feature's only item, or (-1, -1) if it is not there.

    Args:
      data: uint8.
      at: where the feature begins; below 0 if the feature before it was not found.
      end: where the record ends.
      name: uint8, the feature's name.
      kind: `_BYTES_LIST` or `_INT64_LIST`.

    Returns:
      [start, stop); the feature ends with its payload.
    """
    at, end = _items(data, at, end, name, kind)
    if at < 0 or at >= end or data[at] != _FIELD_1:
        return -1, -1
    size, at = _get_varint(data, at + 1, end)
    return (at, end) if size >= 0 and size == end - at else (-1, -1)


@numba_cache.kernel
def _items(data, at, end, name, kind):
    """The place of the items of a feature's list, as `_payload` returns one's."""
    if at < 0:
        return -1, -1
    # The entry of the map, then after its name the feature, and its list.
    for level, tag in enumerate((_FIELD_1, _FIELD_2, kind)):
        if at >= end or data[at] != tag:
            return -1, -1
        size, at = _get_varint(data, at + 1, end)
        if size < 0 or size > end - at or (level > 0 and size != end - at):
            return -1, -1
        if level == 0:
            end = at + size
            if size < 2 + len(name) or data[at] != _FIELD_1:
                return -1, -1
            if data[at + 1] != len(name):
                return -1, -1
            for i in range(len(name)):
                if data[at + 2 + i] != name[i]:
                    return -1, -1
            at += 2 + len(name)
    return at, end


@numba_cache.kernel
def _get_label(data, at, end):
    """An integer from -1 and the place after it; the place is -1 if it is not one."""
    if end - at != example_proto.NEGATIVE_BYTES:
        return _get_varint(data, at, end)
    for place in range(at, end - 1):
        if data[place] != 255:
            return np.int64(-1), np.int64(-1)
    is_minus_one = data[end - 1] == 1
    return np.int64(-1), end if is_minus_one else np.int64(-1)


@numba_cache.kernel
def _get_varint(data, at, end):
    """A varint and the place after it; (-1, -1) if it does not end before `end`."""
    value = np.int64(0)
    for i in range(min(9, end - at)):  # 9 times 7 bits are never negative
        byte = np.int64(data[at + i])
        value |= (byte & 127) << (7 * i)
        if byte < 128:
            return value, at + i + 1
    return np.int64(-1), np.int64(-1)


@numba_cache.kernel
def _get_integer(data, at, width):
    value = np.int64(0)
    for i in range(width):
        value |= np.int64(data[at + i]) << (8 * i)
    return value
