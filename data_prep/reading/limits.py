"""Bounds of the text that is read: what exceeds them is named, and counted.

The settings are `text.max_…`. What is cut or dropped follows from the bytes of the
input and the settings alone.
"""

import collections
import dataclasses
import unicodedata
from collections.abc import Iterator, Mapping

from albert_tf.core import config, progress_bar

# What is counted. Of a cut document or line nothing is lost; a document or page that is
# dropped gives no text; the rest of a cut file is not read.
CUT_LINES = "cut_lines"
CUT_DOCUMENTS = "cut_documents"
HUGE_DOCUMENTS = "huge_documents"
COMPLEX_PAGES = "complex_pages"
CUT_FILES = "cut_files"
KINDS = (CUT_LINES, CUT_DOCUMENTS, HUGE_DOCUMENTS, COMPLEX_PAGES, CUT_FILES)

# Of each kind and block, this many are named.
_NUM_NAMED = 5
# The longest compatibility decomposition of a character (NFKD, of U+FDFA).
_LONGEST_DECOMPOSITION = 18
# Sorting a run of combining marks, as normalization does, takes time in proportion to
# the square of its length. Those of languages have a handful.
_MAX_MARKS = 1000
_PART_CHARACTERS = 1 << 16
# Marks, and invisible characters, which cleaning may remove from between marks.
_MARK_CATEGORIES = frozenset(("Mn", "Mc", "Me", "Cf", "Cc", "Cs", "Cn"))


@dataclasses.dataclass(frozen=True)
class Excess:
    """Something that exceeded a bound: its kind, where it is, and a sentence."""

    kind: str
    place: str
    sentence: str


def note(excess: Excess, path: str, counts: collections.Counter) -> None:
    """Counts what exceeded a bound and names it on stderr.

    Args:
      excess: from a file.
      path: the path of the file.
      counts: of a block; updated.
    """
    counts[excess.kind] += 1
    if counts[excess.kind] <= _NUM_NAMED:
        line = f"{path}, {excess.place}: {excess.sentence}"
    elif counts[excess.kind] == _NUM_NAMED + 1:
        kind = excess.kind.replace("_", " ")
        line = f"{path}: more {kind} near here are only counted"
    else:
        return
    progress_bar.say(line)  # not within a progress bar


def describe(counts: Mapping[str, int]) -> str:
    """Returns the counts of what exceeded a bound; empty if nothing did."""
    return ", ".join(
        f"{counts[kind]:,} {kind.replace('_', ' ')}"
        for kind in KINDS
        if counts.get(kind)
    )


def max_unpacked(num_bytes: int, text: config.TextConfig) -> int:
    """The number of bytes that may be read of a file of `num_bytes` on disk."""
    return max(text.max_document_bytes, text.max_unpacked_ratio * num_bytes)


def cut_file(place: str, most: int) -> Excess:
    """The file unpacks to more than `most` bytes, see `max_unpacked`."""
    return Excess(
        CUT_FILES,
        place,
        f"the file unpacks to more than {most:,} bytes, over text.max_unpacked_ratio "
        "times its size; the rest is dropped. If the file is as it should be, raise "
        "that setting",
    )


def huge_document(place: str, text: config.TextConfig) -> Excess:
    """A document of more than `text.max_document_bytes` that cannot be cut."""
    return Excess(
        HUGE_DOCUMENTS,
        place,
        f"a document of more than {text.max_document_bytes:,} bytes, or characters "
        "when they are decomposed, is dropped; divide it, or raise "
        "text.max_document_bytes",
    )


def cut_document(place: str, text: config.TextConfig) -> Excess:
    """A document of more than `text.max_document_bytes` that was cut."""
    return Excess(
        CUT_DOCUMENTS,
        place,
        f"a document of more than {text.max_document_bytes:,} bytes is cut; check "
        "text.input_format and what separates documents, or raise "
        "text.max_document_bytes",
    )


