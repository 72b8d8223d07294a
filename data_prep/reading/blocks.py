"""Input files to groups, groups to blocks, blocks to documents.

The main process cuts the bytes of a group into blocks at ends of documents, which is
cheap; worker processes decode and parse them. Files are streamed, local or remote:
memory holds little more than a block and the longest document.
"""

import collections
import dataclasses
import os
import re
from collections.abc import Callable, Iterable, Iterator

import numpy as np
import pyarrow as pa
from pyarrow import compute, parquet

from albert_tf.core import config, files
from data_prep.reading import formats, streams

GROUP_BYTES = 16 << 20

_PARQUET_MAX_ROWS = 1 << 16
# The end of a document, by format. The last byte of each pattern matches nowhere
# earlier in it, except as its first byte.
_DOCUMENT_ENDS = {
    "text": re.compile(b"\n[ \t\r\v\f]*\n"),
    "lines": re.compile(b"\n"),
    "jsonl": re.compile(b"\n"),
    "wikiextractor": re.compile(formats.WIKIEXTRACTOR_END.encode()),
    "mediawiki": re.compile(formats.MEDIAWIKI_END.encode()),
}


@dataclasses.dataclass(frozen=True)
class Document:
    """The non-empty lines of one document, stripped, and its position in the file.

    `line` is the number of its first line, from 1; of a MediaWiki dump, the line where
    the page begins; of a Parquet file, the row.
    """

    path: str
    line: int
    lines: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Chunk:
    """Whole documents of one file, decompressed.

    Attributes:
      path: path of the file.
      first_line: line, from 1, where the data begins; the row for Parquet.
      data: bytes of the file; for Parquet, the rows of the text column as an Arrow IPC
        stream.
    """

    path: str
    first_line: int
    data: bytes


@dataclasses.dataclass(frozen=True)
class Group:
    """Files that are read one after another, and the group's number in the input."""

    number: int
    paths: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Block:
    """Whole documents of a group; `number` counts its blocks from 0."""

    group: int
    number: int
    chunks: tuple[Chunk, ...]

    @property
    def num_bytes(self) -> int:
        """Size of the chunks' data."""
        return sum(len(chunk.data) for chunk in self.chunks)


def plan_groups(paths: Iterable[str]) -> list[Group]:
    """Groups consecutive files by their sizes on disk.

    A group takes files until their sizes reach `GROUP_BYTES`; a file of that size is a
    group by itself.
    """
    grouped: list[list[str]] = [[]]
    remaining = GROUP_BYTES
    for path in paths:
        size = files.size(path)
        if remaining <= 0 or size >= GROUP_BYTES:
            grouped.append([])
            remaining = GROUP_BYTES
        grouped[-1].append(path)
        remaining -= size
    filled = [tuple(group) for group in grouped if group]
    return [Group(number, group) for number, group in enumerate(filled)]


def iter_blocks(
    group: Group,
    text: config.TextConfig,
    block_bytes: int,
    advance: Callable[[int], None] = lambda _: None,
) -> Iterator[Block]:
    """Reads a group in blocks, which depend on the arguments alone.

    Args:
      group: files, which may share blocks.
      text: their format.
      block_bytes: a block is closed at the first end of a document at which it has at
        least this many bytes.
      advance: called with the number of bytes of each read from disk.

    Yields:
      Blocks, without parts of a file that are white space only.

    Raises:
      ValueError: a file is damaged, or has no column `text.field`.
    """
    number, chunks, remaining = 0, [], block_bytes
    for path in group.paths:
        if text.input_format == "parquet":
            found = _cut_parquet(path, text.field, remaining, block_bytes, advance)
        else:
            end = _DOCUMENT_ENDS.get(text.input_format)
            data = streams.iter_bytes(path, advance)
            found = _cut(data, path, end, remaining, block_bytes)
        for chunk in found:
            chunks.append(chunk)
            remaining -= len(chunk.data)
            if remaining <= 0:
                yield Block(group.number, number, tuple(chunks))
                number, chunks, remaining = number + 1, [], block_bytes
    if chunks:
        yield Block(group.number, number, tuple(chunks))


