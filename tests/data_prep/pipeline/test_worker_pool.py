"""Tasks that are lost with their worker are done again, but not for ever."""

import concurrent.futures

import pytest

from data_prep.pipeline import worker_pool


class _Unreliable:
    """An executor whose tasks end with their worker some times."""

    num_workers, capacity = 2, 3

    def __init__(self, num_losses: dict[int, int]):
        self._num_losses = dict(num_losses)
        self.submitted: list[int] = []

    def submit(self, task):
        number = task[1]
        self.submitted.append(number)
        future = concurrent.futures.Future()
        if self._num_losses.get(number, 0):
            self._num_losses[number] -= 1
            future.set_exception(ConnectionError("lost"))
        elif number < 0:
            future.set_exception(ValueError("bad text"))
        else:
            future.set_result(10 * number)
        return future

    def is_lost(self, error):
        return isinstance(error, ConnectionError)

    def check(self):
        pass

    def close(self, is_failed):
        self.is_failed = is_failed


def _do(executor, numbers):
    with worker_pool.Pool(executor) as pool:
        return dict(pool.do_all(("square", number) for number in numbers))


def test_a_lost_task_is_submitted_again():
    executor = _Unreliable({2: 1, 4: 3})
    found = _do(executor, range(6))
    assert found == {("square", n): 10 * n for n in range(6)}
    assert [executor.submitted.count(n) for n in range(6)] == [1, 1, 2, 1, 4, 1]
    assert not executor.is_failed


def test_a_task_that_ends_each_worker_ends_the_run():
    executor = _Unreliable({1: 4})
    with pytest.raises(OSError, match=r"\(square\) was lost with its worker 4 times"):
        _do(executor, range(3))
    assert executor.is_failed


def test_an_error_of_a_task_is_raised_at_once():
    executor = _Unreliable({})
    with pytest.raises(ValueError, match="bad text"):
        _do(executor, [1, -1, 2])
    assert executor.submitted.count(-1) == 1
