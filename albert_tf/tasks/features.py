"""Features: encoded texts in flat arrays without padding.

Letters: R rows, T tokens of all rows.
"""

import contextlib
import dataclasses
import hashlib
import io
import struct
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np


@dataclasses.dataclass(frozen=True)
class Features:
    """Input sequences of the model, concatenated without padding.

    A row is one sequence: `[CLS] first [SEP]` or `[CLS] first [SEP] second [SEP]`. An
    example with choices has one row per choice, in order.

    Attributes:
      ids: int32 [T].
      offsets: int64 [R + 1]; row r has the tokens offsets[r] to offsets[r + 1].
      num_first: int32 [R], tokens of segment 0, including [CLS] and its [SEP].
      example_index: int32 [R], the index of the row's example.
      per_row: labels, arrays [R]: `label_ids` int32, `targets` float32,
        `start_positions`, `end_positions` and `is_impossible` int32. All choices of an
        example have the same values.
      per_token: labels, arrays [T]: `token_label_ids` int32 (-1: no label).
      notes: arrays [T] that are not part of batches and that predictions are read
        with, such as positions in the original text.
    """

    ids: np.ndarray
    offsets: np.ndarray
    num_first: np.ndarray
    example_index: np.ndarray
    per_row: dict[str, np.ndarray]
    per_token: dict[str, np.ndarray]
    notes: dict[str, np.ndarray]

    @property
    def num_rows(self) -> int:
        """R."""
        return len(self.num_first)

    def span(self, row: int) -> slice:
        """The slice of a row's tokens."""
        return slice(int(self.offsets[row]), int(self.offsets[row + 1]))


_PLAIN = ("ids", "offsets", "num_first", "example_index")
# Raised by reading a damaged .npz, in addition to ValueError.
_UNREADABLE = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    EOFError,
    KeyError,
    MemoryError,
    OSError,
    RuntimeError,
    TypeError,
)
_MAX_REASON = 200
# What an .npz may unpack to, in its own bytes, and in any case.
_MAX_RATIO = 200
_LEAST_MOST_BYTES = 64 << 20
_PARTS = ("per_row", "per_token", "notes")


def digest(features: Features) -> str:
    """Returns a hex digest of the features without their notes."""
    found = hashlib.sha256()
    for name in _PLAIN:
        found.update(np.ascontiguousarray(getattr(features, name)).data)
    for part in ("per_row", "per_token"):
        for key, value in sorted(getattr(features, part).items()):
            found.update(key.encode())
            found.update(np.ascontiguousarray(value).data)
    return found.hexdigest()


def build(
    ids: Sequence[Sequence[int]],
    num_first: Sequence[int],
    example_index: Sequence[int],
    per_row: dict[str, np.ndarray] | None = None,
    per_token: dict[str, np.ndarray] | None = None,
    notes: dict[str, np.ndarray] | None = None,
) -> Features:
    """Builds features from lists of ids; other arguments as for `Features`."""
    lengths = [len(row) for row in ids]
    flat = [token for row in ids for token in row]
    return Features(
        np.array(flat, np.int32),
        np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]).astype(np.int64),
        np.array(num_first, np.int32),
        np.array(example_index, np.int32),
        per_row or {},
        per_token or {},
        notes or {},
    )


def concatenate(parts: Sequence[Features], num_examples: Sequence[int]) -> Features:
    """Concatenates the features of several lists of examples.

    Args:
      parts: at least one, all with the same arrays.
      num_examples: of each part.
    """
    first_examples = np.cumsum([0, *num_examples[:-1]])
    first_tokens = np.cumsum([0, *(len(part.ids) for part in parts[:-1])])
    offsets = [
        part.offsets[:-1] + first
        for part, first in zip(parts, first_tokens, strict=True)
    ]
    end = sum(len(part.ids) for part in parts)
    joined = {
        name: {
            key: np.concatenate([getattr(part, name)[key] for part in parts])
            for key in getattr(parts[0], name)
        }
        for name in _PARTS
    }
    return Features(
        np.concatenate([part.ids for part in parts]),
        np.concatenate([*offsets, [end]]).astype(np.int64),
        np.concatenate([part.num_first for part in parts]),
        np.concatenate(
            [
                part.example_index + first
                for part, first in zip(parts, first_examples, strict=True)
            ]
        ).astype(np.int32),
        *(joined[name] for name in _PARTS),
    )


def to_bytes(features: Features) -> bytes:
    """Serializes features as .npz, without pickled objects."""
    arrays = {name: getattr(features, name) for name in _PLAIN}
    for part in _PARTS:
        for key, value in getattr(features, part).items():
            arrays[f"{part}/{key}"] = value
    content = io.BytesIO()
    np.savez_compressed(content, allow_pickle=False, **arrays)
    return content.getvalue()


def from_bytes(content: bytes) -> Features:
    """Reads features that `to_bytes` wrote.

    Raises:
      ValueError: they are damaged or contain pickled objects.
    """
    with naming_damage("features"):
        return _from_bytes(content)


def open_arrays(content: bytes) -> Any:
    """Opens an .npz, unless it unpacks to far more than it has bytes.

    Raises:
      ValueError: it does.
    """
    with zipfile.ZipFile(io.BytesIO(content)) as packed:
        num_bytes = sum(member.file_size for member in packed.infolist())
    most = max(_MAX_RATIO * len(content), _LEAST_MOST_BYTES)
    if num_bytes > most:
        raise ValueError(f"it unpacks to {num_bytes:,} bytes, more than {most:,}")
    # Differs from the original: its caches are pickles.
    return np.load(io.BytesIO(content), allow_pickle=False)


@contextlib.contextmanager
def naming_damage(kind: str) -> Iterator[None]:
    """Raises what reading a damaged .npz raises as a ValueError of one short line."""
    try:
        yield
    except (*_UNREADABLE, ValueError) as error:
        reason = f"{error}".strip().partition("\n")[0][:_MAX_REASON]
        raise ValueError(f"damaged, or not a file of {kind}: {reason}") from error


def _from_bytes(content: bytes) -> Features:
    parts: dict[str, dict[str, np.ndarray]] = {part: {} for part in _PARTS}
    with open_arrays(content) as arrays:
        for name in arrays.files:
            part, _, key = name.partition("/")
            if key:
                parts[part][key] = arrays[name]
        plain = [arrays[name] for name in _PLAIN]
    return Features(*plain, *(parts[part] for part in _PARTS))
