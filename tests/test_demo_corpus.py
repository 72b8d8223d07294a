"""Tests of the demonstration corpus: what is prose, and that none comes twice."""

import re
import sys

import pytest
from absl import flags

from data_prep import demo_corpus
from tests import binaries

flags.FLAGS.mark_as_parsed()

GOOGLE = """Scales the input by a factor.

The factor is *learned* with the `Layer`, see
[the paper](https://example.org/a_b).

Example usage:

```python
layer = Scale(2.0)
print(layer(x))
```

>>> layer = Scale(2.0)
>>> layer(3.0)
6.0

Args:
    factor: Number by which to multiply,
        or `None` for one.
    name (str, optional): The name of the layer.
    **kwargs: Passed on to the base class.

Returns:
    A tensor of the same shape.

Raises:
    ValueError: If the factor is not
        a number.
"""

NUMPYDOC = """
Return the mean of an array.

.. versionadded:: 1.5
   It had been private until then.

.. math:: \\bar{x} = \\frac{1}{n}

Parameters
----------
a : array_like
    The input of which to compute the mean.
axis, out : int or None, optional
    Axis along which to operate, see :func:`~numpy.take`.

Notes
-----
The result is computed as follows::

    total = sum(a)

    return total / len(a)

It is the :ref:`usual mean <mean>` [1]_, not the ``median``.

.. note:: This is the note that is kept.

====  =====
code  value
====  =====
one   1
====  =====

.. [1] A. Author, the title of the book, 1999.
"""


def test_google_docstring_is_left_with_its_sentences():
    assert demo_corpus.prose(GOOGLE) == [
        "Scales the input by a factor.",
        "The factor is learned with the Layer, see the paper.",
        "Number by which to multiply, or None for one.",
        "The name of the layer.",
        "Passed on to the base class.",
        "A tensor of the same shape.",
        "If the factor is not a number.",
    ]


def test_numpydoc_docstring_is_left_with_its_sentences():
    assert demo_corpus.prose(NUMPYDOC) == [
        "Return the mean of an array.",
        "It had been private until then.",
        "The input of which to compute the mean.",
        "Axis along which to operate, see numpy.take.",
        "The result is computed as follows:",
        "It is the usual mean, not the median.",
        "This is the note that is kept.",
    ]


def test_fields_of_rest_give_their_descriptions():
    text = (
        "Opens the file at a path.\n\n"
        ":param path: where to find the\n    file to open\n"
        ":type path: str or a path of the system\n:returns: the file that is open\n"
        ":rtype: an object that is like a file\n"
    )
    assert demo_corpus.prose(text) == [
        "Opens the file at a path.",
        "where to find the file to open",
        "the file that is open",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "x = f(a)\nfor i in range(3):\n    a.b(i)\n",
        "import os\nfrom os import path\nit would be in the way of this\n",
        "if_stmt ::= 'if' the expression of a\n            suite and so on in it\n",
        "+-----+-----+\n| a b | of the one in it |\n+-----+-----+\n",
        "Parameters\n",
        "For example:\n",
        "$$\nthe sum of a and of b\n$$\n",
        r"The area is given by \frac{a}{b} in the end.",
        "Write to the author at someone@example.org for more.",
        "Tensor float32 int64 uint8 bfloat16 complex64",
    ],
)
def test_what_is_not_prose_goes(text):
    assert demo_corpus.prose(text) == []


def test_bullets_are_paragraphs_of_their_own():
    text = (
        "It does the following:\n- It reads all of\n  the file.\n"
        "- It closes it again.\n"
        "  1. With an error if it is closed.\n\nAnd that is all of it.\n"
    )
    assert demo_corpus.prose(text) == [
        "It does the following:",
        "It reads all of the file.",
        "It closes it again.",
        "With an error if it is closed.",
        "And that is all of it.",
    ]


