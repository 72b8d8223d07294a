"""What lies in a record and in a manifest: all that data_prep and albert_tf share.

A record is a `tf.train.Example` whose token features are little-endian bytes without
padding. The padding, the mask and the segment ids follow from the lengths, so the
reader makes them, and a record holds only what was decided when it was written.
"""

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

FORMAT_VERSION = 2
MANIFEST_FILE = "manifest.json"
VOCAB_FILE = "vocab.model"
CONFIG_FILE = "config.json"
TRAIN = "train"
HELDOUT = "heldout"
SPLITS = (TRAIN, HELDOUT)

# name: kind. "ids" are bytes of `id_dtype(vocab_size)`, "positions" bytes of
# POSITION_DTYPE, "bits" one bit a token, the first in the lowest bit of the first byte,
# "int64" one number.
_COMMON_FEATURES = {
    # [num_tokens] with [CLS], segment A, [SEP], segment B, [SEP], or without the last
    # two where there is but one segment; masks applied if static
    "input_ids": "ids",
    # [CLS] to the first [SEP], both included
    "segment_a_length": "int64",
    # see PAIR_LABELS; 0 without a pair loss (the original's name is kept)
    "next_sentence_labels": "int64",
}
_STATIC_FEATURES = {
    # [num_masked], ascending
    "masked_lm_positions": "positions",
    # [num_masked], the tokens that stood there
    "masked_lm_ids": "ids",
}
_DYNAMIC_FEATURES = {
    # [num_tokens], whether a token begins a word; 0 at special tokens
    "is_word_start": "bits",
}
POSITION_DTYPE = "uint16"

# Labels of sentence-order prediction.
IN_ORDER, SWAPPED = 0, 1
# What the labels 0 and 1 mean, by pair loss.
PAIR_LABELS = {
    "sop": ("in order", "swapped"),
    "nsp": ("next", "random"),
    "none": ("no pair", ""),
}


def record_features(masking: str) -> dict[str, str]:
    """The features of a record and their kinds.

    Args:
      masking: one of `config.MASKINGS`.
    """
    own = _STATIC_FEATURES if masking == "static" else _DYNAMIC_FEATURES
    return {**_COMMON_FEATURES, **own}


def id_dtype(vocab_size: int) -> str:
    """The NumPy name of the dtype of token ids in records: two bytes where they fit."""
    return "uint16" if vocab_size <= 1 << 16 else "int32"


def model_features(seq_length: int, num_predictions: int) -> dict[str, tuple]:
    """Dtype and shape, without the batch axis, of each tensor the model is fed.

    Args:
      seq_length: S, padded length of a sequence.
      num_predictions: P, padded number of masked tokens.
    """
    return {
        "input_ids": ("int32", (seq_length,)),
        "input_mask": ("int32", (seq_length,)),
        "segment_ids": ("int32", (seq_length,)),
        "masked_lm_positions": ("int32", (num_predictions,)),
        "masked_lm_ids": ("int32", (num_predictions,)),
        "masked_lm_weights": ("float32", (num_predictions,)),
        "next_sentence_labels": ("int32", ()),
    }


@dataclasses.dataclass(frozen=True)
class Shard:
    """One file of records; `sha256` is of its bytes."""

    name: str
    num_records: int
    num_bytes: int
    sha256: str


@dataclasses.dataclass(frozen=True)
class Split:
    """The shards of one split (train or heldout) and what was counted in them."""

    num_documents: int
    num_records: int
    shards: tuple[Shard, ...]
    statistics: Mapping[str, Any]


@dataclasses.dataclass(frozen=True)
class Manifest:
    """What a folder of records holds.

    `text` and `data` are the resolved settings as plain values. `documents` and
    `characters` say what became of all that was read, by reason where it was dropped.
    `mask_id` and `reserved_ids`, the ids that no random replacement takes, are what
    dynamic masking needs of the vocabulary. `heldout_unigram_entropy` is the
    cross-entropy, in nats a token, of the held-out masked tokens (of all of them where
    masking is dynamic) under the token frequencies of the training records: what a
    model reaches that learnt nothing but frequencies. It is None where nothing was
    held out. `evaluation_digest` is the digest of the evaluation set whose documents
    were left out, or empty.
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
    splits: Mapping[str, Split]
    heldout_unigram_entropy: float | None
    format_version: int = FORMAT_VERSION

    def to_json(self) -> str:
        """JSON text that `from_json` reads back."""
        return json.dumps(dataclasses.asdict(self), indent=2, sort_keys=True) + "\n"

    @classmethod
    def from_json(cls, text: str) -> "Manifest":
        """Reads what `to_json` wrote.

        Raises:
          ValueError: not JSON, of another format version, or a field is missing.
        """
        try:
            values = json.loads(text)
            version = values["format_version"]
            if version != FORMAT_VERSION:
                raise ValueError(
                    f"the manifest must have format_version {FORMAT_VERSION}; received "
                    f"{version}. Make the records anew"
                )
            values["splits"] = {
                name: Split(
                    **{**split, "shards": tuple(Shard(**s) for s in split["shards"])}
                )
                for name, split in values["splits"].items()
            }
            values["reserved_ids"] = tuple(values["reserved_ids"])
            return cls(**values)
        except (json.JSONDecodeError, KeyError, TypeError) as error:
            raise ValueError(f"not a manifest of records: {error!r}") from error
