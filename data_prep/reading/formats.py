"""Parsers of the input formats: bytes to the lines of documents."""

import collections
import re
from collections.abc import Iterator
from xml.etree import ElementTree

import pyarrow as pa

from albert_tf.core import config, short_repr, strict_json
from data_prep.reading import elements, limits, markup_work, wikitext_process

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
# Of XML, without those of the wikitext, which are escaped: an article has about 20.
_MAX_PAGE_TAGS = 1 << 19
_MAX_BRACKETS = 1 << 20
# A string of JSON; one that does not end goes to the end of the line.
_JSON_STRING = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)')
_DUMP = re.compile(r"<page>|</?mediawiki")


def iter_documents(
    data: bytes,
    path: str,
    first_line: int,
    text: config.TextConfig,
    counts: collections.Counter,
) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Parses consecutive documents of a file.

    Args:
      data: whole documents; for Parquet, an Arrow IPC stream of the text column.
      path: path of the file, for errors.
      first_line: line, from 1, where the data begins; the row for Parquet.
      text: the format.
      counts: updated with what was replaced or omitted, see `blocks.parse_block`.

    Yields:
      (line, lines) of each document: the line where it begins; its non-empty lines,
      stripped.

    Raises:
      ValueError: data is not in the format, or not UTF-8; names path and line.
    """
    if text.input_format == "parquet":
        found = _parse_rows(data, path, first_line, text, counts)
    else:
        content = _decode_lines(data, path, first_line, text, counts)
        if text.input_format == "text":
            yield from _split_at_empty_lines(content, first_line)
            return
        if text.input_format == "lines":
            yield from _split_at_lines(content, first_line)
            return
        if text.input_format == "file":
            before = elements.num_lines_before_text(content)
            found = iter([(first_line + before, content)])
        elif text.input_format == "jsonl":
            found = _parse_json(content, path, first_line, text, counts)
        elif text.input_format == "wikiextractor":
            found = parse_wikiextractor(content, path, first_line)
        else:
            found = parse_mediawiki(content, path, first_line, text, counts)
    for number, document in found:
        lines = tuple(s for line in document.split("\n") if (s := line.strip()))
        if lines:
            yield number, lines
        else:
            counts["empty_documents"] += 1


def _split_at_empty_lines(
    content: str, first_line: int
) -> Iterator[tuple[int, tuple[str, ...]]]:
    lines: list[str] = []
    for number, line in enumerate(content.split("\n"), first_line):
        if line := line.strip():
            lines.append(line)
        elif lines:
            yield number - len(lines), tuple(lines)
            lines = []
    if lines:
        yield number - len(lines) + 1, tuple(lines)


def _split_at_lines(
    content: str, first_line: int
) -> Iterator[tuple[int, tuple[str, ...]]]:
    for number, line in enumerate(content.split("\n"), first_line):
        if line := line.strip():
            yield number, (line,)


def _decode_lines(
    data: bytes,
    path: str,
    first_line: int,
    text: config.TextConfig,
    counts: collections.Counter,
) -> str:
    """Decodes whole lines, without the byte order mark of the file."""
    if first_line == 1:
        data = data.removeprefix(_BYTE_ORDER_MARK)
    try:
        return _decode(data, text, counts)
    except UnicodeDecodeError as error:
        line = first_line + data.count(b"\n", 0, error.start)
        column = error.start - data.rfind(b"\n", 0, error.start)
        place = f"{path}, line {line}, column {column}"
        raise _not_utf8(place, error) from error


def _decode(data: bytes, text: config.TextConfig, counts: collections.Counter) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        if text.invalid_utf8 == "error":
            raise
    valid = data.decode(errors="ignore").encode()
    counts["replaced_bytes"] += len(data) - len(valid)
    return data.decode(errors="replace")


def _not_utf8(place: str, error: UnicodeDecodeError) -> ValueError:
    return ValueError(
        f"{place}: text must be UTF-8; found byte 0x{error.object[error.start]:02x}. "
        "Convert the file, e.g. iconv -f LATIN1 -t UTF-8, or replace such bytes by "
        "U+FFFD with --set text.invalid_utf8=replace"
    )


def _parse_rows(
    data: bytes,
    path: str,
    first_row: int,
    text: config.TextConfig,
    counts: collections.Counter,
) -> Iterator[tuple[int, str]]:
    """Yields the number and the text of each row of an Arrow IPC stream."""
    with pa.ipc.open_stream(data) as stream:
        column = stream.read_all().column(0).cast(pa.large_binary())
    for number, value in enumerate(column.to_pylist(), first_row):
        if value is None:
            counts["null_documents"] += 1
            continue
        try:
            yield number, _decode(value, text, counts)
        except UnicodeDecodeError as error:
            place = f"{path}, row {number}, byte {error.start + 1}"
            raise _not_utf8(place, error) from error


def _parse_json(
    content: str,
    path: str,
    first_line: int,
    text: config.TextConfig,
    counts: collections.Counter,
) -> Iterator[tuple[int, str]]:
    """Yields the line number and the text field of each JSON object, one per line."""
    for number, line in enumerate(content.split("\n"), first_line):
        if not line.strip():
            continue
        place = f"{path}, line {number}"
        # Each list or object takes twenty times its bytes in memory.
        if _has_many_brackets(line):
            raise ValueError(
                f"{place}: must have at most {_MAX_BRACKETS:,} brackets; fix or "
                "remove the line"
            )
        try:
            # Leniently: of a corpus only the text counts, and single surrogates, which
            # JSON allows, are handled below as other bytes that are not text.
            row = strict_json.loads(
                line,
                place,
                lenient=True,
                max_bytes=strict_json.MAX_DATA_BYTES,
                takes_surrogates=True,
            )
        except ValueError as error:
            raise ValueError(f"{error}; fix or remove the line") from error
        if not isinstance(row, dict):
            raise ValueError(f"{place}: must be a JSON object; found {line[:40]!r}")
        value = row.get(text.field)
        if not isinstance(value, str):
            names = short_repr.shown(list(row))
            found = short_repr.shown(value) if text.field in row else f"only {names}"
            raise ValueError(
                f"{place}: field {text.field!r} must be a string; found {found}. Name "
                "the text field with --set text.field=NAME"
            )
        encoded = value.encode(errors="surrogatepass")
        try:
            yield number, _decode(encoded, text, counts)
        except UnicodeDecodeError as error:
            raise _not_utf8(f"{place}, an escape \\ud800 to \\udfff", error) from error


def _has_many_brackets(line: str) -> bool:
    """Returns whether JSON has more lists and objects than `_MAX_BRACKETS`.

    Brackets in strings, of which the code of programs has many, are not counted.
    """
    count = line.count("[") + line.count("{")
    if count <= _MAX_BRACKETS:
        return False
    for string in _JSON_STRING.finditer(line):
        count -= line.count("[", *string.span()) + line.count("{", *string.span())
    return count > _MAX_BRACKETS


def parse_wikiextractor(
    text: str, path: str, first_line: int
) -> Iterator[tuple[int, str]]:
    """Parses the `<doc …>` elements that WikiExtractor writes.

    Args:
      text: whole elements, and the empty lines between them.
      path: path of the file, for errors.
      first_line: line where the text begins.

    Yields:
      (line, body) of each element: the line where the text of the body begins; the
      body, whose first line is the title.

    Raises:
      ValueError: there is text outside the elements.
    """
    for line, body in elements.iter_docs(text, path, first_line):
        # WikiExtractor escapes these three only.
        plain = body.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
        yield line + elements.num_lines_before_text(body), plain


def parse_mediawiki(
    text: str,
    path: str,
    first_line: int,
    bounds: config.TextConfig,
    counts: collections.Counter,
) -> Iterator[tuple[int, str]]:
    """Parses the articles of a MediaWiki XML dump (pages-articles) to plain text.

    Pages outside the main namespace, redirects, pages that are not wikitext, and those
    with too much markup are counted and omitted.

    Args:
      text: whole `<page>` elements, and the parts of the dump around them.
      path: path of the file, for errors.
      first_line: line where the text begins.
      bounds: those of markup, work and seconds.
      counts: updated with the number of omitted pages, by reason.

    Yields:
      (line, text) of each article: the line of its `<page>` tag; the title, then the
      text. An article without text is empty.

    Raises:
      ValueError: a page is not valid XML, or the file is not a dump.
    """
    if first_line == 1 and not _DUMP.search(text):
        raise ValueError(
            f"{path}: must be a MediaWiki XML dump, but has neither <mediawiki> nor "
            "<page>; check text.input_format"
        )
    for line, body in elements.iter_pages(text, path, first_line):
        if body.count("<") > _MAX_PAGE_TAGS:
            limits.note(_complex_page(line, "", _too_much(bounds)), path, counts)
            continue
        try:
            page = ElementTree.fromstring(f"<page>{body}</page>")
        except ElementTree.ParseError as error:
            row, column = error.position
            raise ValueError(
                f"{path}, line {line + row - 1}: a <page> must be valid XML; found "
                f"{error.msg.partition(':')[0]} at column {column + 1}. Download the "
                "dump again"
            ) from error
        reason = _omission_reason(page)
        if reason:
            counts[reason] += 1
            continue
        title = page.findtext("title") or ""
        wikitext = page.findtext("revision[last()]/text") or ""
        if markup_work.exceeds(wikitext, bounds.max_markup_work):
            limits.note(_complex_page(line, title, _too_much(bounds)), path, counts)
            continue
        try:
            content = wikitext_process.to_plain_text(
                wikitext, bounds.max_markup_seconds
            )
        except wikitext_process.Unparsable:  # a fault of the library
            counts["unparsable_pages"] += 1
            continue
        except wikitext_process.TooComplex as error:
            limits.note(_complex_page(line, title, f"{error}"), path, counts)
            continue
        yield line, f"{title}\n{content}" if content.strip() else ""


def _complex_page(line: int, title: str, reason: str) -> limits.Excess:
    return limits.Excess(
        limits.COMPLEX_PAGES,
        f"line {line}",
        f"the page {title[:80]!r} is dropped: {reason}",
    )


def _too_much(bounds: config.TextConfig) -> str:
    return (
        "its markup is too much, or too little of it is closed, for "
        f"text.max_markup_work={bounds.max_markup_work}"
    )


def _omission_reason(page: ElementTree.Element) -> str | None:
    if page.findtext("ns", "0").strip() != "0":
        return "other_namespaces"
    if page.find("redirect") is not None:
        return "redirects"
    if page.findtext("revision[last()]/model", "wikitext").strip() != "wikitext":
        return "other_content_models"
    return None