def test_addresses_become_words():
    text = "See https://example.org/a#b for it (https://example.org), or do not."
    assert demo_corpus.prose(text) == ["See this page for it, or do not."]


def test_starred_arguments_and_powers_are_not_emphasis():
    text = "It takes *args and **kwargs, and returns x**2 and y**3 of **all** of them."
    assert demo_corpus.prose(text) == [
        "It takes *args and **kwargs, and returns x**2 and y**3 of all of them."
    ]


def test_text_beyond_ascii_is_kept():
    text = "The naïve “Bézier” curve isn’t drawn — it is given.\nAs Schrödinger said."
    assert demo_corpus.prose(text) == [text.replace("\n", " ")]


def test_sentences_do_not_split_inside_a_word():
    assert demo_corpus.sentences(
        "It is run by tf.WholeFileReader.read on all of it, e.g. this one. It is slow."
    ) == [
        "It is run by tf.WholeFileReader.read on all of it, e.g. this one.",
        "It is slow.",
    ]


def test_docstrings_come_by_line_and_those_of_add_newdoc_count():
    source = (
        '"""Module."""\n'
        'class A:\n    """Class."""\n    def f(self):\n        """Method."""\n'
        'add_newdoc("m", "n", ("x",\n    """\n    Added.\n    """))\n'
        'async def g():\n    """Function."""\n'
    )
    assert demo_corpus.docstrings(source) == [
        "Module.", "Class.", "Method.", "m", "n", "x", "Added.", "Function.",
    ]  # fmt: skip


def test_files_that_do_not_parse_hold_nothing(tmp_path):
    broken = tmp_path / "a.py"
    broken.write_text("print 'a'")
    latin = tmp_path / "b.py"
    latin.write_bytes(b'"""It is a caf\xe9 in the town."""')
    assert demo_corpus.read_documents(broken) == []
    assert demo_corpus.read_documents(latin) == []


def test_repeats_are_dropped_at_all_but_their_first_place():
    met: set[str] = set()
    long = "This is a sentence that comes again."
    assert demo_corpus.drop_repeats([long, "Of one.", long, "Of one."], met) == [
        long,
        "Of one.",
    ]
    again = ["THIS is a sentence\nthat comes  again.", "Of one.", "Of two."]
    assert demo_corpus.drop_repeats(again, met) == ["Of one.", "Of two."]


def test_small_documents_are_dropped():
    assert not demo_corpus.large_enough(["word " * 40])
    assert not demo_corpus.large_enough(["word " * 9, "word " * 10])
    assert demo_corpus.large_enough(["word " * 9, "word " * 11])


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
    monkeypatch.setattr(demo_corpus, "find_sources", lambda: sources)
    monkeypatch.setattr(demo_corpus, "topic_documents", lambda: [])
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


def test_missing_package_and_folder_are_one_line_errors(tmp_path, monkeypatch, capsys):
    missing = tmp_path / "none" / "corpus.txt"
    error = binaries.error_of(capsys, demo_corpus, f"--output={missing}")
    assert re.fullmatch(r"--output: folder .* does not exist", error)
    monkeypatch.setattr(demo_corpus, "PACKAGES", ["no_such_package"])
    output = tmp_path / "corpus.txt"
    error = binaries.error_of(capsys, demo_corpus, f"--output={output}")
    assert error.startswith("package 'no_such_package' is")
    assert list(tmp_path.iterdir()) == []


def test_sources_are_found_without_importing_them():
    loaded = set(sys.modules)
    sources = demo_corpus.find_sources()
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
        path.relative_to(tmp_path).as_posix()
        for path in demo_corpus.python_files(tmp_path)
    ] == ["src/a.py", "src/z.py", "tensorflow/python/ops/o.py"]


def test_topics_of_python_are_prose():
    documents = demo_corpus.topic_documents()
    assert len(documents) > 50
    text = " ".join(paragraph for document in documents for paragraph in document)
    assert "::=" not in text
    assert len(text) > 200_000
