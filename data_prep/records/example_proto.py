"""The bytes of a record: a serialized `tf.train.Example`, written by compiled loops.

The features, see `albert_tf.data.schema`, are in the order of their names, as in
protobuf's deterministic serialization, and equal records have equal bytes; a test
compares them with protobuf's own.
"""

import numpy as np

from albert_tf.core import numba_cache

FEATURE_NAMES = tuple(
    np.frombuffer(name, np.uint8)
    for name in (
        b"input_ids",
        b"is_word_start",
        b"masked_lm_ids",
        b"masked_lm_positions",
        b"next_sentence_labels",
        b"segment_a_length",
    )
)
_INPUT_IDS, _IS_WORD_START, _MASKED_IDS, _MASKED_POSITIONS, _LABELS, _LENGTH = (
    FEATURE_NAMES
)
POSITION_BYTES = 2
# Tags of length-delimited protobuf fields, by field number.
FIELD_1, FIELD_2, FIELD_3 = 0x0A, 0x12, 0x1A
BYTES_LIST, INT64_LIST = FIELD_1, FIELD_3
# A negative integer is a varint of 64 bits.
NEGATIVE_BYTES = 10


@numba_cache.kernel
def static_size(num_tokens, num_masked, segment_a_length, pair_label, id_bytes):
    """Bytes of a masked record without its header, and with it."""
    size = (
        _feature_size(_INPUT_IDS, num_tokens * id_bytes)
        + _feature_size(_MASKED_IDS, num_masked * id_bytes)
        + _feature_size(_MASKED_POSITIONS, num_masked * POSITION_BYTES)
        + _feature_size(_LABELS, _label_size(pair_label))
        + _feature_size(_LENGTH, _varint_size(segment_a_length))
    )
    return size, 1 + _varint_size(size) + size


