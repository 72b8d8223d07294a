"""Markup of docstrings: removes it, and joins lines into paragraphs."""

import html
import itertools
import re
from collections.abc import Sequence

DIRECTIVE = re.compile(r"\.\. +([\w-]+(?::[\w-]+)?):: *(.*)")
VERSION_DIRECTIVES = frozenset("deprecated versionadded versionchanged".split())
TEXT_DIRECTIVES = frozenset(
    "attention caution danger hint important note seealso tip warning".split()
)
FIELD = re.compile(r"[:@](\w+)( [^:`]*)?:(?: +(.*)|$)")
TEXT_FIELDS = frozenset(
    "arg argument cvar except exception ivar keyword kwarg note param parameter "
    "raise raises return returns var yields".split()
)
SECTION = re.compile(r"[A-Z]\w*(?: \w+){0,2}:$")
BULLET = re.compile(r"(?:[-*+•o]|\(?(?:\d{1,2}|[a-zA-Z]|[ivx]+)[.)])\s+(?=\S)")
# The prefix of a description in a list of parameters: `name:`, `*args, **kwargs:`,
# `name (int, optional):`, `name --`.
ITEM = re.compile(
    r"[`*'\"]*(?:[a-z_][\w.]*|\w+(?:Error|Exception)|[A-Z_]{1,2}|[A-Z]\w*(?=\s+--))"
    r"(?:\([^)]*\)|=\S+)?[`*'\"]*(?:, ?[`*]*[\w.]+[`*]*)*\s*(?:\([^)]*\)|\[[^\]]*\])?"
    r"\s*(?::|--?|–)\s+(?=\S)"
)
NUMPYDOC_TERM = re.compile(r"[`*\w., {}]+ : \S")
CODE = re.compile(
    r"(?:import [\w.]+(?: as \w+)?$|from [\w.]+ import |def \w+\(|class \w+.*:$|@\w+"
    r"|[\w.\[\], '\"]+ [-+*/|&]?= \S|[\w.]+\(.*\)[;:]?$|[\w.]+\([^)]*$|#|\$ |% |//"
    r"|(?:if|for|while|with|elif|except)\b.*[(=<>_\[].*:$|(?:try|else|finally):"
    r"|(?:assert|return|print|del|yield|await|async) .*[(=\[]|[\[{(]['\"\d\[{(]"
    r"|usage: |<\w+[^>]*>$|\{|[\w.]+ ?-> )"
)
TABLE_ROW = re.compile(r"[|+].*[|+]$|.*\S\s*\|\s.*\|\s|.*[^\s.:;!?)] {3,}\S|.*\t\S")

INLINE_MARKUP = (
    (re.compile(r"</?(?:a|b|i|p|br|em|h\d|li|ul|ol|td|th|tr|pre|sub|sup|code|span|div"
                r"|table|strong|devsite[\w-]*|section)(?:\s[^>]*)?/?>"), ""),
    (re.compile(r"(?<!\w)!?\[([^\]\[]+)\](?:\([^)]*\)| ?\(https?:[^)]*\))"), r"\1"),
    (re.compile(r"\(([^()]+)\)\[https?:[^\]]*\]"), r"\1"),
    (re.compile(r"\[([^\]\[]+)\]\[[\w. -]*\]"), r"\1"),
    (re.compile(r"(?::[a-z][\w+.-]*)?:[a-z]\w*:`[~!]?\.?([^`<]+?)(?:\s*<[^`>]*>)?`"),
     r"\1"),
    (re.compile(r"`([^`<]+?)\s*<[^`>]*>`_{1,2}"), r"\1"),
    (re.compile(r"\s*\[[\w#*]+\]_"), ""),
    (re.compile(r"``(.+?)``"), r"\1"),
    (re.compile(r"`(?:~\.?)?([^`]+)`_{0,2}"), r"\1"),
    (re.compile(r"`+"), ""),
    (re.compile(r"(?<![\w*])\*\*(?=\S)([^*]+?)(?<=\S)\*\*(?![\w*])"), r"\1"),
    (re.compile(r"(?<![\w*])\*(?=\S)([^*]+?)(?<=\S)\*(?![\w*])"), r"\1"),
    (re.compile(r"\\([*_|`])"), r"\1"),
    (re.compile(r"\s*[(<\[]\s*(?:https?|ftp)://[^\s)>\]]*\s*[)>\]]"), ""),
    (re.compile(r"<?\b(?:https?|ftp)://\S*[\w/#=]>?"), "this page"),
    (re.compile(r"\s+"), " "),
    (re.compile(r"(?<=[a-z]{2})- (?=[a-z])(?!(?:and|or|to)\b)"), "-"),  # wrapped
    (re.compile(r" (?=[.,;:](?:\s|$))"), ""),
)  # fmt: skip

