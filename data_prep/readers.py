"""Input files to groups, groups to blocks, blocks to documents.

The main process cuts the bytes of a group into blocks at ends of documents, which is
cheap; worker processes decode and parse them. Files are streamed, local or remote:
little more is held than a block and the longest document.
"""

import bz2
import collections
import contextlib
import dataclasses
import gzip
import io
import lzma
import os
import re
import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import IO

import numpy as np
import pyarrow as pa
import zstandard
from pyarrow import compute, parquet

from albert_tf import config, files
from data_prep import markup

GROUP_BYTES = 16 << 20

_BUFFER_SIZE = 1 << 20
_READ_SIZE = 1 << 20
# Zstandard decompresses all that it is given, to up to 32,000 times the size.
_ZSTD_READ_SIZE = 1 << 14
_ZSTD_MAX_WINDOW = 1 << 31  # `zstd --long=31`, as large dumps have it
_PARQUET_MAX_ROWS = 1 << 16
_OPENERS: dict[str, Callable] = {
    ".gz": gzip.open,
    ".bz2": bz2.open,
    ".xz": lzma.open,
    ".lzma": lzma.open,
}
_DAMAGES = (
    EOFError,
    zlib.error,
    lzma.LZMAError,
    zstandard.ZstdError,
    pa.ArrowInvalid,
)

_FORMATS_BY_SUFFIX = {
    ".json": ("jsonl",),
    ".jsonl": ("jsonl",),
    ".ndjson": ("jsonl",),
    ".xml": ("mediawiki", "wikiextractor"),
    ".parquet": ("parquet",),
}

# What a document ends with, by format. The last byte of each stands in it nowhere
# before, except as its first.
_DOCUMENT_ENDS = {
    "text": re.compile(b"\n[ \t\r\v\f]*\n"),
    "lines": re.compile(b"\n"),
    "jsonl": re.compile(b"\n"),
    "wikiextractor": re.compile(markup.WIKIEXTRACTOR_END.encode()),
    "mediawiki": re.compile(markup.MEDIAWIKI_END.encode()),
}


@dataclasses.dataclass(frozen=True)
class Document:
    """One document: its non-empty lines, stripped, and where the first one stands.

    `line` counts from 1; it is the row of a Parquet file. An article of a MediaWiki
    dump stands where its page begins.
    """

    path: str
    line: int
    lines: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Chunk:
    """Whole documents of one file, decompressed.

    Attributes:
      path: of the file.
      first_line: the line, from 1, that the data begins at; the row for Parquet.
      data: the bytes as they stand in the file; for Parquet, the rows of the text
        column as an Arrow IPC stream.
    """

    path: str
    first_line: int
    data: bytes


@dataclasses.dataclass(frozen=True)
class Group:
    """Files that are read one after another, and the group's place in the input."""

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
        """The size of the chunks' data."""
        return sum(len(chunk.data) for chunk in self.chunks)


def expand(patterns: str | Iterable[str]) -> list[str]:
    """The files that globs name, sorted, each once.

    Args:
      patterns: comma-separated globs, or several such strings.

    Raises:
      ValueError: a pattern matches no file, or there is no pattern.
    """
    if isinstance(patterns, str):
        patterns = [patterns]
    globs = [g.strip() for text in patterns for g in text.split(",") if g.strip()]
    if not globs:
        raise ValueError("the input must be one glob or more; received none")
    paths: set[str] = set()
    for pattern in globs:
        found = [path for path in files.glob(pattern) if not files.is_folder(path)]
        if not found:
            raise ValueError(
                f"the input {pattern!r} matches no file; give paths or quoted globs "
                "of text files, such as 'corpus/*.txt'"
            )
        paths.update(found)
    return sorted(paths)


def check_format(paths: Iterable[str], text: config.TextConfig) -> None:
    """Looks whether files have names of another format than they are read in.

    JSON or XML read as text gives records of braces and tags, and no error.

    Raises:
      ValueError: names the file and the setting.
    """
    for path in paths:
        name = path.lower()
        stem, suffix = os.path.splitext(name)
        if suffix in (".zst", *_OPENERS):
            suffix = os.path.splitext(stem)[1]
        formats = _FORMATS_BY_SUFFIX.get(suffix)
        if formats and text.input_format not in formats:
            raise ValueError(
                f"{path} is named as {formats[0]}, but text.input_format is "
                f"{text.input_format}; pass --set text.input_format={formats[0]}, or "
                "give the file another name"
            )


