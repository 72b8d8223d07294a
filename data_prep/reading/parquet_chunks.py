"""Cuts the text column of Parquet files into chunks of whole rows."""

import os
from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa
from pyarrow import compute, parquet

from albert_tf.core import config, files
from data_prep.reading import limits, streams, text_chunks

_MAX_ROWS = 1 << 16
# Of a column in which a row can be the row before with a few more bytes.
_MAX_ROWS_OF_PREFIXES = 16
_PREFIXES = "DELTA_BYTE_ARRAY"
# A row takes memory and time even if it is empty.
_ROW_BYTES = 8


def cut(
    path: str,
    text: config.TextConfig,
    first_bytes: int,
    chunk_bytes: int,
    advance: Callable[[int], None],
) -> Iterator[text_chunks.Chunk]:
    """Cuts a Parquet file into chunks, each closed by the row that fills it.

    A row of more than `text.max_document_bytes` is dropped, and closes a chunk.

    Args:
      path: local or remote.
      text: the column, and the bounds.
      first_bytes: the size of the first chunk.
      chunk_bytes: the size of the others.
      advance: called with the number of bytes of each read from disk.

    Raises:
      ValueError: the file is damaged, or has no column of text `text.field`.
    """
    num_left = 0

    def count(num_bytes: int) -> None:
        nonlocal num_left
        num_left -= num_bytes
        advance(num_bytes)

    with files.open_file(path) as file, streams.naming_damage(path):
        raw = streams.RawFile(file, count)
        size = raw.seek(0, os.SEEK_END)
        num_left += size
        raw.seek(0)
        metadata = parquet.read_metadata(raw)
        schema = metadata.schema.to_arrow_schema()
        _check_column(schema, path, text.field)
        cutter = _RowCutter(path, text, schema, first_bytes, chunk_bytes, size)
        column = _Column(metadata, text.field)
        table = parquet.ParquetFile(
            raw,
            metadata=metadata,
            # A value that is in many rows is in memory once.
            read_dictionary=[text.field] if column.is_repetitive else None,
            buffer_size=streams.BUFFER_SIZE,
            pre_buffer=False,
        )
        groups = column.groups_within(cutter.num_left)
        for batch in table.iter_batches(
            column.rows_at_a_time, row_groups=groups, columns=[text.field]
        ):
            yield from cutter.add(batch.column(0))
            if cutter.is_done:
                break
        yield from cutter.finish(is_whole=len(groups) == metadata.num_row_groups)
    advance(num_left)  # bytes of the other columns


def _check_column(schema: pa.Schema, path: str, field: str) -> None:
    if field not in schema.names:
        raise ValueError(
            f"{path}: has no column {field!r}, but {', '.join(schema.names)}; name the "
            "text column with --set text.field=NAME"
        )
    type_ = schema.field(field).type
    if not (pa.types.is_string(type_) or pa.types.is_large_string(type_)):
        raise ValueError(
            f"{path}: column {field!r} must hold text (string or large_string); it is "
            f"{type_}. Name another with --set text.field=NAME, or convert the file"
        )


class _Column:
    """What the metadata of a file says of its text column.

    Attributes:
      is_repetitive: whether rows may refer to a dictionary.
      rows_at_a_time: the number of rows to read.
    """

    def __init__(self, metadata: parquet.FileMetaData, field: str):
        groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
        columns = [_column_of(group, field) for group in groups]
        encodings = {name for column in columns for name in column.encodings}
        self._sizes = [column.total_uncompressed_size for column in columns]
        self.is_repetitive = any("DICTIONARY" in name for name in encodings)
        total = sum(group.total_byte_size for group in groups)
        num_rows = streams.READ_SIZE * metadata.num_rows // max(total, 1)
        most = _MAX_ROWS_OF_PREFIXES if _PREFIXES in encodings else _MAX_ROWS
        self.rows_at_a_time = min(max(num_rows, 1), most)

    def groups_within(self, num_bytes: int) -> list[int]:
        """The first row groups, as many as unpack to this many bytes of the column."""
        ends = np.cumsum(self._sizes, dtype=np.int64)
        return list(range(int(np.searchsorted(ends, num_bytes, side="right"))))


