"""Checks records that protobuf wrote against the rules, and breaks each rule once."""

import numpy as np
import pytest
import tensorflow as tf

from data_prep.verification import records

RULES = records.Rules(
    vocab_size=300,
    seq_length=10,
    row_length=20,
    row_sequences=0,
    num_predictions=2,
    id_bytes=2,
    is_dynamic=False,
    has_pairs=True,
    cls_id=2,
    sep_id=3,
)
IDS = [2, 20, 4, 3, 9, 8, 7, 6, 3]


def serialize(
    input_ids=IDS,
    masked_ids=(261, 5),
    positions=(2, 5),
    label=1,
    segment_a_length=4,
    bits=None,
    **more,
):
    """A record, serialized by protobuf."""
    values = {
        "input_ids": np.array(input_ids, "<u2").tobytes(),
        "next_sentence_labels": label,
        "segment_a_length": segment_a_length,
        **more,
    }
    if bits is None:
        values["masked_lm_ids"] = np.array(masked_ids, "<u2").tobytes()
        values["masked_lm_positions"] = np.array(positions, "<u2").tobytes()
    else:
        values["is_word_start"] = bytes(bits)
    example = tf.train.Example()
    for name, value in values.items():
        feature = example.features.feature[name]
        if isinstance(value, bytes):
            feature.bytes_list.value.append(value)
        else:
            feature.int64_list.value.append(value)
    return example.SerializeToString(deterministic=True)


def pack(*sequences, name="sequences"):
    """A packed record, serialized by protobuf."""
    example = tf.train.Example()
    example.features.feature[name].bytes_list.value.extend(sequences)
    return example.SerializeToString(deterministic=True)


def check(record, rules=RULES):
    """The fault of the middle one of three records, and the totals."""
    good = serialize() if not rules.is_dynamic else serialize(bits=[0b01100110, 0])
    if rules.row_sequences:
        good = pack(good)
    data = good + record + good
    ends = np.cumsum([len(good), len(record), len(good)])
    starts = np.append(0, ends[:-1])
    totals = np.zeros(records.NUM_TOTALS, np.int64)
    bad, code = records.check_records(
        np.frombuffer(data, np.uint8), starts, ends, rules, totals
    )
    assert bad == (1 if code else 3)
    return records.FAULTS[code], totals.tolist()


def test_a_good_record_is_counted():
    assert check(serialize(label=0)) == ("", [0, 2, 27, 6])
    assert check(serialize(masked_ids=(), positions=())) == ("", [0, 3, 27, 4])
    single = serialize([2, 20, 4, 9, 3], (), (), label=-1, segment_a_length=5)
    assert check(single) == ("", [1, 2, 23, 4])


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"input_ids": [2, 20, 4, 3, 9, 300, 7, 6, 3]}, "not in the vocabulary"),
        ({"masked_ids": (300, 5)}, "not in the vocabulary"),
        ({"input_ids": [2, 20, 4, 3, 9, 8, 7, 6, 5, 5, 3]}, "more tokens than"),
        ({"input_ids": []}, "more tokens than seq_length, or none"),
        ({"input_ids": [5, *IDS[1:]]}, "[CLS] and [SEP] are not where"),
        ({"input_ids": [*IDS[:-1], 5]}, "[CLS] and [SEP] are not where"),
        ({"segment_a_length": 5}, "[CLS] and [SEP] are not where"),
        ({"segment_a_length": 2}, "segment_a_length is not within"),
        ({"segment_a_length": 9}, "segment_a_length is not within"),
        ({"segment_a_length": 1 << 62}, "segment_a_length is not within"),
        ({"segment_a_length": -1}, "does not hold the features"),
        ({"positions": (5, 2)}, "do not ascend"),
        ({"positions": (2, 2)}, "do not ascend"),
        ({"positions": (0, 2)}, "are on [CLS]"),
        ({"positions": (2, 3)}, "are on [CLS]"),
        ({"positions": (2, 8)}, "are on [CLS]"),
        ({"positions": (2, 9)}, "are on [CLS]"),
        ({"positions": (2,)}, "not one id for each position"),
        ({"masked_ids": (1, 2, 3), "positions": (1, 2, 4)}, "more masked tokens than"),
        ({"label": 2}, "is not -1, 0 or 1"),
        ({"label": -2}, "does not hold the features"),
        ({"label": 1 << 40}, "is not -1, 0 or 1"),
        ({"label": -1}, "not all of them without a label"),
        ({"label": 0, "segment_a_length": 9}, "segment_a_length is not within"),
        ({"label": b"1"}, "does not hold the features"),
        ({"bits": [0b01100110, 0]}, "does not hold the features"),
        ({"zebra": 1}, "does not hold the features"),
        ({"aardvark": 1}, "does not hold the features"),
    ],
)
def test_each_rule_is_named_where_it_is_broken(changes, fault):
    assert fault in check(serialize(**changes))[0]


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"bits": [0b01100110, 0]}, ""),
        ({"bits": [0b01100111, 0]}, "is_word_start is not one bit"),
        ({"bits": [0b01101110, 0]}, "is_word_start is not one bit"),
        ({"bits": [0b01100110, 1]}, "is_word_start is not one bit"),
        ({"bits": [0b01100110, 2]}, "is_word_start is not one bit"),
        ({"bits": [0b01100110]}, "is_word_start is not one bit"),
        ({}, "does not hold the features"),
    ],
)
def test_records_without_masks_have_one_bit_a_token(changes, fault):
    found, _ = check(serialize(**changes), RULES._replace(is_dynamic=True))
    assert found == "" if not fault else fault in found


