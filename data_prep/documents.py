"""Readers of raw text: files to lines, lines to documents, lines to sentences.

Raw text is UTF-8 with an empty line between documents. It may be compressed (.gz,
.bz2, .xz, .lzma) and may lie wherever `tf.io.gfile` reaches; it is streamed, never
held whole.
"""

import bz2
import dataclasses
import gzip
import io
import lzma
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence

import sentencex
import tensorflow as tf

_OPENERS: dict[str, Callable] = {
    ".gz": gzip.open,
    ".bz2": bz2.open,
    ".xz": lzma.open,
    ".lzma": lzma.open,
}
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_BUFFER_SIZE = 1 << 20


@dataclasses.dataclass(frozen=True)
class Document:
    """One document: its non-empty lines, stripped, and where the first one stands."""

    path: str
    line: int
    lines: tuple[str, ...]


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
        found = [p for p in tf.io.gfile.glob(pattern) if not tf.io.gfile.isdir(p)]
        if not found:
            raise ValueError(
                f"the input {pattern!r} matches no file; give paths or quoted globs "
                "of text files, such as 'corpus/*.txt'"
            )
        paths.update(found)
    return sorted(paths)


def iter_lines(path: str) -> Iterator[tuple[int, str]]:
    r"""The lines of a text file, decompressed by its suffix.

    Args:
      path: anything that `tf.io.gfile` opens.

    Yields:
      (number, text) of each line, counted from 1, stripped. Only "\n" ends a line. A
      byte order mark at the front of the file is dropped.

    Raises:
      ValueError: a line is not UTF-8, or the compressed file is damaged.
    """
    opener = next((o for end, o in _OPENERS.items() if path.endswith(end)), None)
    with tf.io.gfile.GFile(path, "rb") as file:
        stream = io.BufferedReader(_RawFile(file), _BUFFER_SIZE)
        try:
            for number, line in enumerate(opener(stream) if opener else stream, 1):
                if number == 1:
                    line = line.removeprefix(_BYTE_ORDER_MARK)
                yield number, line.decode("utf-8").strip()
        except UnicodeDecodeError as error:
            raise ValueError(
                f"{path}, line {number}: text must be UTF-8; found byte "
                f"0x{error.object[error.start]:02x} at column {error.start + 1}. "
                "Convert the file, e.g. iconv -f LATIN1 -t UTF-8"
            ) from error
        except (gzip.BadGzipFile, lzma.LZMAError, zlib.error, EOFError) as error:
            raise _damaged(path, error) from error
        except OSError as error:
            if opener is bz2.open:  # bz2 has no error class of its own
                raise _damaged(path, error) from error
            raise


def iter_documents(patterns: str | Iterable[str]) -> Iterator[Document]:
    """The documents of text files that have an empty line between documents.

    The end of a file ends a document too.

    Args:
      patterns: see `expand`.

    Yields:
      Documents, file after file in the order of `expand`.

    Raises:
      ValueError: see `expand` and `iter_lines`; or there is no document at all.
    """
    paths = expand(patterns)
    found = False
    for path in paths:
        lines: list[str] = []
        for number, line in iter_lines(path):
            if line:
                if not lines:
                    first = number
                lines.append(line)
            elif lines:
                yield Document(path, first, tuple(lines))
                lines, found = [], True
        if lines:
            yield Document(path, first, tuple(lines))
            found = True
    if not found:
        raise ValueError(
            f"the input {', '.join(paths[:3])}{', …' if len(paths) > 3 else ''} holds "
            "no document; give files with text, an empty line between documents"
        )


def split_sentences(lines: Sequence[str], splitter: str, language: str) -> list[str]:
    """The sentences of a document, in order, without empty ones.

    Args:
      lines: the lines of the document.
      splitter: one of `config.SENTENCE_SPLITTERS`. "line" takes each line as one
        sentence; "sentencex" splits each line with that library, so that no sentence
        reaches over a line's end.
      language: ISO 639 code for "sentencex", which falls back to related languages
        and to English for codes that it does not know.
    """
    if splitter == "line":
        return [line for line in lines if line]
    sentences = (s.strip() for line in lines for s in sentencex.segment(language, line))
    return [sentence for sentence in sentences if sentence]


def _damaged(path: str, error: Exception) -> ValueError:
    return ValueError(
        f"{path}: the compressed file is damaged or cut short ({error}); copy it anew"
    )


class _RawFile(io.RawIOBase):
    """A GFile as a raw stream.

    GFile's own line reader drops every carriage return, and the decompressors read in
    small pieces; `io.BufferedReader` on top of this mends both.
    """

    def __init__(self, file):
        self._file = file

    def readable(self) -> bool:
        return True

    def readinto(self, buffer) -> int:
        data = self._file.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)
