"""Results of several items at a time, in order."""

import concurrent.futures
import threading

import pytest

from albert_tf.core import side_by_side


def test_results_keep_the_order_and_few_items_are_taken_at_a_time():
    taken, is_free = [], threading.Event()

    def items():
        for number in range(8):
            taken.append(number)
            yield number

    def double(number):
        if number == 0:
            is_free.wait(20)  # the others are done first
        return 2 * number

    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        results = side_by_side.map_in_order(pool, double, items(), 3)
        threading.Timer(0.2, is_free.set).start()
        assert next(results) == 0
        assert taken == [0, 1, 2, 3]
        assert [*results] == [2, 4, 6, 8, 10, 12, 14]
    assert taken == [*range(8)]


def test_an_error_is_that_of_its_item():
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        results = side_by_side.map_in_order(pool, lambda one: 6 // one, [2, 0, 3], 2)
        assert next(results) == 3
        with pytest.raises(ZeroDivisionError):
            next(results)
