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
SEQUENCES = np.frombuffer(b"sequences", np.uint8)
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
def count_tokens(data, starts, ends, id_bytes, is_dynamic, tokens, masked):
    """Counts the tokens of records before masking.

    Args:
      data: uint8, records that this module wrote.
      starts: int64 [num_records], where each begins.
      ends: int64 [num_records], where each ends.
      id_bytes: 2 or 4.
      is_dynamic: whether the records are without masks.
      tokens: int64 [V], incremented by the occurrences of each id in the records.
      masked: int64 [V], the same for masked tokens; all tokens if dynamic.

    Returns:
      The number of records; or the first one whose sizes or ids are impossible, after
      which none is counted.
    """
    for record in range(len(starts)):
        end = ends[record]
        _, at = _get_varint(data, starts[record] + 1, end)
        ids_at, ids_end = _payload(data, at, end)
        if not _count(data, ids_at, ids_end, id_bytes, tokens):
            return record
        if is_dynamic:
            _count(data, ids_at, ids_end, id_bytes, masked)
            continue
        labels_at, labels_end = _payload(data, ids_end, end)
        positions_at, positions_end = _payload(data, labels_end, end)
        num_masked = (labels_end - labels_at) // id_bytes
        if (
            positions_at < 0
            or positions_end - positions_at != num_masked * POSITION_BYTES
        ):
            return record
        for i in range(num_masked):
            label = _get_integer(data, labels_at + i * id_bytes, id_bytes)
            place = positions_at + i * POSITION_BYTES
            shown_at = ids_at + _get_integer(data, place, POSITION_BYTES) * id_bytes
            if label >= len(tokens) or shown_at + id_bytes > ids_end:
                return record
            tokens[_get_integer(data, shown_at, id_bytes)] -= 1
            tokens[label] += 1
            masked[label] += 1
    return len(starts)


@numba_cache.kernel
def num_tokens(data, starts, ends, id_bytes):
    """The numbers of tokens of records that this module wrote; int64 [num_records].

    Args:
      data: uint8, the records.
      starts: int64 [num_records], where each begins.
      ends: int64 [num_records], where each ends.
      id_bytes: 2 or 4.
    """
    found = np.empty(len(starts), np.int64)
    for record in range(len(starts)):
        _, at = _get_varint(data, starts[record] + 1, ends[record])
        ids_at, ids_end = _payload(data, at, ends[record])
        found[record] = (ids_end - ids_at) // id_bytes
    return found


@numba_cache.kernel
def put_rows(data, starts, ends, order, row_ends):
    """Writes packed records: rows of whole records.

    Args:
      data: uint8, records that this module wrote.
      starts: int64 [num_records], where each begins.
      ends: int64 [num_records], where each ends.
      order: int64 [num_records], the records of the first row, then of the next, ...
      row_ends: int64 [num_rows], where each row ends in `order`.

    Returns:
      uint8 [num_bytes], the packed records; int64 [num_rows], where each ends.
    """
    sizes = np.zeros(len(row_ends), np.int64)  # of the lists
    first = 0
    for row in range(len(row_ends)):
        for place in range(first, row_ends[row]):
            record = order[place]
            sizes[row] += _item_size(ends[record] - starts[record])
        first = row_ends[row]
    buffer_ends = np.empty(len(row_ends), np.int64)
    end = 0
    for row in range(len(row_ends)):
        _, of_entry = _sizes(SEQUENCES, sizes[row])
        end += _item_size(_item_size(of_entry))
        buffer_ends[row] = end
    buffer = np.empty(end, np.uint8)
    at = first = 0
    for row in range(len(row_ends)):
        _, of_entry = _sizes(SEQUENCES, sizes[row])
        buffer[at] = FIELD_1
        at = _put_varint(buffer, at + 1, _item_size(of_entry))
        at = _put_list_header(buffer, at, SEQUENCES, BYTES_LIST, sizes[row])
        for place in range(first, row_ends[row]):
            record = order[place]
            size = ends[record] - starts[record]
            buffer[at] = FIELD_1
            at = _put_varint(buffer, at + 1, size)
            buffer[at : at + size] = data[starts[record] : ends[record]]
            at += size
        first = row_ends[row]
    return buffer, buffer_ends


@numba_cache.kernel
def _count(data, start, end, id_bytes, counts):
    """Adds the occurrences of each id in data[start:end] to int64 [V].

    Returns:
      Whether there are only whole ids below V, and `start` is a place.
    """
    if start < 0 or (end - start) % id_bytes:
        return False
    if id_bytes == 2:  # a loop for itself is several times as fast
        for place in range(start, end, 2):
            token = np.int64(data[place]) | (np.int64(data[place + 1]) << 8)
            if token >= len(counts):
                return False
            counts[token] += 1
    else:
        for place in range(start, end, id_bytes):
            token = _get_integer(data, place, id_bytes)
            if token >= len(counts):
                return False
            counts[token] += 1
    return True


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
def _item_size(num_bytes):
    """Bytes of one item of a list, or of its packed integers, with the header."""
    return 1 + _varint_size(num_bytes) + num_bytes


@numba_cache.kernel
def _sizes(name, of_list):
    """Lengths of a feature with a list of that length, and of its entry in the map."""
    of_feature = _item_size(of_list)
    return of_feature, _item_size(len(name)) + _item_size(of_feature)


@numba_cache.kernel
def _feature_size(name, num_bytes):
    _, of_entry = _sizes(name, _item_size(num_bytes))
    return _item_size(of_entry)


@numba_cache.kernel
def _put_list_header(buffer, at, name, kind, of_list):
    """Writes the part of a feature before the items of its list.

    The list is of strings of bytes (`BYTES_LIST`), or of packed integers
    (`INT64_LIST`): the headers differ in the kind alone.
    """
    of_feature, of_entry = _sizes(name, of_list)
    buffer[at] = FIELD_1
    at = _put_varint(buffer, at + 1, of_entry)
    buffer[at] = FIELD_1
    at = _put_varint(buffer, at + 1, len(name))
    buffer[at : at + len(name)] = name
    at += len(name)
    buffer[at] = FIELD_2
    at = _put_varint(buffer, at + 1, of_feature)
    buffer[at] = kind
    return _put_varint(buffer, at + 1, of_list)


@numba_cache.kernel
def _put_header(buffer, at, name, kind, num_bytes):
    """Writes the part of a feature before the `num_bytes` of its only item."""
    at = _put_list_header(buffer, at, name, kind, _item_size(num_bytes))
    buffer[at] = FIELD_1
    return _put_varint(buffer, at + 1, num_bytes)


@numba_cache.kernel
def _payload(data, at, end):
    """The place [start, stop) of a feature's payload; the feature ends with it.

    Args:
      data: uint8.
      at: where the feature begins; below 0 if the one before it was not found.
      end: where the record ends.

    Returns:
      The place; (-1, -1) if a size is impossible.
    """
    num_bytes = np.int64(0)
    # The entry of the map, the name, which is skipped, the feature, its list, the
    # payload.
    for level in range(5):
        if at < 0:
            return np.int64(-1), np.int64(-1)
        num_bytes, at = _get_varint(data, at + 1, end)
        if num_bytes < 0 or num_bytes > end - at:
            return np.int64(-1), np.int64(-1)
        if level == 1:
            at += num_bytes
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
