"""Documents of `source_text`."""

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
    monkeypatch.setattr(source_text, "MAX_FILE_CHARACTERS", 7)
    assert list(source_text.text(sources)) == [one[:7] for one in found[:2]]


def test_files_of_the_library_and_the_packages_are_found_without_tests():
    found = source_text.source_files()
    names = {path.name for path in found}
    assert {"argparse.py", "einsumfunc.py"} <= names
    # Of the library's test/, of numpy's tests/, and generated.
    assert not names & {"regrtest.py", "test_einsum.py", "any_pb2.py"}
    assert not any("_vendor" in path.parts for path in found)
    assert len(found) == len(set(found))