@numba_cache.kernel
def dynamic_size(num_tokens, segment_a_length, pair_label, id_bytes):
    """Bytes of a record without masks, without its header and with it."""
    size = (
        _feature_size(_INPUT_IDS, num_tokens * id_bytes)
        + _feature_size(_IS_WORD_START, (num_tokens + 7) // 8)
        + _feature_size(_LABELS, _label_size(pair_label))
        + _feature_size(_LENGTH, _varint_size(segment_a_length))
    )
    return size, 1 + _varint_size(size) + size


@numba_cache.kernel
def put_static(
    buffer, at, input_ids, positions, labels, segment_a_length, pair_label, id_bytes
):
    """Writes a masked record.

    Args:
      buffer: uint8, with room for `static_size`.
      at: where to write.
      input_ids: int32 [num_tokens], with masks.
      positions: int32 [num_masked].
      labels: int32 [num_masked].
      segment_a_length: see `schema.record_features`.
      pair_label: 0, 1 or -1, see `schema.PAIR_LABELS`.
      id_bytes: 2 or 4.

    Returns:
      The place after the record.
    """
    num_tokens, num_masked = len(input_ids), len(positions)
    size, _ = static_size(
        num_tokens, num_masked, segment_a_length, pair_label, id_bytes
    )
    buffer[at] = FIELD_1
    at = _put_varint(buffer, at + 1, size)
    at = _put_header(buffer, at, _INPUT_IDS, BYTES_LIST, num_tokens * id_bytes)
    at = _put_integers(buffer, at, input_ids, id_bytes)
    at = _put_header(buffer, at, _MASKED_IDS, BYTES_LIST, num_masked * id_bytes)
    at = _put_integers(buffer, at, labels, id_bytes)
    num_bytes = num_masked * POSITION_BYTES
    at = _put_header(buffer, at, _MASKED_POSITIONS, BYTES_LIST, num_bytes)
    at = _put_integers(buffer, at, positions, POSITION_BYTES)
    return _put_pair(buffer, at, pair_label, segment_a_length)


@numba_cache.kernel
def put_dynamic(
    buffer, at, input_ids, is_word_start, segment_a_length, pair_label, id_bytes
):
    """Writes a record without masks.

    Args:
      buffer: uint8, with room for `dynamic_size`.
      at: where to write.
      input_ids: int32 [num_tokens].
      is_word_start: bool [num_tokens].
      segment_a_length: see `schema.record_features`.
      pair_label: 0, 1 or -1, see `schema.PAIR_LABELS`.
      id_bytes: 2 or 4.

    Returns:
      The place after the record.
    """
    num_tokens = len(input_ids)
    size, _ = dynamic_size(num_tokens, segment_a_length, pair_label, id_bytes)
    buffer[at] = FIELD_1
    at = _put_varint(buffer, at + 1, size)
    at = _put_header(buffer, at, _INPUT_IDS, BYTES_LIST, num_tokens * id_bytes)
    at = _put_integers(buffer, at, input_ids, id_bytes)
    num_bytes = (num_tokens + 7) // 8
    at = _put_header(buffer, at, _IS_WORD_START, BYTES_LIST, num_bytes)
    buffer[at : at + num_bytes] = 0
    for place in range(num_tokens):
        if is_word_start[place]:
            buffer[at + place // 8] |= 1 << (place % 8)
    return _put_pair(buffer, at + num_bytes, pair_label, segment_a_length)


@numba_cache.kernel
def count_tokens(data, starts, id_bytes, is_dynamic, tokens, masked):
    """Counts the tokens of records before masking.

    Args:
      data: uint8, records that this module wrote.
      starts: int64 [num_records], where each begins.
      id_bytes: 2 or 4.
      is_dynamic: whether the records are without masks.
      tokens: int64 [V], incremented by the occurrences of each id in the records.
      masked: int64 [V], the same for masked tokens; all tokens if dynamic.
    """
    for start in starts:
        _, at = _get_varint(data, start + 1)
        ids_at, ids_end = _payload(data, at)
        _count(data, ids_at, ids_end, id_bytes, tokens)
        if is_dynamic:
            _count(data, ids_at, ids_end, id_bytes, masked)
            continue
        labels_at, labels_end = _payload(data, ids_end)
        positions_at, _ = _payload(data, labels_end)
        for i in range((labels_end - labels_at) // id_bytes):
            label = _get_integer(data, labels_at + i * id_bytes, id_bytes)
            place = positions_at + i * POSITION_BYTES
            position = _get_integer(data, place, POSITION_BYTES)
            shown = _get_integer(data, ids_at + position * id_bytes, id_bytes)
            tokens[shown] -= 1
            tokens[label] += 1
            masked[label] += 1


@numba_cache.kernel
def _count(data, start, end, id_bytes, counts):
    """Adds the occurrences of each id in data[start:end] to int64 [V]."""
    if id_bytes == 2:  # a loop for itself is several times as fast
        for place in range(start, end, 2):
            counts[np.int64(data[place]) | (np.int64(data[place + 1]) << 8)] += 1
    else:
        for place in range(start, end, id_bytes):
            counts[_get_integer(data, place, id_bytes)] += 1


@numba_cache.kernel
def _varint_size(value):
    size = 1
    while value >= 128:
        value >>= 7
        size += 1
    return size


@numba_cache.kernel
def _label_size(pair_label):
    return NEGATIVE_BYTES if pair_label < 0 else 1


@numba_cache.kernel
def _put_varint(buffer, at, value):
    while value >= 128:
        buffer[at] = (value & 127) | 128
        value >>= 7
        at += 1
    buffer[at] = value
    return at + 1


@numba_cache.kernel
def _get_varint(data, at):
    value = np.int64(0)
    shift = 0
    while data[at] >= 128:
        value |= np.int64(data[at] & 127) << shift
        shift += 7
        at += 1
    return value | (np.int64(data[at]) << shift), at + 1


@numba_cache.kernel
def _sizes(name, num_bytes):
    """Lengths of a feature's list, of the feature, and of its entry in the map."""
    of_list = 1 + _varint_size(num_bytes) + num_bytes
    of_feature = 1 + _varint_size(of_list) + of_list
    of_name = 1 + _varint_size(len(name)) + len(name)
    return of_list, of_feature, of_name + 1 + _varint_size(of_feature) + of_feature


@numba_cache.kernel
def _feature_size(name, num_bytes):
    _, _, of_entry = _sizes(name, num_bytes)
    return 1 + _varint_size(of_entry) + of_entry


@numba_cache.kernel
def _put_header(buffer, at, name, kind, num_bytes):
    """Writes the part of a feature before its `num_bytes` of payload.

    The payload is one string of bytes (`BYTES_LIST`), or the packed integers of an
    `INT64_LIST`: the headers differ in the kind alone.
    """
    of_list, of_feature, of_entry = _sizes(name, num_bytes)
    buffer[at] = FIELD_1
    at = _put_varint(buffer, at + 1, of_entry)
    buffer[at] = FIELD_1
    at = _put_varint(buffer, at + 1, len(name))
    buffer[at : at + len(name)] = name
    at += len(name)
    buffer[at] = FIELD_2
    at = _put_varint(buffer, at + 1, of_feature)
    buffer[at] = kind
    at = _put_varint(buffer, at + 1, of_list)
    buffer[at] = FIELD_1
    return _put_varint(buffer, at + 1, num_bytes)


@numba_cache.kernel
def _payload(data, at):
    """The place [start, end) of a feature's payload; the feature ends with it."""
    _, at = _get_varint(data, at + 1)
    name_size, at = _get_varint(data, at + 1)
    at += name_size
    for _ in range(3):  # the feature, its list, the payload
        num_bytes, at = _get_varint(data, at + 1)
    return at, at + num_bytes


@numba_cache.kernel
def _put_integers(buffer, at, values, width):
    """Writes integers as `width` little-endian bytes each: 2 or 4."""
    for value in values:
        buffer[at] = value & 255
        buffer[at + 1] = (value >> 8) & 255
        if width == 4:
            buffer[at + 2] = (value >> 16) & 255
            buffer[at + 3] = (value >> 24) & 255
        at += width
    return at


@numba_cache.kernel
def _get_integer(data, at, width):
    value = np.int64(data[at]) | (np.int64(data[at + 1]) << 8)
    if width == 4:
        value |= np.int64(data[at + 2]) << 16
        value |= np.int64(data[at + 3]) << 24
    return value


@numba_cache.kernel
def _put_pair(buffer, at, pair_label, segment_a_length):
    num_bytes = _label_size(pair_label)
    at = _put_header(buffer, at, _LABELS, INT64_LIST, num_bytes)
    if pair_label < 0:
        buffer[at : at + NEGATIVE_BYTES - 1] = 255
        buffer[at + NEGATIVE_BYTES - 1] = 1
    else:
        buffer[at] = pair_label
    at += num_bytes
    num_bytes = _varint_size(segment_a_length)
    at = _put_header(buffer, at, _LENGTH, INT64_LIST, num_bytes)
    return _put_varint(buffer, at, segment_a_length)
