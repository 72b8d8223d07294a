"""The documentation's site: every page is in its navigation, and works offline."""

import re

import pytest

from tests.repository import project_files, site_assets


def _navigation() -> list[str]:
    settings = (project_files.ROOT / "mkdocs.yml").read_text()
    return re.findall(r"^ +- (?:[\w -]+: )?(\S+\.md)$", settings, re.M)


def test_navigation_has_every_page_once():
    paths = project_files.repository_files(project_files.ROOT)
    pages = [path.removeprefix("docs/") for path in paths if path.startswith("docs/")]
    assert sorted(_navigation()) == sorted(
        path for path in pages if path.endswith(".md")
    )


def test_home_page_links_to_every_page_but_itself():
    page = (project_files.ROOT / "docs/index.md").read_text()
    linked = set(re.findall(r"\]\(([^)]+)\)", page))
    assert linked == {*_navigation()} - {"index.md"}


def test_names_that_are_not_broken_are_shorter_than_a_line():
    """The site's style keeps code within a text on one line, of some 90 characters."""
    style = (project_files.ROOT / "docs/stylesheets/site.css").read_text()
    assert re.search(r"p > code,\s.*li > code \{\s*white-space: nowrap;", style)
    for path in _navigation():
        text = (project_files.ROOT / "docs" / path).read_text()
        text = re.sub(r"^```.*?^```", "", text, flags=re.S | re.M)
        for paragraph in text.split("\n\n"):
            if not paragraph.startswith("|"):
                for code in re.findall(r"`([^`]+)`", paragraph):
                    assert len(code) <= 90, f"{path}: {code}"


def test_pictures_exist_and_those_of_a_page_have_both_themes():
    """mkdocs checks the links of Markdown, not those of HTML within it."""
    pages = [project_files.ROOT / "docs" / path for path in _navigation()]
    found = 0
    for page in [project_files.ROOT / "README.md", *pages]:
        named = set(re.findall(r'(?:src|srcset)="([^"]+)"', page.read_text()))
        found += len(named)
        for name in named:
            assert (page.parent / name).is_file(), f"{page}: {name}"
        shown = set(re.findall(r"[\w./-]+?-light\.png", page.read_text()))
        dark = {name.replace("-light", "-dark") for name in shown}
        assert dark <= named, f"{page} has no {dark - named}"
    assert found >= 4


@pytest.mark.parametrize("page", ["training", "serving", "probing", "interchange"])
def test_where_a_program_may_be_loaded_the_page_says_so(page):
    text = (project_files.ROOT / "docs" / f"{page}.md").read_text()
    assert "](security.md)" in text


@pytest.mark.parametrize(
    ("name", "text", "found"),
    [
        ("a.html", '<script src="https://a.b/c.js"></script>', ["https://a.b/c.js"]),
        ("a.html", '<link rel="stylesheet" href="//a.b/c.css">', ["//a.b/c.css"]),
        ("a.html", '<link rel="preconnect" href="http://a.b">', ["http://a.b"]),
        (
            "a.html",
            "<style>p{background:url('http://a.b/c')}</style>",
            ["http://a.b/c"],
        ),
        ("a.css", "@import 'https://a.b/c.css';", ["https://a.b/c.css"]),
        ("a.html", '<a href="https://a.b">c</a><img src="d.png">', []),
        ("a.html", '<link rel="canonical" href="https://a.b">', []),
        ("a.html", '<link rel="icon" href="assets/icon.png">', []),
        ("a.css", "p { background: url(data:image/png;base64,AA==) }", []),
    ],
)
def test_what_is_loaded_from_other_hosts_is_found(name, text, found):
    assert site_assets.loaded_from_elsewhere(name, text) == found
