"""The bytes of records, against protobuf's own."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.data import schema
from data_prep.records import example_proto, reader

INPUT_IDS = np.array([2, 20, 4, 3, 9, 3], np.int32)
POSITIONS = np.array([2], np.int32)
LABELS = np.array([261], np.int32)
IS_WORD_START = np.array([0, 1, 0, 0, 1, 0], bool)


def static(
    input_ids=INPUT_IDS, positions=POSITIONS, labels=LABELS, length=4, label=1, width=2
):
    """The bytes of a masked record alone."""
    _, size = example_proto.static_size(
        len(input_ids), len(positions), length, label, width
    )
    buffer = np.full(size + 3, 255, np.uint8)
    end = example_proto.put_static(
        buffer, 3, input_ids, positions, labels, length, label, width
    )
    assert end == len(buffer)
    return buffer[3:].tobytes()


def dynamic(
    input_ids=INPUT_IDS, is_word_start=IS_WORD_START, length=4, label=1, width=2
):
    """The bytes of a record without masks alone."""
    _, size = example_proto.dynamic_size(len(input_ids), length, label, width)
    buffer = np.full(size, 255, np.uint8)
    end = example_proto.put_dynamic(
        buffer, 0, input_ids, is_word_start, length, label, width
    )
    assert end == len(buffer)
    return buffer.tobytes()


def features_of(serialized):
    return tf.train.Example.FromString(serialized).features.feature


def protobufs_own(features):
    """The same features, serialized by protobuf."""
    example = tf.train.Example()
    for name, value in features.items():
        feature = example.features.feature[name]
        if isinstance(value, bytes):
            feature.bytes_list.value.append(value)
        else:
            feature.int64_list.value.append(value)
    return example.SerializeToString(deterministic=True)


def test_a_record_is_little_endian_bytes_without_padding():
    features = features_of(static())
    assert set(features) == set(schema.record_features("static"))
    ids = features["input_ids"].bytes_list.value[0]
    assert ids == bytes([2, 0, 20, 0, 4, 0, 3, 0, 9, 0, 3, 0])
    assert features["masked_lm_positions"].bytes_list.value[0] == bytes([2, 0])
    assert features["masked_lm_ids"].bytes_list.value[0] == bytes([5, 1])
    assert features["segment_a_length"].int64_list.value == [4]
    assert features["next_sentence_labels"].int64_list.value == [1]


def test_a_record_without_masks_has_a_bit_a_token():
    features = features_of(dynamic())
    assert set(features) == set(schema.record_features("dynamic"))
    assert features["is_word_start"].bytes_list.value[0] == bytes([0b010010])
    nine = dynamic(np.arange(9, dtype=np.int32), np.arange(9) % 2 == 0)
    bits = features_of(nine)["is_word_start"].bytes_list.value[0]
    assert bits == bytes([0b01010101, 0b1])


@pytest.mark.parametrize("width", [2, 4])
@pytest.mark.parametrize("num_tokens", [5, 60, 127, 128, 512, 16000])
@pytest.mark.parametrize("num_masked", [0, 1, 70])
@pytest.mark.parametrize("label", [-1, 0])
def test_the_bytes_are_those_of_protobuf(num_tokens, num_masked, width, label):
    rng = np.random.default_rng(num_tokens)
    top = 65535 if width == 2 else 250_000
    input_ids = rng.integers(0, top, num_tokens).astype(np.int32)
    positions = np.sort(rng.integers(1, 60000, num_masked)).astype(np.int32)
    labels = rng.integers(0, top, num_masked).astype(np.int32)
    length = int(rng.integers(2, num_tokens))
    dtype = f"<u{width}"
    common = {
        "input_ids": input_ids.astype(dtype).tobytes(),
        "segment_a_length": length,
        "next_sentence_labels": label,
    }
    assert static(input_ids, positions, labels, length, label, width) == protobufs_own(
        common
        | {
            "masked_lm_positions": positions.astype("<u2").tobytes(),
            "masked_lm_ids": labels.astype(dtype).tobytes(),
        }
    )
    flags = rng.random(num_tokens) < 0.5
    bits = np.packbits(flags, bitorder="little").tobytes()
    assert dynamic(input_ids, flags, length, label, width) == protobufs_own(
        common | {"is_word_start": bits}
    )


@pytest.mark.parametrize("vocab_size", [30000, 65536, 65537, 250000])
def test_the_reader_gives_back_what_was_written(vocab_size):
    width = 2 if vocab_size <= 65536 else 4
    values = reader.parse_record(static(width=width), "static", vocab_size)
    assert {name: np.array(value).tolist() for name, value in values.items()} == {
        "input_ids": [2, 20, 4, 3, 9, 3],
        "segment_a_length": 4,
        "masked_lm_positions": [2],
        "masked_lm_ids": [261],
        "next_sentence_labels": 1,
    }
    assert reader.unmask(values).tolist() == [2, 20, 261, 3, 9, 3]
    values = reader.parse_record(dynamic(width=width), "dynamic", vocab_size)
    assert values["is_word_start"].tolist() == IS_WORD_START.tolist()
    assert reader.unmask(values).tolist() == INPUT_IDS.tolist()


def test_a_record_that_lacks_a_feature_is_an_error():
    with pytest.raises(ValueError, match="one input_ids; received 0"):
        reader.parse_record(b"", "static", 30000)


@pytest.mark.parametrize("width", [2, 4])
def test_tokens_are_counted_as_they_were_before_masking(width):
    first = static(width=width)
    second = static(
        np.array([2, 20, 3], np.int32),
        np.array([1], np.int32),
        np.array([9], np.int32),
        width=width,
    )
    data = np.frombuffer(first + second, np.uint8)
    tokens, masked = np.zeros((2, 300), np.int64)
    starts = np.array([0, len(first)])
    ends = np.array([len(first), len(data)])
    arguments = (data, starts, ends, width, False, tokens, masked)
    assert example_proto.count_tokens(*arguments) == 2
    assert dict(enumerate(tokens[tokens > 0].tolist())) == {
        0: 2,
        1: 3,
        2: 2,
        3: 1,
        4: 1,
    }
    assert np.flatnonzero(tokens).tolist() == [2, 3, 9, 20, 261]
    assert np.flatnonzero(masked).tolist() == [9, 261]


def test_all_tokens_count_as_masked_if_masks_are_drawn_later():
    data = np.frombuffer(dynamic(), np.uint8)
    tokens, masked = np.zeros((2, 30), np.int64)
    starts, ends = np.array([0]), np.array([len(data)])
    assert example_proto.count_tokens(data, starts, ends, 2, True, tokens, masked) == 1
    assert np.flatnonzero(tokens).tolist() == [2, 3, 4, 9, 20]
    assert tokens.tolist() == masked.tolist()


@pytest.mark.parametrize("width", [2, 4])
@pytest.mark.parametrize(
    "fault", ["id", "label", "position", "size", "empty", "no positions"]
)
def test_counting_stops_at_a_record_with_impossible_ids_or_sizes(width, fault):
    fine = static(width=width)
    bad = {
        "id": static(INPUT_IDS + np.array([0, 280, 0, 0, 0, 0], np.int32), width=width),
        "label": static(labels=np.array([300], np.int32), width=width),
        "position": static(positions=np.array([6], np.int32), width=width),
        "size": fine.replace(b"input_ids\x12", b"input_ids\x12\xff", 1),
        "empty": b"",
        "no positions": fine[: fine.index(b"masked_lm_positions")],
    }[fault]
    data = np.frombuffer(fine + bad + fine, np.uint8)
    starts = np.array([0, len(fine), len(fine + bad)])
    ends = np.array([len(fine), len(fine + bad), len(data)])
    tokens, masked = np.zeros((2, 300), np.int64)
    arguments = (data, starts, ends, width, False, tokens, masked)
    assert example_proto.count_tokens(*arguments) == 1
    assert masked.sum() == 1


def test_counting_without_masks_stops_at_an_impossible_id():
    data = np.frombuffer(dynamic(INPUT_IDS + np.int32(20)), np.uint8)
    tokens, masked = np.zeros((2, 30), np.int64)
    starts, ends = np.array([0]), np.array([len(data)])
    assert example_proto.count_tokens(data, starts, ends, 2, True, tokens, masked) == 0
