"""Encoded texts, as arrays without padding.

Letters: R rows, T tokens of all rows.
"""

import dataclasses
import hashlib
import io
import struct
import zipfile
import zlib
from collections.abc import Sequence

import numpy as np


@dataclasses.dataclass(frozen=True)
class Rows:
    """Texts as the model reads them, one after another without padding.

    A row is `[CLS] first [SEP]` or `[CLS] first [SEP] second [SEP]`. Where an example
    has choices, its rows follow one another, one a choice.

    Attributes:
      ids: int32 [T].
      offsets: int64 [R + 1]; row r has the tokens offsets[r] to offsets[r + 1].
      num_first: int32 [R], tokens of segment 0, with [CLS] and its [SEP].
      example_index: int32 [R], the example that the row is of, counted from 0.
      per_row: labels and the like, arrays [R]: `label_ids` int32, `targets` float32,
        `start_positions`, `end_positions` and `is_impossible` int32. Of choices each
        row holds the same.
      per_token: arrays [T] beside the ids: `token_label_ids` int32 (-1: no label).
      notes: arrays that no batch holds, beside the tokens: what an answer is read
        from, such as places in the original text.
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
        """Where the tokens of a row lie."""
        return slice(int(self.offsets[row]), int(self.offsets[row + 1]))


_PLAIN = ("ids", "offsets", "num_first", "example_index")
# What reading an .npz raises, besides ValueError, if a byte of it is wrong.
UNREADABLE = (
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
_PARTS = ("per_row", "per_token", "notes")


def digest(rows: Rows) -> str:
    """A hex digest of what is learnt from rows; notes do not count."""
    found = hashlib.sha256()
    for name in _PLAIN:
        found.update(np.ascontiguousarray(getattr(rows, name)).data)
    for part in ("per_row", "per_token"):
        for key, value in sorted(getattr(rows, part).items()):
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
) -> Rows:
    """Rows of lists of ids; the other arguments are as `Rows` has them."""
    lengths = [len(row) for row in ids]
    flat = [token for row in ids for token in row]
    return Rows(
        np.array(flat, np.int32),
        np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]).astype(np.int64),
        np.array(num_first, np.int32),
        np.array(example_index, np.int32),
        per_row or {},
        per_token or {},
        notes or {},
    )


def concatenate(parts: Sequence[Rows], num_examples: Sequence[int]) -> Rows:
    """Rows of several lists of examples, one list after another.

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
    return Rows(
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


def to_bytes(rows: Rows) -> bytes:
    """The rows as an .npz file; nothing in it is pickled."""
    arrays = {name: getattr(rows, name) for name in _PLAIN}
    for part in _PARTS:
        for key, value in getattr(rows, part).items():
            arrays[f"{part}/{key}"] = value
    content = io.BytesIO()
    np.savez_compressed(content, allow_pickle=False, **arrays)
    return content.getvalue()


def from_bytes(content: bytes) -> Rows:
    """The rows that `to_bytes` wrote.

    Raises:
      ValueError: they are damaged, or hold what would have to be unpickled.
    """
    try:
        return _from_bytes(content)
    except UNREADABLE as error:
        raise ValueError(f"damaged, or no file of rows: {error}") from error


def _from_bytes(content: bytes) -> Rows:
    parts: dict[str, dict[str, np.ndarray]] = {part: {} for part in _PARTS}
    # Differs from the original: its caches are pickles.
    with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
        for name in arrays.files:
            part, _, key = name.partition("/")
            if key:
                parts[part][key] = arrays[name]
        plain = [arrays[name] for name in _PLAIN]
    return Rows(*plain, *(parts[part] for part in _PARTS))
