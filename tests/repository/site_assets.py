"""Checks that the pages of a site load nothing from other hosts when they are read.

    python -m tests.repository.site_assets build/site

Links that a reader may follow are no such thing. Python's own modules only: it runs in
the environment of mkdocs.
"""

import html.parser
import pathlib
import re
import sys

# The attribute that names what a tag loads.
_ATTRIBUTES = {
    "audio": "src",
    "embed": "src",
    "iframe": "src",
    "img": "src",
    "link": "href",
    "object": "data",
    "script": "src",
    "source": "src",
    "video": "src",
}
# Kinds of <link> that load nothing.
_PLAIN_LINKS = {"alternate", "author", "canonical", "license", "next", "prev"}
_ELSEWHERE = re.compile(r"(?:[a-z]+:)?//", re.I)
_CSS = re.compile(r"(?:url\(|@import)\s*['\"]?((?:[a-z]+:)?//[^'\")\s]+)", re.I)


class _Page(html.parser.HTMLParser):
    """Collects what the tags of a page load from other hosts."""

    def __init__(self):
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """See the base class."""
        values = {name: value or "" for name, value in attrs}
        address = values.get(_ATTRIBUTES.get(tag, ""), "")
        is_plain = tag == "link" and values.get("rel", "") in _PLAIN_LINKS
        if _ELSEWHERE.match(address) and not is_plain:
            self.found.append(address)


def loaded_from_elsewhere(name: str, text: str) -> list[str]:
    """The addresses on other hosts that a file loads.

    Args:
      name: of the file; the suffix is .html or .css.
      text: its content.
    """
    if name.endswith(".css"):
        return _CSS.findall(text)
    page = _Page()
    page.feed(text)
    return page.found + _CSS.findall(text)


def main() -> None:
    """Prints what pages load from other hosts; exit code 1 if there is anything."""
    site = pathlib.Path(sys.argv[1])
    paths = sorted([*site.rglob("*.html"), *site.rglob("*.css")])
    if not paths:
        sys.exit(f"there is no page in {site}")
    lines = [
        f"{path}: loads {address}, so that the page does not work offline"
        for path in paths
        for address in loaded_from_elsewhere(path.name, path.read_text("utf-8"))
    ]
    if lines:
        sys.exit("\n".join(lines))


if __name__ == "__main__":
    main()
