"""Documents of `source_text`."""

import itertools

from tests.reproduction import source_text


def _module(name, lines=source_text.MIN_LINES):
    return "".join(f"{name}_{number} = {number}\n" for number in range(lines))


def test_a_document_has_the_lines_of_the_code_alone():
    source = '"""Of\nthe module."""\n\n# a comment\n' + _module("a")
    source += 'def f():\n    ""\n    return """no\n    docstring"""\n'
    found = source_text.document(source).splitlines()
    assert found[0] == "a_0 = 0"
    assert found[source_text.MIN_LINES :] == [
        "def f():",
        'return """no',
        'docstring"""',
    ]


def test_short_files_and_other_languages_have_no_document():
    assert not source_text.document(_module("a", source_text.MIN_LINES - 1))
    assert not source_text.document(_module("a") + "print 1\n")


def test_documents_differ_and_end_at_the_size(monkeypatch):
    sources = [_module(name) for name in "abcab"]
    found = list(source_text.text(sources))
    assert sorted(found) == sorted(map(source_text.document, sources[:3]))
    monkeypatch.setattr(source_text, "MAX_CHARACTERS", len(found[0]) + 1)
    assert list(source_text.text(sources)) == found[:2]


def test_the_librarys_own_files_are_found():
    found = itertools.islice(source_text.source_files(), 10_000)
    names = {path.name for path in found if "site-packages" not in path.parts}
    assert "argparse.py" in names
    assert "regrtest.py" not in names
