"""How much work the parser of wikitext has with a page, estimated in linear time.

mwparserfromhell reads on from each opening, such as `[[` or `<ref>`, until it is
closed. If it never is, the parser has read to the end of the page (of an external link
or a heading, of the line) for nothing, and resumes after the opening: in a page of many
such openings the time grows with the square of its size. And each `=` of a heading adds
to the depth of its recursion, which ends the process if there are too many.
"""

import re
from collections.abc import Iterator

# Time and memory of a character that begins or divides markup, in characters of text.
_PER_MARK = 200
_MARKS = "[{<|&"
# Each character of a list's marker becomes a tag.
_LIST_MARKERS = re.compile(r"^[:;#*]+", re.MULTILINE)
# The parser recurses at each run of equals signs in a heading, which may be longer than
# its line if markup in it is; from about 90,000 the usual stack of 8 MB overflows.
_MAX_HEADING_SIGNS = 20_000

_SINGLE_TAGS = frozenset("br dd dt hr img li link meta td th tr wbr".split())
# Their content is not markup.
_RAW_TAGS = frozenset(
    "categorytree ce chem gallery graph hiero imagemap inputbox math nowiki pre score "
    "section source syntaxhighlight templatedata timeline".split()
)
_TOKEN = re.compile(
    r"(?P<comment><!--)"
    r"|<(?P<slash>/?)(?P<name>[^\s<>/=|!\[\]{}]+)(?P<rest>[^<>]*)(?P<close>>?)"
    r"|(?P<open>\{\{|(?<!\{)\{\||\[\[|\[(?=[A-Za-z+.-]{1,20}:|//))"
    r"|(?P<end>\}\}|\|\}(?!\})|\]\]|\])"
    r"|(?P<signs>=+)"
    r"|(?P<newline>\n)"
)
_ENDS = {"}}": "{{", "|}": "{|", "]]": "[[", "]": "["}
_HEADING = "="
# They fail at the end of the line, not of the page.
_OF_A_LINE = frozenset(("[", _HEADING))


def exceeds(wikitext: str, most: int) -> bool:
    """Returns whether the parser would have too much work with a page.

    Args:
      wikitext: of the page.
      most: the bound of the work: the characters that are read for nothing, and 200 for
        each character of markup.
    """
    num_marks = sum(map(wikitext.count, _MARKS))
    num_marks += sum(len(run) for run in _LIST_MARKERS.findall(wikitext))
    work = num_marks * _PER_MARK
    if work > most:
        return True
    is_shallow = wikitext.count("=") <= _MAX_HEADING_SIGNS
    if is_shallow and work + num_marks * len(wikitext) <= most:
        return False  # even if nothing is closed
    for wasted in _wasted(wikitext):
        work += wasted
        if work > most:
            return True
    return False


def _wasted(wikitext: str) -> Iterator[float]:
    """Yields the characters that the parser reads for nothing, by opening."""
    size, position = len(wikitext), 0
    # What is open: the kind and where it began.
    stack: list[tuple[str, int]] = []
    is_in_heading, num_signs = False, 0
    while token := _TOKEN.search(wikitext, position):
        start, position = token.span()
        kind = token.lastgroup
        if kind == "comment":
            end = wikitext.find("-->", position)
            if end < 0:
                yield size - start
            else:
                position = end + len("-->")
        elif kind == "close":
            # Attributes may hold markup.
            position = token.end("name")
            name = token["name"].lower()
            is_closed = bool(token["close"]) and token["rest"].endswith("/")
            if token["slash"]:
                if stack and stack[-1][0] == name:
                    stack.pop()
            elif name in _RAW_TAGS and not is_closed:
                end = wikitext.find("</" + token["name"], position)
                if end < 0:
                    yield size - start
                else:
                    position = end
            elif name not in _SINGLE_TAGS and not is_closed:
                stack.append((name, start))
        elif kind == "open":
            stack.append((token["open"], start))
        elif kind == "end":
            if stack and stack[-1][0] == _ENDS[token["end"]]:
                stack.pop()
        elif kind == "signs":
            num_signs += 1
            if is_in_heading:
                if num_signs > _MAX_HEADING_SIGNS:
                    yield float("inf")
            elif start == 0 or wikitext[start - 1] == "\n":
                stack.append((_HEADING, start))
                is_in_heading, num_signs = True, 1
        else:
            while stack and stack[-1][0] in _OF_A_LINE:
                opened, begin = stack.pop()
                if opened == _HEADING:
                    is_in_heading = False
                if opened != _HEADING or num_signs < 2:
                    yield start - begin
    for _, begin in stack:
        yield size - begin
