"""Records that are told apart by a number, to count how often each is drawn."""

import dataclasses

import numpy as np
import tensorflow as tf

from albert_tf.data import schema

_FIRST_ID = 100  # of numbered records; above control symbols


def write(folder, manifest: schema.Manifest, sizes, first: int = 0) -> schema.Manifest:
    """Writes shards of these sizes, whose second tokens are the numbers from `first`.

    Returns the manifest for them, as one of records like those of `manifest`.
    """
    numbers = iter(range(first, first + sum(sizes)))
    shards = []
    for shard, size in enumerate(sizes):
        name = f"train-{shard}.tfrecord"
        with tf.io.TFRecordWriter(str(folder / name)) as writer:
            for _ in range(size):
                record = tf.train.Example()
                feature = record.features.feature
                ids = np.array([2, _FIRST_ID + next(numbers), 3, 5, 3], np.uint16)
                feature["input_ids"].bytes_list.value.append(ids.tobytes())
                feature["segment_a_length"].int64_list.value.append(3)
                feature["next_sentence_labels"].int64_list.value.append(1)
                if manifest.data["masking"] == "dynamic":
                    feature["is_word_start"].bytes_list.value.append(bytes([255, 0, 0]))
                else:
                    for name_of_masks in ("masked_lm_ids", "masked_lm_positions"):
                        feature[name_of_masks].bytes_list.value.append(b"")
                writer.write(record.SerializeToString())
        shards.append(schema.Shard(name, size, 0, ""))
    data = {**manifest.data, "compression": "none"}
    split = schema.RecordSplit(1, sum(sizes), tuple(shards), {})
    return dataclasses.replace(manifest, data=data, splits={schema.TRAIN: split})


def numbers(batch) -> np.ndarray:
    """The numbers of the records of a batch: [B]."""
    return unmasked(batch)[:, 1] - _FIRST_ID


def unmasked(batch) -> np.ndarray:
    """The tokens of a batch before masking: [B, S]."""
    tokens = batch["input_ids"].copy()
    for row in range(len(tokens)):
        places = batch["masked_lm_positions"][row][batch["masked_lm_weights"][row] > 0]
        labels = batch["masked_lm_ids"][row][batch["masked_lm_weights"][row] > 0]
        tokens[row, places] = labels
    return tokens
