"""How much work the parser of wikitext has with a page, estimated in linear time.

mwparserfromhell reads on from each opening, such as `[[` or `<ref>`, until it is
closed. If it never is, the parser has read to the end of the page (of an external link
or a heading, of the line; of a tag, to the end of another) for nothing, and resumes
after the opening: in a page of many such openings the time grows with the square of its
size. What is read for nothing costs what its characters do: those of markup and of the
attributes of a tag cost more than those of text. And each `=` of a heading adds to the
depth of its recursion, which ends the process if there are too many.
"""

import bisect
import math
import re
from collections.abc import Iterator

# Time and memory of markup, in characters of text: about 0.07 us each.
_PER_MARK = 200
_PER_TAG = 400  # of its start or end
_PER_ATTRIBUTE = 700
_PER_COLON = 300  # it may make a link of what is around it
_PER_HEADING = 300
_PER_LIST_MARKER = 500  # each becomes a tag
_PER_RULE = 500
# A search for the end of a comment passes so many in the time of one. If there is none,
# the comment is text, and is searched again each time that what is around it is read.
_SEARCHED_CHARACTERS = 40
_COSTLY = re.compile(
    r"^(?P<list>[:;#*]+)|^(?P<rule>-{4,})|^(?P<heading>=)"
    r"|(?P<comment><!--)|(?P<tag><)(?:(?=(?P<rest>[^<>]*)>))?|(?P<colon>:)"
    r"|(?P<mark>[\[{|&])",
    re.MULTILINE,
)
_COSTS = {
    "rule": _PER_RULE,
    "heading": _PER_HEADING,
    "comment": _PER_TAG,
    "tag": _PER_TAG,
    "colon": _PER_COLON,
    "mark": _PER_MARK,
}
# Time of a character in a tag that is never finished, all of which are attributes.
_PER_ATTRIBUTE_CHARACTER = 40
# Work that a page may need for each of its characters. Articles need tens.
_MOST_PER_CHARACTER = 2000
# The parser recurses at each run of equals signs in a heading, which may be longer than
# its line if markup in it is; from about 90,000 the usual stack of 8 MB overflows.
_MAX_HEADING_SIGNS = 20_000

# They need no end.
_SINGLE_TAGS = frozenset("br dd dt hr img li link meta td th tr wbr".split())
_EMPTY_TAGS = frozenset("br hr img link meta wbr".split())
# Their content is not markup.
_RAW_TAGS = frozenset(
    "categorytree ce chem gallery graph hiero imagemap inputbox math nowiki pre score "
    "section source syntaxhighlight templatedata timeline".split()
)
# Tables begin and end there.
_NEAR_LINE_START = r"(?:(?<![^\n])|(?<=\n\s))"
_TOKEN = re.compile(
    r"(?P<comment><!--)"
    r"|<(?P<slash>/?)(?P<name>[^\s<>/=|!\[\]{}]+)(?P<rest>[^<>]*)(?P<tag>>?)"
    rf"|(?P<open>\{{\{{|{_NEAR_LINE_START}\{{\||\[\[|\[(?=[A-Za-z+.-]{{1,20}}:|//))"
    rf"|(?P<end>\}}\}}|{_NEAR_LINE_START}\|\}}(?!\}})|\]\]|\])"
    r"|(?P<greater>>)"
    r"|(?P<signs>=+)"
    r"|(?P<newline>\n)"
)
_ENDS = {"}}": "{{", "|}": "{|", "]]": "[[", "]": "["}
_HEADING = "="
# They fail at the end of the line, not of the page.
_OF_A_LINE = frozenset(("[", _HEADING))
# The start of a tag without its `>`, before its name.
_UNFINISHED = "<"


def exceeds(wikitext: str, most: int) -> bool:
    """Returns whether the parser would have too much work with a page.

    Args:
      wikitext: of the page.
      most: the bound of the work: what each piece of markup costs, and the characters
        and the markup that are read for nothing; characters in a tag count for 40. Work
        of over 2,000 for each character of the page is too much as well, or small pages
        would take longer than large ones.
    """
    most = min(most, _MOST_PER_CHARACTER * len(wikitext))
    costs = _Costs(wikitext)
    work = float(costs.total)
    if work > most:
        return True
    dearest = _PER_ATTRIBUTE_CHARACTER * len(wikitext) + work
    is_shallow = wikitext.count("=") <= _MAX_HEADING_SIGNS
    if is_shallow and work + costs.num_pieces * dearest <= most:
        return False  # even if nothing is closed
    for wasted in _wasted(wikitext, costs):
        work += wasted
        if work > most:
            return True
    return False


class _Costs:
    """What the markup of a page costs, by place."""

    def __init__(self, wikitext: str):
        self._places: list[int] = []
        self._sums = [0]
        last_end = wikitext.rfind("-->")
        for found in _COSTLY.finditer(wikitext):
            kind = "tag" if found["tag"] else found.lastgroup or ""
            cost = _COSTS.get(kind) or _PER_LIST_MARKER * len(found["list"])
            if rest := found["rest"]:
                cost += _PER_ATTRIBUTE * len(rest.split()[1:])
            if kind == "comment" and found.start() > last_end:
                cost += (len(wikitext) - found.start()) // _SEARCHED_CHARACTERS
            self._places.append(found.start())
            self._sums.append(self._sums[-1] + cost)

    @property
    def total(self) -> int:
        return self._sums[-1]

    @property
    def num_pieces(self) -> int:
        return len(self._places)

    def between(self, begin: int, end: int) -> int:
        """Returns the cost of the markup from one place to another."""
        first, last = (bisect.bisect_left(self._places, at) for at in (begin, end))
        return self._sums[last] - self._sums[first]


