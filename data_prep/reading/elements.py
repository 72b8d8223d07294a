"""Elements of marked-up files: `<doc …>` of WikiExtractor, `<page>` of MediaWiki."""

import re
from collections.abc import Iterator

WIKIEXTRACTOR_END = "</doc>"
MEDIAWIKI_END = "</page>"
_DOC = re.compile(r"<doc\s")
_END_OF_TAG = re.compile(r"[>\n]")


def iter_docs(text: str, path: str, line: int) -> Iterator[tuple[int, str]]:
    """Yields the line where each `<doc …>` element begins, and its content.

    Args:
      text: whole elements, and white space between them.
      path: path of the file, for errors.
      line: where the text begins.

    Raises:
      ValueError: there is other text between the elements, or an element is not whole.
    """
    position = 0
    while (stop := text.find(WIKIEXTRACTOR_END, position)) >= 0:
        start, body = _find_doc(text, position, stop)
        if start < 0:
            line += text.count("\n", position, stop)
            raise _unbalanced(path, line, f"{WIKIEXTRACTOR_END} has no start")
        _refuse_text(text[position:start], path, line)
        line += text.count("\n", position, start)
        yield line, text[body:stop]
        line += text.count("\n", start, stop)
        position = stop + len(WIKIEXTRACTOR_END)
    start, body = _find_doc(text, position, len(text))
    if start >= 0:
        line += text.count("\n", position, start)
        raise _unbalanced(
            path,
            line,
            f"{text[start : min(body, start + 80)]} has no {WIKIEXTRACTOR_END}",
        )
    _refuse_text(text[position:], path, line)


def iter_pages(text: str, path: str, line: int) -> Iterator[tuple[int, str]]:
    """Yields the line where each `<page>` element begins, and its content.

    Args:
      text: whole elements, and the other parts of a dump around them.
      path: path of the file, for errors.
      line: where the text begins.

    Raises:
      ValueError: an element is not whole.
    """
    tag, position = "<page>", 0
    while (stop := text.find(MEDIAWIKI_END, position)) >= 0:
        start = text.find(tag, position, stop)
        if start < 0:
            line += text.count("\n", position, stop)
            raise _unbalanced(path, line, f"{MEDIAWIKI_END} has no start")
        line += text.count("\n", position, start)
        yield line, text[start + len(tag) : stop]
        line += text.count("\n", start, stop)
        position = stop + len(MEDIAWIKI_END)
    start = text.find(tag, position)
    if start >= 0:
        line += text.count("\n", position, start)
        raise _unbalanced(path, line, f"{tag} has no {MEDIAWIKI_END}")


def num_lines_before_text(content: str) -> int:
    """The number of empty lines that text begins with."""
    return content.count("\n", 0, len(content) - len(content.lstrip()))


def _find_doc(text: str, position: int, stop: int) -> tuple[int, int]:
    """Returns where the first `<doc …>` tag begins and ends; (-1, -1) if none does.

    A tag ends on its line. In time in proportion to the text, unlike a regular
    expression: of many beginnings on a line only the last ones are tried.
    """
    while opening := _DOC.search(text, position, stop):
        end = _END_OF_TAG.search(text, opening.end(), stop)
        if end is None:
            return -1, -1
        if end.group() == ">":
            return opening.start(), end.end()
        # The white space of `<doc\s` may be the end of the line.
        position = max(opening.start() + 1, end.start() - len("<doc"))
    return -1, -1


def _refuse_text(text: str, path: str, line: int) -> None:
    if text.strip():
        line += num_lines_before_text(text)
        raise _unbalanced(path, line, "there is text outside the <doc …> elements")


def _unbalanced(path: str, line: int, fault: str) -> ValueError:
    return ValueError(
        f"{path}, line {line}: {fault}; the file is damaged or truncated, or "
        "text.input_format is wrong"
    )
