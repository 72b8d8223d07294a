"""Prose of docstrings: text is kept, markup and code are dropped."""

import pytest

from data_prep.docstring_corpus import prose

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
    assert prose.paragraphs(GOOGLE) == [
        "Scales the input by a factor.",
        "The factor is learned with the Layer, see the paper.",
        "Number by which to multiply, or None for one.",
        "The name of the layer.",
        "Passed on to the base class.",
        "A tensor of the same shape.",
        "If the factor is not a number.",
    ]


def test_numpydoc_docstring_is_left_with_its_sentences():
    assert prose.paragraphs(NUMPYDOC) == [
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
    assert prose.paragraphs(text) == [
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
    assert prose.paragraphs(text) == []


def test_bullets_are_paragraphs_of_their_own():
    text = (
        "It does the following:\n- It reads all of\n  the file.\n"
        "- It closes it again.\n"
        "  1. With an error if it is closed.\n\nAnd that is all of it.\n"
    )
    assert prose.paragraphs(text) == [
        "It does the following:",
        "It reads all of the file.",
        "It closes it again.",
        "With an error if it is closed.",
        "And that is all of it.",
    ]


def test_addresses_become_words():
    text = "See https://example.org/a#b for it (https://example.org), or do not."
    assert prose.paragraphs(text) == ["See this page for it, or do not."]


def test_starred_arguments_and_powers_are_not_emphasis():
    text = "It takes *args and **kwargs, and returns x**2 and y**3 of **all** of them."
    assert prose.paragraphs(text) == [
        "It takes *args and **kwargs, and returns x**2 and y**3 of all of them."
    ]


def test_text_beyond_ascii_is_kept():
    text = "The naïve “Bézier” curve isn’t drawn — it is given.\nAs Schrödinger said."
    assert prose.paragraphs(text) == [text.replace("\n", " ")]


def test_sentences_do_not_split_inside_a_word():
    assert prose.sentences(
        "It is run by tf.WholeFileReader.read on all of it, e.g. this one. It is slow."
    ) == [
        "It is run by tf.WholeFileReader.read on all of it, e.g. this one.",
        "It is slow.",
    ]
