"""Embeddings of many texts, computed in batches of similar length.

Shapes: N texts, T texts in a batch, H hidden.
"""

import contextlib
import io
import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow
from pyarrow import parquet

from albert_tf.core import files, progress_bar

# Texts sorted by length at a time: enough for batches of nearly one length, few enough
# to keep in memory.
WINDOW = 16384


class Encoded(NamedTuple):
    """A batch of embeddings.

    embedding: float32 [T, H].
    num_tokens: int32 [T], special tokens included.
    """

    embedding: np.ndarray
    num_tokens: np.ndarray


def write(
    encode: Callable[[list[str]], Encoded],
    texts: Iterable[str],
    path: str,
    batch_size: int,
) -> int:
    """Writes the embedding of every text, in the order of the texts.

    A .parquet file has one row per text, with `text`, `num_tokens` and `embedding`, and
    is written in row groups; any other is .npz and has the arrays `num_tokens` [N] and
    `embedding` [N, H], which are kept in memory until the end. Either file appears only
    when it is complete.

    Args:
      encode: computes the embeddings of at most `batch_size` texts.
      texts: all texts.
      path: of the file, local or gs://.
      batch_size: texts per call of `encode`.

    Returns:
      The number of texts.

    Raises:
      ValueError: there is no text.
      OSError: the file cannot be written.
    """
    write_windows = _write_parquet if path.endswith(".parquet") else _write_npz
    with progress_bar.make(unit="text") as bar:
        windows = _windows(encode, texts, batch_size, bar)
        first = next(windows, None)
        if first is None:
            raise ValueError("there must be a text to encode; the input holds none")
        return write_windows(itertools.chain([first], windows), path)


def _windows(
    encode: Callable[[list[str]], Encoded],
    texts: Iterable[str],
    batch_size: int,
    bar: Any,
) -> Iterator[tuple[list[str], Encoded]]:
    rest = iter(texts)
    while window := list(itertools.islice(rest, WINDOW)):
        yield window, _encode_window(encode, window, batch_size, bar)


def _encode_window(
    encode: Callable[[list[str]], Encoded],
    window: list[str],
    batch_size: int,
    bar: Any,
) -> Encoded:
    """Computes the embeddings of some texts, the longest first, returned in order.

    Longest first: a lack of memory shows at once.
    """
    order = sorted(range(len(window)), key=lambda i: -len(window[i]))
    found = []
    for first in range(0, len(order), batch_size):
        found.append(encode([window[i] for i in order[first : first + batch_size]]))
        bar.update(len(found[-1].num_tokens))
    places = np.argsort(order)  # of each text among those sorted
    sorted_ = map(np.concatenate, zip(*found, strict=True))
    return Encoded(*(values[places] for values in sorted_))


def _write_parquet(windows: Iterable[tuple[list[str], Encoded]], path: str) -> int:
    """Writes one row group per window; returns the number of rows."""
    writer, count = None, 0
    with files.open_complete(path) as file, contextlib.ExitStack() as stack:
        for texts, encoded in windows:
            table = _table(texts, encoded)
            if writer is None:
                writer = parquet.ParquetWriter(file, table.schema)
                stack.enter_context(writer)
            writer.write_table(table)
            count += len(texts)
    return count


def _table(texts: list[str], encoded: Encoded) -> pyarrow.Table:
    values = pyarrow.array(encoded.embedding.reshape([-1]))  # [T * H]
    size = encoded.embedding.shape[1]
    return pyarrow.table(
        {
            "text": pyarrow.array(texts, pyarrow.string()),
            "num_tokens": pyarrow.array(encoded.num_tokens),
            "embedding": pyarrow.FixedSizeListArray.from_arrays(values, size),
        }
    )


def _write_npz(windows: Iterable[tuple[list[str], Encoded]], path: str) -> int:
    """Writes all arrays at once; returns the number of rows."""
    parts = (encoded for _, encoded in windows)
    whole = Encoded(*map(np.concatenate, zip(*parts, strict=True)))
    content = io.BytesIO()
    np.savez(content, allow_pickle=False, **whole._asdict())
    files.write_bytes(path, content.getvalue())
    return len(whole.num_tokens)