def test_a_single_segment_ends_with_the_record():
    rules = RULES._replace(has_pairs=False, is_dynamic=True)
    record = serialize([2, 20, 4, 9, 3], label=-1, segment_a_length=5, bits=[2])
    totals = np.zeros(records.NUM_TOTALS, np.int64)
    data = np.frombuffer(record, np.uint8)
    edges = np.array([0]), np.array([len(record)])
    assert records.check_records(data, *edges, rules, totals) == (1, 0)
    assert totals.tolist() == [1, 0, 5, 0]
    for changes, fault in (
        ({}, "not -1 without a pair loss"),
        ({"label": -1}, "segment_a_length"),
    ):
        pair = np.frombuffer(serialize(bits=[0b01100110, 0], **changes), np.uint8)
        edges = np.array([0]), np.array([len(pair)])
        _, code = records.check_records(pair, *edges, rules, totals)
        assert fault in records.FAULTS[code]


def test_no_change_of_a_byte_makes_the_check_read_after_a_record():
    record = serialize()
    for place in range(len(record)):
        for bit in range(8):
            broken = bytearray(record)
            broken[place] ^= 1 << bit
            check(bytes(broken))
    for size in range(len(record)):
        assert "does not hold" in check(record[:size])[0]


PACKED = RULES._replace(row_sequences=3)
SINGLE = serialize([2, 20, 3], (), (), label=-1, segment_a_length=3)


def test_sequences_of_a_packed_record_are_counted():
    assert check(pack(serialize(label=0), SINGLE), PACKED) == ("", [1, 2, 30, 6])
    assert check(pack(serialize(), serialize()), PACKED) == ("", [0, 4, 36, 8])


@pytest.mark.parametrize(
    ("record", "fault"),
    [
        (pack(SINGLE, serialize(label=2)), "is not -1, 0 or 1"),
        (pack(serialize(), serialize(), SINGLE), "more of them or of tokens than"),
        (pack(*[SINGLE] * 4), "more of them or of tokens than a row"),
        (pack(), "has no sequence"),
        (pack(SINGLE, b""), "does not hold the features"),
        (pack(SINGLE, name="sequence"), "does not hold the features"),
        (SINGLE, "does not hold the features"),
    ],
)
def test_a_packed_record_holds_what_fits_a_row(record, fault):
    assert fault in check(record, PACKED)[0]


def test_no_change_of_a_byte_makes_the_check_read_after_a_packed_record():
    record = pack(SINGLE, serialize())
    for place in range(len(record)):
        for bit in range(8):
            broken = bytearray(record)
            broken[place] ^= 1 << bit
            check(bytes(broken), PACKED)
    for size in range(len(record)):
        assert check(record[:size], PACKED)[0]