def plan_groups(paths: Iterable[str]) -> list[Group]:
    """Consecutive files in groups, which follow from their names and sizes alone.

    A group takes files until their sizes on disk reach `GROUP_BYTES`; a file of that
    size is alone.
    """
    grouped: list[list[str]] = [[]]
    room = GROUP_BYTES
    for path in paths:
        size = files.size(path)
        if room <= 0 or size >= GROUP_BYTES:
            grouped.append([])
            room = GROUP_BYTES
        grouped[-1].append(path)
        room -= size
    filled = [tuple(group) for group in grouped if group]
    return [Group(number, group) for number, group in enumerate(filled)]


def iter_blocks(
    group: Group,
    text: config.TextConfig,
    block_bytes: int,
    advance: Callable[[int], None] = lambda _: None,
) -> Iterator[Block]:
    """The blocks of a group, which follow from the arguments alone.

    Args:
      group: files; those of a group share blocks.
      text: its format.
      block_bytes: a block is closed at the first end of a document where it is at
        least so long.
      advance: is told of all bytes on disk that were read, as they are.

    Yields:
      Blocks. Stretches of a file that hold nothing but white space are left out.

    Raises:
      ValueError: a file is damaged, or has no column `text.field`.
    """
    number, chunks, room = 0, [], block_bytes
    for path in group.paths:
        if text.input_format == "parquet":
            found = _cut_parquet(path, text.field, room, block_bytes, advance)
        else:
            end = _DOCUMENT_ENDS.get(text.input_format)
            found = _cut(_iter_pieces(path, advance), path, end, room, block_bytes)
        for chunk in found:
            chunks.append(chunk)
            room -= len(chunk.data)
            if room <= 0:
                yield Block(group.number, number, tuple(chunks))
                number, chunks, room = number + 1, [], block_bytes
    if chunks:
        yield Block(group.number, number, tuple(chunks))


def parse_block(
    block: Block, text: config.TextConfig
) -> tuple[list[Document], collections.Counter]:
    """The documents of a block, in order.

    Args:
      block: of `iter_blocks`.
      text: its format and what to do about bytes that are not UTF-8.

    Returns:
      Documents, each with a line at least; and what was replaced or left out, by name:
      "replaced_bytes", "empty_documents", "null_documents" of Parquet, and those of
      `markup.parse_mediawiki`.

    Raises:
      ValueError: something is not in its format, or no UTF-8; names path and line.
    """
    counts: collections.Counter = collections.Counter()
    documents = [
        Document(chunk.path, line, lines)
        for chunk in block.chunks
        for line, lines in markup.iter_documents(
            chunk.data, chunk.path, chunk.first_line, text, counts
        )
    ]
    return documents, counts


def _cut(
    pieces: Iterator[bytes],
    path: str,
    end: re.Pattern[bytes] | None,
    first_bytes: int,
    chunk_bytes: int,
) -> Iterator[Chunk]:
    """A file in chunks, the first of `first_bytes` or a little more.

    A chunk ends at the first end of a document that begins where the chunk is long
    enough, or a byte earlier; this does not depend on the pieces that are read. Each
    byte is searched once, however the pieces fall: up to the last byte that can end a
    match, and from there on when the next such byte has come.
    """
    buffer, line, searched, size = bytearray(), 1, 0, first_bytes
    for piece in pieces:
        last = piece.rfind(end.pattern[-1:]) if end else -1
        if end is None or last < 0:
            buffer += piece
            continue
        last += len(buffer)
        buffer += piece
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