def parse_block(
    block: Block, text: config.TextConfig
) -> tuple[list[Document], collections.Counter]:
    """Parses the documents of a block, in order.

    Args:
      block: from `iter_blocks`.
      text: its format, and how to treat bytes that are not UTF-8.

    Returns:
      (documents, counts): documents of at least one line; and the numbers of what was
      replaced or omitted, by name: "replaced_bytes", "empty_documents",
      "null_documents" (Parquet), and those of `formats.parse_mediawiki`.

    Raises:
      ValueError: data is not in the format, or not UTF-8; names path and line.
    """
    counts: collections.Counter = collections.Counter()
    documents = [
        Document(chunk.path, line, lines)
        for chunk in block.chunks
        for line, lines in formats.iter_documents(
            chunk.data, chunk.path, chunk.first_line, text, counts
        )
    ]
    return documents, counts


def _cut(
    parts: Iterator[bytes],
    path: str,
    end: re.Pattern[bytes] | None,
    first_bytes: int,
    chunk_bytes: int,
) -> Iterator[Chunk]:
    """Cuts a file into chunks, the first one of at least `first_bytes`.

    A chunk ends at the first end of a document that begins where the chunk is long
    enough, or a byte earlier; this does not depend on how the bytes are split into
    parts. Each byte is searched once: up to the last byte that can end a match, and
    from there when the next such byte has been read.
    """
    buffer, line, searched, size = bytearray(), 1, 0, first_bytes
    for part in parts:
        last = part.rfind(end.pattern[-1:]) if end else -1
        if end is None or last < 0:
            buffer += part
            continue
        last += len(buffer)
        buffer += part
        while match := end.search(buffer, max(searched, size - 1), last + 1):
            data = bytes(memoryview(buffer)[: match.end()])
            del buffer[: match.end()]
            if not data.isspace():
                yield Chunk(path, line, data)
                size = chunk_bytes
            line += data.count(b"\n")
            last -= len(data)
            searched = 0
        searched = max(last, 0)
    if buffer and not buffer.isspace():
        yield Chunk(path, line, bytes(buffer))


def _cut_parquet(
    path: str,
    field: str,
    first_bytes: int,
    chunk_bytes: int,
    advance: Callable[[int], None],
) -> Iterator[Chunk]:
    """Cuts a Parquet file into chunks, each closed by the row that fills it."""
    num_left = 0

    def count(num_bytes: int) -> None:
        nonlocal num_left
        num_left -= num_bytes
        advance(num_bytes)

    with files.open_file(path) as file, streams.naming_damage(path):
        raw = streams.RawFile(file, count)
        num_left += raw.seek(0, os.SEEK_END)
        raw.seek(0)
        table = parquet.ParquetFile(
            raw, buffer_size=streams.BUFFER_SIZE, pre_buffer=False
        )
        _check_column(table.schema_arrow, path, field)
        yield from _cut_rows(table, path, field, first_bytes, chunk_bytes)
    advance(num_left)  # bytes of the other columns


def _cut_rows(
    table: parquet.ParquetFile,
    path: str,
    field: str,
    first_bytes: int,
    chunk_bytes: int,
) -> Iterator[Chunk]:
    metadata = table.metadata
    groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
    total = sum(group.total_byte_size for group in groups)
    num_rows = streams.READ_SIZE * metadata.num_rows // max(total, 1)
    num_rows = min(num_rows, _PARQUET_MAX_ROWS)
    held: list[pa.RecordBatch] = []
    row, size = 1, first_bytes
    for batch in table.iter_batches(max(num_rows, 1), columns=[field]):
        lengths = compute.binary_length(batch.column(0)).fill_null(0)
        ends = np.cumsum(lengths.to_numpy(zero_copy_only=False), dtype=np.int64)
        start, before = 0, 0
        # `cut`: the number of rows with which the text is long enough.
        while (cut := int(np.searchsorted(ends, before + size)) + 1) <= len(ends):
            held.append(batch.slice(start, cut - start))
            yield _pack(path, row, held)
            row += sum(len(part) for part in held)
            start, before, held, size = cut, int(ends[cut - 1]), [], chunk_bytes
        held.append(batch.slice(start))
        size -= int(ends[-1]) - before
    if any(len(part) for part in held):
        yield _pack(path, row, held)


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


def _pack(path: str, row: int, batches: list[pa.RecordBatch]) -> Chunk:
    table = pa.Table.from_batches(batches).replace_schema_metadata().combine_chunks()
    # A copy: a slice would include bytes of other rows, depending on the batches.
    table = table.take(np.arange(len(table)))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return Chunk(path, row, sink.getvalue().to_pybytes())
