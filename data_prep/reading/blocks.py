"""Input files to groups, groups to blocks, blocks to documents.

The main process cuts the bytes of a group into blocks at ends of documents, which is
cheap; worker processes decode and parse them. Files are streamed, local or remote:
memory holds little more than a block and the longest document.
"""

import collections
import dataclasses
from collections.abc import Callable, Iterator, Sequence

from albert_tf.core import config, files
from data_prep.reading import formats, limits, parquet_chunks, streams, text_chunks

GROUP_BYTES = 16 << 20


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
class Group:
    """Files that are read one after another, and the group's number in the input."""

    number: int
    paths: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Block:
    """Whole documents of a group; `number` counts its blocks from 0."""

    group: int
    number: int
    chunks: tuple[text_chunks.Chunk, ...]

    @property
    def num_bytes(self) -> int:
        """Size of the chunks' data."""
        return sum(len(chunk.data) for chunk in self.chunks)


def plan_groups(paths: Sequence[str]) -> list[Group]:
    """Groups consecutive files by their sizes on disk.

    A group takes files until their sizes reach `GROUP_BYTES`; a file of that size is a
    group by itself.
    """
    grouped: list[list[str]] = [[]]
    remaining = GROUP_BYTES
    for path, size in zip(paths, files.of_each(files.size, paths), strict=True):
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
        least this many bytes; a document that is cut or dropped also closes a chunk.
      advance: called with the number of bytes of each read from disk.

    Yields:
      Blocks, without parts of a file that are white space only.

    Raises:
      ValueError: a file is damaged, or has no column `text.field`.
    """
    number, chunks, remaining = 0, [], block_bytes
    for path in group.paths:
        if text.input_format == "parquet":
            found = parquet_chunks.cut(path, text, remaining, block_bytes, advance)
        else:
            data = streams.iter_bytes(path, advance, text)
            found = text_chunks.cut(data, path, text, remaining, block_bytes)
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
      "null_documents" (Parquet), those of `formats.parse_mediawiki`, and the kinds of
      `limits`, which are also named on stderr.

    Raises:
      ValueError: data is not in the format, or not UTF-8; names path and line.
    """
    counts: collections.Counter = collections.Counter()
    documents = []
    unit = "row" if text.input_format == "parquet" else "line"
    for chunk in block.chunks:
        for line, lines in _iter_documents(chunk, text, counts):
            place = f"{unit} {line}"
            lines = limits.bound_lines(lines, chunk.path, place, text, counts)
            if lines:
                documents.append(Document(chunk.path, line, lines))
        for excess in chunk.excesses:
            limits.note(excess, chunk.path, counts)
    return documents, counts


def _iter_documents(
    chunk: text_chunks.Chunk, text: config.TextConfig, counts: collections.Counter
) -> Iterator[tuple[int, tuple[str, ...]]]:
    if not chunk.data:
        return iter(())
    data, path, line = chunk.data, chunk.path, chunk.first_line
    return formats.iter_documents(data, path, line, text, counts)
