"""Format of records and manifests, shared by data_prep and albert_tf.

A record is a `tf.train.Example` whose token features are little-endian bytes without
padding. The reader makes the padding, the mask and the segment ids from the lengths,
so that a record holds only what was decided when it was written.
"""

import dataclasses
import json
import os
from collections.abc import Mapping
from typing import Any

from albert_tf.core import (
    config_io,
    row_shapes,
    setting_types,
    short_repr,
    strict_json,
    validation,
)

FORMAT_VERSION = 3
# Why records of an earlier format are refused.
_REASONS = {
    2: " (it cut sentences to make pairs, so that punctuation revealed labels of pairs)"
}
MANIFEST_FILE = "manifest.json"
MANIFESTS_FILE = "manifests.json"  # of a run that reads several directories, by name
VOCAB_FILE = "vocab.model"
CONFIG_FILE = "config.json"
CHECKPOINT_FILE = "checkpoint"  # names the newest checkpoint of a run
SEEDS_FILE = "seeds.json"
TRAIN = "train"
HELDOUT = "heldout"
SPLITS = (TRAIN, HELDOUT)

# Name: kind. "ids" are bytes of `id_dtype(vocab_size)`, "positions" bytes of
# POSITION_DTYPE, "bits" one bit per token, the first in the lowest bit of the first
# byte, "int64" one number.
_COMMON_FEATURES = {
    # [num_tokens] with [CLS], segment A, [SEP], segment B, [SEP], or without the last
    # two if there is no label; with masks if masking is static
    "input_ids": "ids",
    # [CLS] to the first [SEP], both included
    "segment_a_length": "int64",
    # see PAIR_LABELS; NO_LABEL if there is one segment (the original's name is kept)
    "next_sentence_labels": "int64",
}
_STATIC_FEATURES = {
    # [num_masked], ascending
    "masked_lm_positions": "positions",
    # [num_masked], the tokens at these positions before masking
    "masked_lm_ids": "ids",
}
_DYNAMIC_FEATURES = {
    # [num_tokens], 1 if a token begins a word; 0 at special tokens
    "is_word_start": "bits",
}
POSITION_DTYPE = "uint16"
# The feature of a packed record: its sequences, each a record as above.
SEQUENCES = "sequences"

# Settings of `data` from which masks follow: of the records if masking is static, else
# of the training.
MASK_SETTINGS = (
    "masked_lm_rate",
    "mask_token_rate",
    "random_token_rate",
    "max_predictions_per_seq",
    "max_ngram",
    "ngram_distribution",
    "whole_words",
)

# What masking makes of a token that is to be predicted, in the order of its statistics.
REPLACEMENTS = ("mask", "keep", "random")

# Labels of sentence-order prediction.
IN_ORDER, SWAPPED = 0, 1
# The label of a record with one segment: its pair has no loss and no accuracy.
NO_LABEL = -1
# Meaning of the labels 0 and 1, by pair loss; without one there are none.
PAIR_LABELS = {
    "sop": ("in order", "swapped"),
    "nsp": ("next", "random"),
    "none": (),
}


def record_features(masking: str) -> dict[str, str]:
    """Returns the features of a record and their kinds.

    Args:
      masking: one of `config.MASKINGS`.
    """
    own = _STATIC_FEATURES if masking == "static" else _DYNAMIC_FEATURES
    return {**_COMMON_FEATURES, **own}


def id_dtype(vocab_size: int) -> str:
    """Returns the NumPy name of the dtype of token ids in records."""
    return "uint16" if vocab_size <= 1 << 16 else "int32"


def model_features(row: row_shapes.RowShape) -> dict[str, tuple]:
    """Returns dtype and shape, without the batch axis, of each input of the model.

    Rows of one sequence have `input_mask`, 1 at tokens and 0 at padding. Packed rows
    have `sequence_numbers` instead, from 1 on and 0 at padding, `position_ids` within
    each sequence, and `first_positions` of the sequences in the row. They have a label
    for each sequence, `NO_LABEL` where there is none.

    Args:
      row: the shape.
    """
    tokens, masked = (row.length,), (row.num_predictions,)
    sequences = (row.num_sequences,) if row.num_sequences else ()
    own = (
        {
            "sequence_numbers": ("int32", tokens),
            "position_ids": ("int32", tokens),
            "first_positions": ("int32", sequences),
        }
        if row.num_sequences
        else {"input_mask": ("int32", tokens)}
    )
    return {
        "input_ids": ("int32", tokens),
        **own,
        "segment_ids": ("int32", tokens),
        "masked_lm_positions": ("int32", masked),
        "masked_lm_ids": ("int32", masked),
        "masked_lm_weights": ("float32", masked),
        "next_sentence_labels": ("int32", sequences),
    }