def _column_of(
    group: parquet.RowGroupMetaData, field: str
) -> parquet.ColumnChunkMetaData:
    columns = (group.column(i) for i in range(group.num_columns))
    found = [column for column in columns if column.path_in_schema == field]
    if not found:
        raise pa.ArrowInvalid("a row group lacks a column of its schema")
    return found[0]


class _RowCutter:
    """The rows of a file that are in no chunk yet.

    Attributes:
      num_left: how many bytes may still be read.
      is_done: whether more rows would exceed that.
    """

    def __init__(
        self,
        path: str,
        text: config.TextConfig,
        schema: pa.Schema,
        first_bytes: int,
        chunk_bytes: int,
        num_bytes: int,
    ):
        self._path = path
        self._text = text
        self._schema = pa.schema([schema.field(text.field)])
        self._chunk_bytes = chunk_bytes
        self._size = first_bytes
        self._held: list[pa.Array] = []
        self._row = 1
        self._most = limits.max_unpacked(num_bytes, text)
        self.num_left = self._most
        self.is_done = False

    def add(self, column: pa.Array) -> Iterator[text_chunks.Chunk]:
        """Adds rows, and yields the chunks that they complete."""
        lengths = _lengths(column)
        used = np.cumsum(lengths + _ROW_BYTES)
        within = int(np.searchsorted(used, self.num_left, side="right"))
        self.is_done = within < len(lengths)
        self.num_left -= int(used[within - 1]) if within else 0
        first = 0
        most = self._text.max_document_bytes
        for huge in np.flatnonzero(lengths[:within] > most).tolist():
            yield from self._add_rows(column[first:huge], lengths[first:huge])
            place = f"row {self._row + self._num_held()}"
            yield self._pack(limits.huge_document(place, self._text))
            self._row += 1
            first = huge + 1
        yield from self._add_rows(column[first:within], lengths[first:within])

    def finish(self, is_whole: bool) -> Iterator[text_chunks.Chunk]:
        """Yields the last chunk.

        Args:
          is_whole: whether all row groups were read.
        """
        if self.is_done or not is_whole:
            place = f"row {self._row + self._num_held()}"
            yield self._pack(limits.cut_file(place, self._most))
        elif self._num_held():
            yield self._pack()

    def _num_held(self) -> int:
        return sum(map(len, self._held))

    def _add_rows(
        self, column: pa.Array, lengths: np.ndarray
    ) -> Iterator[text_chunks.Chunk]:
        ends = np.cumsum(lengths, dtype=np.int64)
        start, before = 0, 0
        # `cut`: the number of rows with which the text is long enough.
        while (cut := int(np.searchsorted(ends, before + self._size)) + 1) <= len(ends):
            self._hold(column[start:cut])
            yield self._pack()
            start, before = cut, int(ends[cut - 1])
        if start < len(ends):
            self._hold(column[start:])
            self._size -= int(ends[-1]) - before

    def _hold(self, column: pa.Array) -> None:
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        self._held.append(column.cast(self._schema.field(0).type))

    def _pack(self, *excesses: limits.Excess) -> text_chunks.Chunk:
        """Moves the rows into a chunk."""
        data, num_rows = b"", self._num_held()
        if num_rows:
            column = pa.chunked_array(self._held, self._schema.field(0).type)
            table = pa.table([column], schema=self._schema.remove_metadata())
            # A copy: a slice would include bytes of other rows, depending on the batch.
            table = table.combine_chunks().take(np.arange(num_rows))
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, table.schema) as writer:
                writer.write_table(table)
            data = sink.getvalue().to_pybytes()
        chunk = text_chunks.Chunk(self._path, self._row, data, excesses)
        self._row += num_rows
        self._held, self._size = [], self._chunk_bytes
        return chunk


def _lengths(column: pa.Array) -> np.ndarray:
    """The number of bytes of each row; int64 [rows]."""
    if pa.types.is_dictionary(column.type):
        lengths = compute.binary_length(column.dictionary).take(column.indices)
    else:
        lengths = compute.binary_length(column)
    return lengths.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