def bound_lines(
    lines: tuple[str, ...],
    path: str,
    place: str,
    text: config.TextConfig,
    counts: collections.Counter,
) -> tuple[str, ...]:
    """Cuts the long lines of a document.

    A line is cut at a space if there is one, so that it has at most
    `text.max_line_characters`, before and after it is decomposed (NFKD), and nowhere
    more than 1,000 combining marks in a row.

    Args:
      lines: the stripped, non-empty lines of a document.
      path: path of the file.
      place: of the document in the file.
      text: the bounds.
      counts: updated.

    Returns:
      Stripped, non-empty lines; none if the document is too large when decomposed.
    """
    most = text.max_line_characters
    harmless = min(most // _LONGEST_DECOMPOSITION, _MAX_MARKS)
    if max(map(len, lines), default=0) > harmless:
        found: list[str] = []
        for line in lines:
            parts = _cut_line(line, most) if len(line) > harmless else [line]
            if len(parts) > 1:
                sentence = (
                    f"a line of {len(line):,} characters is cut: it is longer than "
                    f"text.max_line_characters={most}, perhaps when it is decomposed, "
                    f"or has over {_MAX_MARKS:,} combining marks in a row"
                )
                note(Excess(CUT_LINES, place, sentence), path, counts)
            found += parts
        lines = tuple(found)
    if _decomposes_to_more(lines, text.max_document_bytes):
        note(huge_document(place, text), path, counts)
        return ()
    return lines


def _cut_line(line: str, most: int) -> list[str]:
    if line.isascii():
        return _cut_at_spaces(line, most)
    return [
        piece
        for part in _cut_in_marks(line)
        for piece in _cut_at_spaces(part, _size(part, most))
    ]


def _size(line: str, most: int) -> int:
    """Returns the size of parts of which none decomposes to more than `most`."""
    is_long = len(line) > most // _LONGEST_DECOMPOSITION
    if is_long and _decomposed_size(line, most) > most:
        return most // _LONGEST_DECOMPOSITION
    return most


def _cut_at_spaces(line: str, size: int) -> list[str]:
    parts, start = [], 0
    while len(line) - start > size:
        end = line.rfind(" ", start + 1, start + size + 1)
        if end < 0:
            end = start + size
        parts.append(line[start:end].strip())
        start = end
    parts.append(line[start:].strip())
    return [part for part in parts if part]


def _cut_in_marks(line: str) -> list[str]:
    """Cuts a line wherever more than `_MAX_MARKS` marks are in a row."""
    parts, start = [], 0
    for first, end in _mark_runs(line):
        for cut in range(first + _MAX_MARKS, end, _MAX_MARKS):
            parts.append(line[start:cut].strip())
            start = cut
    parts.append(line[start:].strip())
    return [part for part in parts if part]


def _mark_runs(line: str) -> Iterator[tuple[int, int]]:
    """Yields where runs of more than `_MAX_MARKS` marks begin and end.

    Such a run holds one of the characters that are looked at.
    """
    end = 0
    for place in range(0, len(line), _MAX_MARKS):
        if place < end or not _is_mark(line[place]):
            continue
        first = place
        while first > end and _is_mark(line[first - 1]):
            first -= 1
        end = place + 1
        while end < len(line) and _is_mark(line[end]):
            end += 1
        if end - first > _MAX_MARKS:
            yield first, end


def _is_mark(character: str) -> bool:
    return unicodedata.category(character) in _MARK_CATEGORIES


def _decomposed_size(line: str, most: int) -> int:
    """Returns the length of a line in NFKD, or some number above `most`.

    By parts, whose lengths add up, so that little is in memory at a time: characters
    decompose one by one, and sorting their marks leaves the length as it is.
    """
    size = 0
    for start in range(0, len(line), _PART_CHARACTERS):
        part = line[start : start + _PART_CHARACTERS]
        size += len(unicodedata.normalize("NFKD", part))
        if size > most:
            break
    return size


def _decomposes_to_more(lines: tuple[str, ...], most: int) -> bool:
    if sum(map(len, lines)) * _LONGEST_DECOMPOSITION <= most:
        return False
    total = 0
    for line in lines:
        is_plain = line.isascii()
        total += len(line) if is_plain else _decomposed_size(line, most)
        if total > most:
            return True
    return False
