"""Cuts the bytes of text files into chunks of whole documents."""

import dataclasses
import re
from collections.abc import Iterable, Iterator

from albert_tf.core import config
from data_prep.reading import elements, limits, streams

# The end of a document, by format. The last byte of each pattern matches nowhere
# earlier in it, except as its first byte.
_DOCUMENT_ENDS = {
    "text": re.compile(b"\n[ \t\r\v\f]*\n"),
    "lines": re.compile(b"\n"),
    "jsonl": re.compile(b"\n"),
    "wikiextractor": re.compile(elements.WIKIEXTRACTOR_END.encode()),
    "mediawiki": re.compile(elements.MEDIAWIKI_END.encode()),
}
# Formats of which a part of a document is a document, too.
_DIVISIBLE = ("text", "lines", "file")


@dataclasses.dataclass(frozen=True)
class Chunk:
    """Whole documents of one file, decompressed.

    Attributes:
      path: path of the file.
      first_line: line, from 1, where the data begins; the row for Parquet.
      data: bytes of the file; for Parquet, the rows of the text column as an Arrow IPC
        stream. Empty if all was dropped.
      excesses: what was cut or dropped at the end of the data.
    """

    path: str
    first_line: int
    data: bytes
    excesses: tuple[limits.Excess, ...] = ()


def cut(
    parts: Iterable[bytes],
    path: str,
    text: config.TextConfig,
    first_bytes: int,
    chunk_bytes: int,
) -> Iterator[Chunk]:
    """Cuts a file into chunks, the first one of at least `first_bytes`.

    A chunk ends at the first end of a document that begins where the chunk is long
    enough, or a byte earlier; or where a document is cut or dropped because it is
    larger than `text.max_document_bytes`. This does not depend on how the bytes are
    split into parts.

    Args:
      parts: from `streams.iter_bytes`.
      path: path of the file.
      text: its format, and the bounds.
      first_bytes: the size of the first chunk.
      chunk_bytes: the size of the others.

    Yields:
      Chunks, except those of white space only in which nothing was dropped.
    """
    cutter = _Cutter(path, text, first_bytes, chunk_bytes)
    try:
        for part in parts:
            yield from cutter.add(part)
    except streams.UnpackedTooLargeError as error:
        yield from cutter.finish_early(error.num_bytes)
    else:
        yield from cutter.finish()


