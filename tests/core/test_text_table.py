"""Columns of text are aligned."""

from albert_tf.core import text_table

ROWS = [("a", "10", "x"), ("bbb", "2", "yyyy")]


def test_first_column_is_left_aligned_and_the_others_right():
    assert text_table.align(ROWS) == ["a    10     x", "bbb   2  yyyy"]


def test_several_columns_can_be_left_aligned():
    assert text_table.align(ROWS, num_left=3) == ["a    10  x", "bbb  2   yyyy"]
