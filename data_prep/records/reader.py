"""Reads records with TensorFlow's TFRecord reader and protobuf's parser."""

import os
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from albert_tf.core import console
from albert_tf.data import schema


def parse_record(serialized: bytes, masking: str, vocab_size: int) -> dict[str, Any]:
    """The features of a record by name.

    Args:
      serialized: a `tf.train.Example`.
      masking: one of `config.MASKINGS`.
      vocab_size: V.

    Returns:
      int32 arrays, bool [num_tokens] for bits, and int for the single numbers.

    Raises:
      ValueError: a feature is missing, or its bytes are not a whole number of items.
    """
    features = tf.train.Example.FromString(serialized).features.feature
    values: dict[str, Any] = {}
    for name, kind in schema.record_features(masking).items():
        feature = features[name]
        items = (
            feature.int64_list.value if kind == "int64" else feature.bytes_list.value
        )
        if len(items) != 1:
            raise ValueError(f"a record must hold one {name}; received {len(items)}")
        if kind == "int64":
            values[name] = int(items[0])
        elif kind == "bits":
            array = np.frombuffer(items[0], np.uint8)
            values[name] = np.unpackbits(array, bitorder="little").astype(bool)
        else:
            width = schema.id_dtype(vocab_size)
            dtype = np.dtype(width if kind == "ids" else schema.POSITION_DTYPE)
            array = np.frombuffer(items[0], dtype.newbyteorder("<"))
            values[name] = array.astype(np.int32)
    if "is_word_start" in values:
        num_tokens = len(values["input_ids"])
        values["is_word_start"] = values["is_word_start"][:num_tokens]
    return values


def unmask(values: Mapping[str, np.ndarray]) -> np.ndarray:
    """The tokens of a parsed record before masking; int32 [num_tokens]."""
    tokens = values["input_ids"].copy()
    if "masked_lm_positions" in values:
        tokens[values["masked_lm_positions"]] = values["masked_lm_ids"]
    return tokens


def sequences_of(serialized: bytes, is_packed: bool) -> list[bytes]:
    """The records of one sequence in a record that may be packed."""
    if not is_packed:
        return [serialized]
    features = tf.train.Example.FromString(serialized).features.feature
    return list(features[schema.SEQUENCES].bytes_list.value)


class Place(NamedTuple):
    """Where a sequence is.

    Attributes:
      shard: the name of the file.
      record: the index of its record there, from 0.
      is_packed: whether other sequences may share the record.
    """

    shard: str
    record: int
    is_packed: bool = False


def iter_records(
    data_dir: str, manifest: schema.Manifest, split: str
) -> Iterator[tuple[Place, dict[str, Any]]]:
    """The places and features of a split's sequences, in the order of its shards."""
    masking, vocab_size = manifest.data["masking"], manifest.vocab_size
    for shard in manifest.splits[split].shards:
        path = os.path.join(data_dir, shard.name)
        compression = manifest.data["compression"].upper().replace("NONE", "")
        try:
            records = tf.data.TFRecordDataset(path, compression)
            for number, record in enumerate(records):
                for serialized in sequences_of(record.numpy(), manifest.is_packed):
                    values = parse_record(serialized, masking, vocab_size)
                    yield Place(shard.name, number, manifest.is_packed), values
        except tf.errors.OpError as error:
            raise ValueError(
                f"{path} cannot be read; run "
                f"`{console.command_line('data_prep.verify', data_dir)}` for the reason"
            ) from error