class _Cutter:
    """The bytes of a file that are in no chunk yet.

    Each byte is searched for an end once: up to the last byte that can end a match, and
    from there when the next such byte has been read.
    """

    def __init__(
        self, path: str, text: config.TextConfig, first_bytes: int, chunk_bytes: int
    ):
        self._path = path
        self._text = text
        self._end = _DOCUMENT_ENDS.get(text.input_format)
        self._most = text.max_document_bytes
        # All documents of a chunk but the last one are then within the bound.
        self._size = min(first_bytes, self._most)
        self._chunk_bytes = min(chunk_bytes, self._most)
        self._buffer = bytearray()
        self._line = 1
        self._searched = 0
        self._last = -1  # the last byte that can end a document
        self._ready: list[Chunk] = []
        # While a document is dropped, the chunk that ends before it.
        self._before: Chunk | None = None

    def add(self, part: bytes) -> Iterator[Chunk]:
        """Adds bytes, and yields the chunks that they complete."""
        place = part.rfind(self._end.pattern[-1:]) if self._end else -1
        if place >= 0:
            self._last = len(self._buffer) + place
        self._buffer += part
        while self._drop() if self._before else self._close():
            pass
        yield from self._pop_ready()

    def finish(self) -> Iterator[Chunk]:
        """Yields the remaining chunks."""
        if self._before:
            self._add(self._before)
        else:
            while len(self._buffer) - (begin := self._last_document()) > self._most:
                if self._is_divisible():
                    self._cut_document(begin)
                else:
                    self._emit(begin, self._huge_document(begin))
                    self._buffer.clear()
            self._emit(len(self._buffer))
        yield from self._pop_ready()

    def finish_early(self, num_bytes: int) -> Iterator[Chunk]:
        """Yields the remaining documents that are whole.

        Args:
          num_bytes: after which the rest of the file was not read.
        """
        begin = self._last_document(to_end=True) if self._before is None else 0
        excess = limits.cut_file(self._place(begin), num_bytes)
        if self._before:
            excesses = (*self._before.excesses, excess)
            self._add(dataclasses.replace(self._before, excesses=excesses))
        else:
            self._emit(begin, excess)
        yield from self._pop_ready()

    def _pop_ready(self) -> list[Chunk]:
        ready, self._ready = self._ready, []
        return ready

    def _close(self) -> bool:
        """Closes a chunk if that is possible; returns whether it was."""
        bound = self._size + self._most
        if self._end and self._last >= 0:
            start = max(self._searched, self._size - 1)
            stop = min(self._last + 1, bound)
            if found := self._end.search(self._buffer, start, stop):
                self._close_at(found)
                return True
            self._searched = self._last
        if len(self._buffer) <= bound:
            return False
        begin = self._last_document()
        if begin > self._size:
            self._emit(begin)  # what follows may be within the bound
        elif self._is_divisible():
            self._cut_document(begin)
        else:
            excess = self._huge_document(begin)
            self._before = self._chunk(begin, (excess,))
            self._remove(begin)
        return True

    def _close_at(self, end: re.Match[bytes]) -> None:
        """Closes a chunk at the end of its last document, if that is not too large."""
        begin = self._last_document() if end.end() > self._most else 0
        if end.start() - begin <= self._most:
            self._emit(end.end())
        elif self._is_divisible():
            self._cut_document(begin)
        else:
            stop = end.end() - begin
            self._emit(begin, self._huge_document(begin))
            self._remove(stop)

    def _drop(self) -> bool:
        """Removes what was read of a document; returns whether it ends there."""
        assert self._end and self._before
        if found := self._end.search(self._buffer):
            self._add(self._before)
            self._before = None
            self._remove(found.end())
            return True
        kept = len(self._end.pattern) - 1  # its end may be split
        self._remove(max(0, len(self._buffer) - kept))
        return False

    def _is_divisible(self) -> bool:
        return self._text.input_format in _DIVISIBLE

    def _cut_document(self, begin: int) -> None:
        """Closes a chunk within a document, after a line if one ends in the bound."""
        stop = begin + self._most
        excess = limits.cut_document(self._place(begin), self._text)
        cut = self._buffer.rfind(b"\n", begin, stop) + 1
        if cut == 0:
            cut = stop
            while cut > stop - 3 and self._buffer[cut] & 0xC0 == 0x80:
                cut -= 1  # not within a character
        self._emit(cut, excess)

    def _huge_document(self, begin: int) -> limits.Excess:
        return limits.huge_document(self._place(begin), self._text)

    def _place(self, begin: int) -> str:
        line = self._line + self._buffer.count(b"\n", 0, begin)
        return f"line {line}"

    def _last_document(self, to_end: bool = False) -> int:
        """Where the document begins with which the chunk is long enough.

        Args:
          to_end: the last document that has been read, instead.
        """
        begin, stop = 0, self._size + self._most
        if self._end:
            for end in self._end.finditer(self._buffer, 0, stop):
                if end.start() >= self._size - 1 and not to_end:
                    break
                begin = end.end()
        return begin

    def _chunk(self, stop: int, excesses: tuple[limits.Excess, ...]) -> Chunk:
        data = bytes(memoryview(self._buffer)[:stop])
        data = b"" if data.isspace() else data
        return Chunk(self._path, self._line, data, excesses)

    def _emit(self, stop: int, *excesses: limits.Excess) -> None:
        """Moves a chunk out of the buffer; unless there is nothing in it."""
        chunk = self._chunk(stop, excesses)
        if chunk.data or excesses:
            self._add(chunk)
        self._remove(stop)

    def _add(self, chunk: Chunk) -> None:
        self._ready.append(chunk)
        self._size = self._chunk_bytes

    def _remove(self, stop: int) -> None:
        self._line += self._buffer.count(b"\n", 0, stop)
        del self._buffer[:stop]
        self._last -= stop
        self._searched = 0
