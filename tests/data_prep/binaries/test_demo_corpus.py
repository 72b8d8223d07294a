"""The binary of the demonstration corpus: its output and its errors."""

import re

import pytest
from absl import flags

from data_prep import demo_corpus
from data_prep.docstring_corpus import builder
from tests.support import binaries

flags.FLAGS.mark_as_parsed()


@pytest.fixture
def small_sources(tmp_path, monkeypatch):
    """Two packages of two files that share a paragraph, and no topics."""
    text = (
        '"""{} has a first sentence of its own to read. {} has a second.\n\n{}\n"""\n'
    )
    shared = "This is the paragraph that all of them have, and it is a long one."
    for package in ("one", "two"):
        for name in ("b", "a", "tests/c"):
            path = tmp_path / package / f"{name}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            title = f"The file {name} of package {package}"
            path.write_text(text.format(title, title, shared), encoding="utf-8")
    sources = {name: tmp_path / name for name in ("one", "two")}
    monkeypatch.setattr(builder, "find_sources", lambda: sources)
    monkeypatch.setattr(builder, "topic_documents", lambda: [])
    return tmp_path


@pytest.mark.parametrize("num_workers", [1, 3])
def test_corpus_is_one_sentence_a_line_in_a_fixed_order(
    small_sources, capsys, num_workers
):
    output = small_sources / "corpus.txt"
    binaries.run(demo_corpus, f"--output={output}", f"--num_workers={num_workers}")
    expected = []
    for package in ("one", "two"):
        for name in ("a", "b"):
            title = f"The file {name} of package {package}"
            lines = [f"{title} has a first sentence of its own to read."]
            lines += [f"{title} has a second."]
            if (package, name) == ("one", "a"):
                lines += [
                    "This is the paragraph that all of them have, and it is a long one."
                ]
            expected.append("\n".join(lines) + "\n")
    assert output.read_text(encoding="utf-8") == "\n".join(expected)
    assert sorted(path.name for path in small_sources.iterdir()) == [
        "corpus.txt", "one", "two",
    ]  # fmt: skip
    assert "4 documents, 9 sentences, 111 words" in capsys.readouterr().out


def test_all_docstrings_of_a_module_are_one_document_if_asked_for(small_sources):
    module = small_sources / "one" / "a.py"
    module.write_text(
        '"""The module begins with words of its own to read."""\n'
        'def f():\n    """The function returns a value that nobody needs."""\n'
        'def g():\n    """The other one raises an error that everybody needs."""\n',
        encoding="utf-8",
    )
    output = small_sources / "corpus.txt"
    binaries.run(demo_corpus, f"--output={output}")
    # Each of its docstrings is too small to be a document.
    assert "The function returns" not in output.read_text(encoding="utf-8")
    binaries.run(demo_corpus, f"--output={output}", "--documents=modules")
    documents = output.read_text(encoding="utf-8").split("\n\n")
    assert len(documents) == 4
    assert documents[0].splitlines() == [
        "The module begins with words of its own to read.",
        "The function returns a value that nobody needs.",
        "The other one raises an error that everybody needs.",
    ]


def test_missing_package_and_directory_are_one_line_errors(
    tmp_path, monkeypatch, capsys
):
    missing = tmp_path / "none" / "corpus.txt"
    error = binaries.error_of(capsys, demo_corpus, f"--output={missing}")
    assert re.fullmatch(r"--output: directory .* does not exist", error)
    monkeypatch.setattr(builder, "PACKAGES", ["no_such_package"])
    output = tmp_path / "corpus.txt"
    error = binaries.error_of(capsys, demo_corpus, f"--output={output}")
    assert error.startswith("package 'no_such_package' is")
    assert list(tmp_path.iterdir()) == []
