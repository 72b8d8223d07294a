"""Batches: their composition, their results, and the effect of one bad item."""

import threading
import time

import pytest

from albert_tf.web import batching

TIMEOUT = 60  # seconds; a test that waits longer has failed


class Gate:
    """A function that records its batches, and waits until it is released."""

    def __init__(self):
        self.batches = []
        self.started = threading.Event()
        self.released = threading.Event()

    def __call__(self, items):
        self.batches.append(list(items))
        self.started.set()
        assert self.released.wait(TIMEOUT)
        return [item * 10 for item in items]


@pytest.fixture
def gate():
    made = Gate()
    yield made
    made.released.set()


def results(futures):
    return [future.result(TIMEOUT) for future in futures]


def test_what_waits_is_run_in_order_in_batches_no_larger_than_allowed(gate):
    sizes = []
    batcher = batching.RequestBatcher(gate, 3, 0, 100, sizes.append)
    first = batcher.submit([1])
    assert gate.started.wait(TIMEOUT)
    later = [batcher.submit(items) for items in ([2, 3], [4], [5, 6, 7, 8])]
    assert batcher.num_waiting == 7
    gate.released.set()
    assert results(first) == [10]
    assert [results(one) for one in later] == [[20, 30], [40], [50, 60, 70, 80]]
    batcher.close()
    assert gate.batches == [[1], [2, 3, 4], [5, 6, 7], [8]]
    assert sizes == [1, 3, 3, 1]
    assert batcher.num_waiting == 0


def test_an_item_waits_for_others_until_the_batch_is_full(gate):
    gate.released.set()
    batcher = batching.RequestBatcher(gate, 2, TIMEOUT * 1000, 100)
    start = time.monotonic()
    one, other = batcher.submit([1]), batcher.submit([2])
    assert results(one + other) == [10, 20]
    assert time.monotonic() - start < TIMEOUT / 2
    assert gate.batches == [[1, 2]]
    batcher.close()


def test_an_item_waits_no_longer_than_allowed(gate):
    gate.released.set()
    batcher = batching.RequestBatcher(gate, 100, 200, 100)
    start = time.monotonic()
    assert results(batcher.submit([1])) == [10]
    assert 0.2 <= time.monotonic() - start < TIMEOUT / 2
    batcher.close()


def test_a_full_queue_takes_all_of_a_request_or_nothing(gate):
    batcher = batching.RequestBatcher(gate, 1, 0, 3)
    first = batcher.submit([1])
    assert gate.started.wait(TIMEOUT)
    waiting = batcher.submit([2, 3])
    with pytest.raises(batching.QueueFull, match="at most 3 .* 2 do; received 2 more"):
        batcher.submit([4, 5])
    assert batcher.num_waiting == 2
    last = batcher.submit([6])
    gate.released.set()
    assert results(first + waiting + last) == [10, 20, 30, 60]
    batcher.close()


def test_an_item_that_breaks_the_function_affects_no_other():
    calls = []

    def invert(items):
        calls.append(list(items))
        return [1 / item for item in items]

    batcher = batching.RequestBatcher(invert, 4, TIMEOUT * 1000, 100)
    good, bad, better = (batcher.submit(items) for items in ([2, 4], [0], [8]))
    assert results(good) == [0.5, 0.25]
    assert results(better) == [0.125]
    assert isinstance(bad[0].exception(TIMEOUT), ZeroDivisionError)
    assert calls == [[2, 4, 0, 8], [2], [4], [0], [8]]
    # The thread continues after the error.
    assert results(batcher.submit([1, 1, 1, 5])) == [1, 1, 1, 0.2]
    batcher.close()


def test_a_result_that_is_an_error_is_raised_to_its_caller_alone():
    calls = []

    def run(items):
        calls.append(len(items))
        return [item if item > 0 else ValueError(f"got {item}") for item in items]

    batcher = batching.RequestBatcher(run, 3, TIMEOUT * 1000, 100)
    good, bad, better = batcher.submit([1, -2, 3])
    assert results([good, better]) == [1, 3]
    with pytest.raises(ValueError, match="got -2"):
        bad.result(TIMEOUT)
    assert calls == [3]
    batcher.close()


def test_a_function_that_gives_too_few_results_is_a_fault_of_its_own():
    batcher = batching.RequestBatcher(lambda items: [], 4, 0, 100)
    error = batcher.submit([1])[0].exception(TIMEOUT)
    assert isinstance(error, RuntimeError) and "each of 1 items" in str(error)
    batcher.close()


def test_a_cancelled_item_is_not_run(gate):
    batcher = batching.RequestBatcher(gate, 2, 0, 100)
    first = batcher.submit([1])
    assert gate.started.wait(TIMEOUT)
    gone, kept = batcher.submit([2, 3])
    assert gone.cancel()
    gate.released.set()
    assert results([*first, kept]) == [10, 30]
    batcher.close()
    assert gate.batches == [[1], [3]]


def test_closing_answers_waiting_items_and_refuses_more(gate):
    batcher = batching.RequestBatcher(gate, 2, TIMEOUT * 1000, 100)
    waiting = batcher.submit([1, 2, 3])
    closing = threading.Thread(target=batcher.close)
    closing.start()
    gate.released.set()
    closing.join(TIMEOUT)
    assert not closing.is_alive()
    assert results(waiting) == [10, 20, 30]
    with pytest.raises(batching.BatcherClosed, match="stopping"):
        batcher.submit([4])


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ((0, 0, 1), "max_batch_size must be 1 or more; received 0"),
        ((1, -1, 1), "max_wait_ms must be 0 or more; received -1"),
        ((1, 0, 0), "max_queue must be 1 or more; received 0"),
    ],
)
def test_invalid_sizes_are_refused(sizes, message):
    with pytest.raises(ValueError, match=message):
        batching.RequestBatcher(list, *sizes)