def _iter_pieces(path: str, advance: Callable[[int], None]) -> Iterator[bytes]:
    """The bytes of a file, decompressed by its suffix."""
    suffix = os.path.splitext(path)[1].lower()
    with files.open_file(path) as file, _naming_damage(path):
        raw = io.BufferedReader(_RawFile(file, advance), _BUFFER_SIZE)
        if suffix == ".zst":
            yield from _iter_zstd(raw)
            return
        stream: IO[bytes] = raw
        if suffix in _OPENERS:
            if not raw.peek(1):
                raise EOFError("it is empty")  # which gzip lets pass
            stream = _OPENERS[suffix](raw)
        while piece := stream.read(_READ_SIZE):
            yield piece


def _iter_zstd(stream: IO[bytes]) -> Iterator[bytes]:
    """The frames of a Zstandard file; its own reader tells no end from a cut."""
    decompressor = zstandard.ZstdDecompressor(max_window_size=_ZSTD_MAX_WINDOW)
    frame = decompressor.decompressobj()
    while data := stream.read(min(_ZSTD_READ_SIZE, _READ_SIZE)):
        while data:
            if frame.eof:
                frame = decompressor.decompressobj()
            yield frame.decompress(data)
            data = frame.unused_data
    if not frame.eof:
        raise EOFError("its last frame has no end")


def _cut_parquet(
    path: str,
    field: str,
    first_bytes: int,
    chunk_bytes: int,
    advance: Callable[[int], None],
) -> Iterator[Chunk]:
    """A Parquet file in chunks, each closed by the row that fills it with text."""
    num_left = 0

    def count(num_bytes: int) -> None:
        nonlocal num_left
        num_left -= num_bytes
        advance(num_bytes)

    with files.open_file(path) as file, _naming_damage(path):
        raw = _RawFile(file, count)
        num_left += raw.seek(0, os.SEEK_END)
        raw.seek(0)
        table = parquet.ParquetFile(raw, buffer_size=_BUFFER_SIZE, pre_buffer=False)
        _check_column(table.schema_arrow, path, field)
        yield from _cut_rows(table, path, field, first_bytes, chunk_bytes)
    advance(num_left)  # the other columns


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
    num_rows = min(_READ_SIZE * metadata.num_rows // max(total, 1), _PARQUET_MAX_ROWS)
    held: list[pa.RecordBatch] = []
    row, size = 1, first_bytes
    for batch in table.iter_batches(max(num_rows, 1), columns=[field]):
        lengths = compute.binary_length(batch.column(0)).fill_null(0)
        ends = np.cumsum(lengths.to_numpy(zero_copy_only=False), dtype=np.int64)
        start, before = 0, 0
        # The first row of the batch with which the text is long enough.
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
            "one that holds the text with --set text.field=NAME"
        )
    type_ = schema.field(field).type
    if not (pa.types.is_string(type_) or pa.types.is_large_string(type_)):
        raise ValueError(
            f"{path}: column {field!r} must hold text (string or large_string); it is "
            f"{type_}. Name another with --set text.field=NAME, or convert the file"
        )


def _pack(path: str, row: int, batches: list[pa.RecordBatch]) -> Chunk:
    table = pa.Table.from_batches(batches).replace_schema_metadata().combine_chunks()
    # A copy: a slice would take bytes of its neighbours along, by how they were read.
    table = table.take(np.arange(len(table)))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return Chunk(path, row, sink.getvalue().to_pybytes())


@contextlib.contextmanager
def _naming_damage(path: str) -> Iterator[None]:
    """Turns what the decompressors and Arrow raise into a ValueError for users."""
    try:
        yield
    except (*_DAMAGES, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # the system's: gzip, bz2 and Arrow have none of their own
        raise ValueError(
            f"{path}: the file is damaged, cut short, or not what its name or "
            f"text.input_format says ({error}); check that setting, or copy it anew"
        ) from error


class _RawFile(io.RawIOBase):
    """A file of `files.open_file` as a raw stream.

    A remote one has no `readinto`, which decompressors and Arrow need.
    """

    def __init__(self, file: IO[bytes], advance: Callable[[int], None]):
        self._file = file
        self._advance = advance

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer) -> int:
        data = self._file.read(len(buffer))
        buffer[: len(data)] = data
        self._advance(len(data))
        return len(data)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._file.seek(offset, whence)
        return self._file.tell()

    def tell(self) -> int:
        return self._file.tell()