FENCES = ("```", "~~~", "$$")
# What is dropped with a line: the line above, the lines up to the next empty one, or
# the following lines of deeper indentation.
HEADING, PARAGRAPH, BLOCK = "heading", "paragraph", "block"


def blank_markup(text: str) -> list[str]:
    """Returns the lines of a docstring, with those that are not text made empty.

    Code, doctests, literal blocks, tables, rules, headings and reST directives are
    dropped; the text of notes and the descriptions of reST fields are kept.
    """
    kept: list[str] = []
    dropped = ""  # as of `_convert_line`
    block_indent = 0
    for line in map(str.rstrip, text.expandtabs().splitlines()):
        stripped = line.lstrip()
        indent = len(line) - len(stripped)
        if dropped in FENCES:
            kept.append("")
            dropped = "" if stripped.startswith(dropped) else dropped
        elif (
            not stripped
            or dropped == PARAGRAPH
            or (dropped == BLOCK and indent > block_indent)
        ):
            kept.append("")
            dropped = "" if dropped == PARAGRAPH and not stripped else dropped
        else:
            lines, dropped = _convert_line(line, kept[-1] if kept else "")
            block_indent = indent
            if dropped == HEADING and kept:
                kept[-1] = ""
            kept += lines
    return kept


def _convert_line(line: str, previous: str) -> tuple[list[str], str]:
    """Converts a non-empty line.

    Args:
      line: the line, with its indentation.
      previous: the line kept before it.

    Returns:
      (lines, dropped): the lines that replace it, and what else is dropped: HEADING,
      PARAGRAPH, BLOCK, the one of FENCES that was opened, or "" for nothing.
    """
    stripped = line.lstrip()
    margin = " " * (len(line) - len(stripped))
    fence = next(filter(stripped.startswith, FENCES), "")
    if fence:
        return [""], "" if fence in stripped[3:] else fence
    if stripped.startswith((">>>", "In [")):
        return [""], PARAGRAPH
    if stripped.startswith(".. "):
        return _convert_directive(stripped, margin)
    if field := FIELD.match(stripped):
        if field[1] not in TEXT_FIELDS:
            return [""], BLOCK
        return [f"{margin}- {field[3]}" if field[3] else ""], ""
    if not any(character.isalnum() for character in stripped):
        return [""], HEADING if len(set(stripped)) == 1 else ""
    if "::=" in stripped:
        return [""], BLOCK
    if CODE.match(stripped) and (not previous or previous.endswith(":")):
        return [""], PARAGRAPH
    if TABLE_ROW.match(stripped):
        return [""], ""
    if stripped.endswith("::"):
        return [line[:-1]], BLOCK
    return [line], ""


def _convert_directive(stripped: str, margin: str) -> tuple[list[str], str]:
    """Converts a line that starts with `.. `, see `_convert_line`."""
    directive = DIRECTIVE.match(stripped)
    name = directive[1].lower() if directive else ""
    if directive and name in TEXT_DIRECTIVES and directive[2]:
        return ["", f"{margin}   {directive[2]}"], ""
    return [""], "" if name in TEXT_DIRECTIVES | VERSION_DIRECTIVES else BLOCK


def join_lines(lines: Sequence[str]) -> list[str]:
    """Joins wrapped lines into paragraphs, one for each item of a list."""
    paragraphs: list[str] = []
    current: list[str] = []
    base = previous_indent = 0
    is_item = False
    for line, following in itertools.zip_longest(lines, lines[1:], fillvalue=""):
        stripped = line.strip()
        indent = len(line) - len(line.lstrip())
        starts_item = bool(BULLET.match(stripped) or ITEM.match(stripped))
        if current:
            last = current[-1]
            deeper = indent > previous_indent
            # A short line above an indented one is a term above its definition.
            if (
                not stripped
                or indent < base
                or BULLET.match(stripped)
                or SECTION.match(stripped)
                or (indent == base and is_item and starts_item)
                or (last.endswith(":") and (deeper or starts_item))
                or (deeper and not is_item and len(last) < 50)
            ):
                paragraphs.append(" ".join(current))
                current = []
        if not stripped:
            continue
        if NUMPYDOC_TERM.match(stripped) and following.startswith(" " * (indent + 1)):
            continue
        if not current:
            base, is_item = indent, starts_item
        current.append(stripped)
        previous_indent = indent
    if current:
        paragraphs.append(" ".join(current))
    return paragraphs


def strip_inline(paragraph: str) -> str:
    """Removes the bullet, the parameter's name and inline markup of a paragraph."""
    text = BULLET.sub("", paragraph, count=1) if BULLET.match(paragraph) else paragraph
    if item := ITEM.match(text):
        text = text[item.end() :]
    text = html.unescape(text)
    for pattern, replacement in INLINE_MARKUP:
        text = pattern.sub(replacement, text)
    return text.strip()
