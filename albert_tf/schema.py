"""What lies in a record and in a manifest: all that data_prep and albert_tf share.

A record is a `tf.train.Example` whose token features are little-endian bytes without
padding. The padding, the mask and the segment ids follow from the lengths, so the
reader makes them, and a record holds only what was decided when it was written.
"""

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

FORMAT_VERSION = 1
MANIFEST_FILE = "manifest.json"
VOCAB_FILE = "vocab.model"
CONFIG_FILE = "config.json"
TRAIN = "train"
HELDOUT = "heldout"

# name: (kind, meaning). "ids" are bytes of `id_dtype(vocab_size)`, "positions" bytes of
# POSITION_DTYPE, "int64" one number.
RECORD_FEATURES = {
    # [num_tokens] with [CLS], segment A, [SEP], segment B, [SEP]; masks applied
    "input_ids": "ids",
    # [CLS] to the first [SEP], both included
    "segment_a_length": "int64",
    # [num_masked], ascending
    "masked_lm_positions": "positions",
    # [num_masked], the tokens that stood there
    "masked_lm_ids": "ids",
    # 1 if the two segments were swapped (the original's name is kept)
    "next_sentence_labels": "int64",
}
POSITION_DTYPE = "uint16"

SWAPPED = 1
IN_ORDER = 0


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

    `data` is the resolved DataConfig as plain values. `heldout_unigram_entropy` is
    the cross-entropy, in nats a token, of the held-out masked tokens under the token
    frequencies of the training records: what a model reaches that learnt nothing but
    frequencies. It is None where nothing was held out.
    """

    data: Mapping[str, Any]
    vocab_size: int
    vocab_sha256: str
    seq_length: int
    num_predictions: int
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
            return cls(**values)
        except (json.JSONDecodeError, KeyError, TypeError) as error:
            raise ValueError(f"not a manifest of records: {error!r}") from error
