"""Counts with their nouns."""

import pytest

from albert_tf.core import plurals


@pytest.mark.parametrize(
    ("number", "expected"), [(0, "0 rows"), (1, "1 row"), (1000, "1,000 rows")]
)
def test_a_noun_has_the_number_of_its_count(number, expected):
    assert plurals.count(number, "row") == expected
