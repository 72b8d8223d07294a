"""Documents of the demonstration corpus: their sources, and no repeats."""

import sys

from data_prep.docstring_corpus import builder


def test_docstrings_come_by_line_and_those_of_add_newdoc_count():
    source = (
        '"""Module."""\n'
        'class A:\n    """Class."""\n    def f(self):\n        """Method."""\n'
        'add_newdoc("m", "n", ("x",\n    """\n    Added.\n    """))\n'
        'async def g():\n    """Function."""\n'
    )
    assert builder.docstrings(source) == [
        "Module.", "Class.", "Method.", "m", "n", "x", "Added.", "Function.",
    ]  # fmt: skip


def test_files_that_do_not_parse_hold_nothing(tmp_path):
    broken = tmp_path / "a.py"
    broken.write_text("print 'a'")
    latin = tmp_path / "b.py"
    latin.write_bytes(b'"""It is a caf\xe9 in the town."""')
    assert builder.read_documents(broken) == []
    assert builder.read_documents(latin) == []


def test_repeats_are_dropped_at_all_but_their_first_place():
    seen: set[str] = set()
    long = "This is a sentence that comes again."
    assert builder.drop_repeats([long, "Of one.", long, "Of one."], seen) == [
        long,
        "Of one.",
    ]
    again = ["THIS is a sentence\nthat comes  again.", "Of one.", "Of two."]
    assert builder.drop_repeats(again, seen) == ["Of one.", "Of two."]


def test_small_documents_are_dropped():
    assert not builder.is_large_enough(["word " * 40])
    assert not builder.is_large_enough(["word " * 9, "word " * 10])
    assert builder.is_large_enough(["word " * 9, "word " * 11])


def test_sources_are_found_without_importing_them():
    loaded = set(sys.modules)
    sources = builder.find_sources()
    assert list(sources)[:4] == ["stdlib", "numpy", "tensorflow", "keras"]
    assert all(
        (folder / "__init__.py").exists() for folder in list(sources.values())[1:]
    )
    assert not {"keras", "matplotlib", "werkzeug"} & (set(sys.modules) - loaded)


def test_walk_skips_tests_and_generated_trees(tmp_path):
    for name in (
        "src/z.py",
        "src/a.py",
        "tests/t.py",
        "_tf_keras/k.py",
        "tensorflow/python/keras/k.py",
        "tensorflow/python/ops/o.py",
    ):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    assert [
        path.relative_to(tmp_path).as_posix() for path in builder.python_files(tmp_path)
    ] == ["src/a.py", "src/z.py", "tensorflow/python/ops/o.py"]


def test_topics_of_python_are_prose():
    documents = builder.topic_documents()
    assert len(documents) > 50
    text = " ".join(paragraph for document in documents for paragraph in document)
    assert "::=" not in text
    assert len(text) > 200_000