def _wasted(wikitext: str, costs: _Costs) -> Iterator[float]:
    """Yields the characters that the parser reads for nothing, by opening."""
    size, position, end_of_tag = len(wikitext), 0, 0
    scan = _Scan(wikitext, costs)
    while token := _TOKEN.search(wikitext, position):
        position = token.end()
        kind = token.lastgroup
        if kind == "comment":
            end = wikitext.find("-->", position)
            if end < 0:
                yield size - token.start()  # as text, whatever is in it
            position = max(position, end)
        elif kind == "tag":
            # Attributes may hold markup.
            position, end_of_tag = token.end("name"), token.end()
            if scan.begins_raw(token):
                end_tag = re.compile(
                    rf"</{re.escape(token['name'])}\s*>", re.IGNORECASE
                )
                if found := end_tag.search(wikitext, position):
                    position = found.start()
                else:
                    yield size - token.start()
            else:
                yield from scan.tag(token)
        elif kind == "newline":
            yield from scan.newline(token.start())
        elif kind != "greater" or position != end_of_tag:
            yield from scan.other(token)
    for kind, begin in scan.stack:
        if kind not in _SINGLE_TAGS:
            yield scan.cost(kind, begin, size)


class _Scan:
    """What is open at a place of a page.

    Attributes:
      stack: kind and beginning of each. A kind is an opening, the name of a tag, or
        `_UNFINISHED` and its name.
    """

    def __init__(self, wikitext: str, costs: _Costs):
        self.stack: list[tuple[str, int]] = []
        self._wikitext = wikitext
        self._costs = costs
        self._is_in_heading = False
        self._num_signs = 0

    def cost(self, kind: str, begin: int, end: int) -> float:
        """Returns the work with what an opening of a kind has read for nothing."""
        is_in_tag = kind.startswith(_UNFINISHED)
        each = _PER_ATTRIBUTE_CHARACTER if is_in_tag else 1
        return (end - begin) * each + self._costs.between(begin, end)

    def _top(self) -> str:
        return self.stack[-1][0] if self.stack else ""

    def begins_raw(self, token: re.Match[str]) -> bool:
        """Returns whether the text after a tag is not markup."""
        return (
            not token["slash"]
            and token["name"].lower() in _RAW_TAGS
            and not (token["tag"] and token["rest"].endswith("/"))
        )

    def tag(self, token: re.Match[str]) -> Iterator[float]:
        """Takes a start or an end of a tag; yields what was read for nothing."""
        name = token["name"].lower()
        if self._top().startswith(_UNFINISHED):
            if token["slash"]:
                if token["tag"]:
                    self._finish_tag()
                return
        elif token["slash"]:
            is_end = token["tag"] and not token["rest"].strip()
            # A tag with another name fails there, and so do all at a faulty end.
            while self._top()[:1].isalnum():
                kind, begin = self.stack.pop()
                if is_end and kind == name:
                    return
                yield self.cost(kind, begin, token.start())
            return
        if _has_open_quote(token["rest"]):
            yield self.cost(_UNFINISHED, token.start(), len(self._wikitext))
        if not token["tag"]:
            self.stack.append((_UNFINISHED + name, token.start()))
        elif name not in _EMPTY_TAGS and not token["rest"].endswith("/"):
            self.stack.append((name, token.start()))

    def _finish_tag(self) -> None:
        kind, begin = self.stack.pop()
        name = kind.removeprefix(_UNFINISHED)
        if name not in _EMPTY_TAGS:
            self.stack.append((name, begin))

    def newline(self, place: int) -> Iterator[float]:
        """Takes the end of a line; yields what was read for nothing."""
        while self._top() in _OF_A_LINE:
            kind, begin = self.stack.pop()
            is_heading = kind == _HEADING
            self._is_in_heading &= not is_heading
            if not is_heading or self._num_signs < 2:
                yield self.cost(kind, begin, place)

    def other(self, token: re.Match[str]) -> Iterator[float]:
        """Takes any other markup; yields what was read for nothing."""
        if token.lastgroup == "open":
            self.stack.append((token["open"], token.start()))
        elif token.lastgroup == "end":
            if self._top() == _ENDS[token["end"]]:
                self.stack.pop()
        elif token.lastgroup == "greater":
            if self._top().startswith(_UNFINISHED):
                if self._wikitext[token.start() - 1] == "/":
                    self.stack.pop()
                else:
                    self._finish_tag()
        else:
            self._num_signs += 1
            if self._is_in_heading:
                if self._num_signs > _MAX_HEADING_SIGNS:
                    yield math.inf
            elif self._wikitext[token.start() - 1 : token.start()] in ("", "\n"):
                self.stack.append((_HEADING, token.start()))
                self._is_in_heading, self._num_signs = True, 1


def _has_open_quote(attributes: str) -> bool:
    """Returns whether the parser looks for the end of a quote beyond a tag."""
    return attributes.count('"') % 2 == 1 or (
        "='" in attributes and attributes.count("'") % 2 == 1
    )