@dataclasses.dataclass(frozen=True)
class Shard:
    """One file of records; `sha256` is of its bytes."""

    name: str
    num_records: int
    num_bytes: int
    sha256: str


@dataclasses.dataclass(frozen=True)
class RecordSplit:
    """The shards of one split (train or heldout), and statistics of their sequences.

    A record is a row of a batch: one sequence, or several packed ones.
    """

    num_documents: int
    num_records: int
    shards: tuple[Shard, ...]
    statistics: Mapping[str, Any]

    @property
    def num_sequences(self) -> int:
        """Sequences with a label or without."""
        return sum(self.statistics["labels"].values())


@dataclasses.dataclass(frozen=True)
class Manifest:
    """Description of a directory of records.

    `text` and `data` are the resolved settings as plain values. `documents` and
    `characters` count what was read, kept and dropped, by reason. Dynamic masking needs
    `mask_id` and `reserved_ids`, the ids that are never random replacements.
    `heldout_unigram_entropy` is the cross-entropy, in nats per token, of the held-out
    masked tokens (of all held-out tokens if masking is dynamic) under the token
    frequencies of the training records: the loss of a model that only learnt
    frequencies. It is None if nothing was held out. `evaluation_digest` is the digest
    of the evaluation set whose documents were omitted, or empty.
    """

    text: Mapping[str, Any]
    data: Mapping[str, Any]
    vocab_size: int
    vocab_sha256: str
    mask_id: int
    reserved_ids: tuple[int, ...]
    seq_length: int
    num_predictions: int
    documents: Mapping[str, Any]
    characters: Mapping[str, Any]
    evaluation_digest: str
    splits: Mapping[str, RecordSplit]
    heldout_unigram_entropy: float | None
    format_version: int = FORMAT_VERSION

    @property
    def is_packed(self) -> bool:
        """Whether a record is a row of several sequences; no older ones are."""
        return bool(self.data.get("pack_sequences"))

    def to_json(self) -> str:
        """Returns JSON text, which `from_json` reads."""
        return json.dumps(dataclasses.asdict(self), indent=2, sort_keys=True) + "\n"

    @classmethod
    def from_json(cls, text: str) -> "Manifest":
        """Reads what `to_json` wrote.

        Raises:
          ValueError: as for `from_values`, or it is not JSON.
        """
        return cls.from_values(strict_json.loads(text, "the manifest"))

    @classmethod
    def from_values(cls, values: Any) -> "Manifest":
        """Reads what JSON gives of a manifest.

        Raises:
          ValueError: of another format version, or a field is missing or has another
            type, or there are no records for training.
        """
        if not isinstance(values, dict) or "format_version" not in values:
            raise ValueError(
                "not a manifest of records, which has a format_version; received "
                f"{short_repr.shown(values)}"
            )
        version = values["format_version"]
        if version != FORMAT_VERSION:
            reason = _REASONS.get(version, "") if isinstance(version, int) else ""
            raise ValueError(
                f"the manifest must have format_version {FORMAT_VERSION}; received "
                f"{short_repr.shown(version)}{reason}. Make the records again"
            )
        values = dict(values)
        for section in ("text", "data"):
            if isinstance(values.get(section), dict):
                values[section] = config_io.with_new_names(section, values[section])
        manifest = setting_types.check("", values, cls)
        if TRAIN not in manifest.splits:
            raise ValueError(
                f"splits must be {TRAIN} and perhaps {HELDOUT}; received "
                f"{short_repr.shown(list(manifest.splits))}"
            )
        for name, split in manifest.splits.items():
            _check_split(f"splits.{short_repr.cut(name)}", split)
        return manifest


def _check_split(key: str, split: RecordSplit) -> None:
    """Raises a ValueError for what would fail where records are read or counted."""
    validation.require(
        split.num_records > 0, f"{key}.num_records must be above 0", split.num_records
    )
    labels = split.statistics.get("labels", {})
    setting_types.check(f"{key}.statistics.labels", labels, Mapping[str, int])
    for shard in split.shards:
        validation.require(
            os.path.basename(shard.name) == shard.name != "",
            f"{key}: the name of a shard must be that of a file beside the manifest",
            shard.name,
        )
