"""Batches: their composition, their results, and the effect of one bad item."""

import math
import threading
import time

import pytest

from albert_tf.web import batching, sizes

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


def limits(max_batch_size, max_wait_ms=0, max_queue_tokens=1000, max_batch_tokens=1000):
    return batching.Limits(
        max_batch_size, max_batch_tokens, max_wait_ms, max_queue_tokens
    )


def by_length(item):
    """An item that is a number: a row of so many tokens."""
    return sizes.Size(1, item)


@pytest.fixture
def gate():
    made = Gate()
    yield made
    made.released.set()


def results(futures):
    return [future.result(TIMEOUT) for future in futures]


def test_what_waits_is_run_in_order_in_batches_no_larger_than_allowed(gate):
    sizes = []
    batcher = batching.RequestBatcher(gate, limits(3, 0, 100), on_batch=sizes.append)
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
    batcher = batching.RequestBatcher(gate, limits(2, TIMEOUT * 1000, 100))
    start = time.monotonic()
    one, other = batcher.submit([1]), batcher.submit([2])
    assert results(one + other) == [10, 20]
    assert time.monotonic() - start < TIMEOUT / 2
    assert gate.batches == [[1, 2]]
    batcher.close()


def test_an_item_waits_no_longer_than_allowed(gate):
    gate.released.set()
    batcher = batching.RequestBatcher(gate, limits(100, 200, 100))
    start = time.monotonic()
    assert results(batcher.submit([1])) == [10]
    assert 0.2 <= time.monotonic() - start < TIMEOUT / 2
    batcher.close()


def test_a_full_queue_takes_all_of_a_request_or_nothing(gate):
    batcher = batching.RequestBatcher(gate, limits(1, 0, 3))
    first = batcher.submit([1])
    assert gate.started.wait(TIMEOUT)
    waiting = batcher.submit([2, 3])
    with pytest.raises(batching.QueueFull, match="about 3 .* 2 do; received 2 more"):
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

    batcher = batching.RequestBatcher(invert, limits(4, TIMEOUT * 1000, 100))
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

    batcher = batching.RequestBatcher(run, limits(3, TIMEOUT * 1000, 100))
    good, bad, better = batcher.submit([1, -2, 3])
    assert results([good, better]) == [1, 3]
    with pytest.raises(ValueError, match="got -2"):
        bad.result(TIMEOUT)
    assert calls == [3]
    batcher.close()


def test_a_function_that_gives_too_few_results_is_a_fault_of_its_own():
    batcher = batching.RequestBatcher(lambda items: [], limits(4, 0, 100))
    error = batcher.submit([1])[0].exception(TIMEOUT)
    assert isinstance(error, RuntimeError) and "each of 1 items" in str(error)
    batcher.close()


def test_a_cancelled_item_is_not_run(gate):
    batcher = batching.RequestBatcher(gate, limits(2, 0, 100))
    first = batcher.submit([1])
    assert gate.started.wait(TIMEOUT)
    gone, kept = batcher.submit([2, 3])
    assert gone.cancel()
    gate.released.set()
    assert results([*first, kept]) == [10, 30]
    batcher.close()
    assert gate.batches == [[1], [3]]


def test_closing_answers_waiting_items_and_refuses_more(gate):
    batcher = batching.RequestBatcher(gate, limits(2, TIMEOUT * 1000, 100))
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
    ("values", "message"),
    [
        ((0, 1, 0, 1), "max_batch_size must be 1 or more; received 0"),
        ((1, 0, 0, 1), "max_batch_tokens must be 1 or more; received 0"),
        ((1, 1, -1, 1), "max_wait_ms must be 0 or more; received -1"),
        ((1, 1, 0, 0), "max_queue_tokens must be 1 or more; received 0"),
    ],
)
def test_invalid_limits_are_refused(values, message):
    with pytest.raises(ValueError, match=message):
        batching.Limits(*values)


def test_a_batch_has_items_of_like_lengths_and_the_oldest_first(gate):
    batcher = batching.RequestBatcher(gate, limits(4), by_length)
    first = batcher.submit([1])
    assert gate.started.wait(TIMEOUT)
    # The oldest has 10 tokens: with it go those of 5 to 20, the nearest first.
    later = batcher.submit([10, 100, 19, 9, 90, 11, 12, 3])
    gate.released.set()
    assert results(first + later) == [10, 100, 1000, 190, 90, 900, 110, 120, 30]
    batcher.close()
    assert gate.batches == [[1], [10, 9, 11, 12], [100, 90], [19], [3]]


def test_without_a_ratio_batches_are_in_the_order_of_arrival(gate):
    unordered = batching.Limits(3, 1000, 0, 1000, max_length_ratio=math.inf)
    batcher = batching.RequestBatcher(gate, unordered, by_length)
    first = batcher.submit([1])
    assert gate.started.wait(TIMEOUT)
    later = batcher.submit([10, 100, 19, 9, 90])
    gate.released.set()
    results(first + later)
    batcher.close()
    assert gate.batches == [[1], [10, 100, 19], [9, 90]]


def test_a_batch_has_no_more_tokens_than_allowed_with_padding(gate):
    batcher = batching.RequestBatcher(gate, limits(100, max_batch_tokens=40), by_length)
    first = batcher.submit([1])
    assert gate.started.wait(TIMEOUT)
    later = batcher.submit([10, 10, 12, 10, 10, 50, 13, 13])
    gate.released.set()
    results(first + later)
    batcher.close()
    # Four of 10 are 40 tokens; of 12 and 13 fit three; 50 are alone.
    assert gate.batches == [[1], [10, 10, 10, 10], [12, 13, 13], [50]]


def test_rows_of_an_item_count(gate):
    batcher = batching.RequestBatcher(
        gate, limits(100, max_batch_tokens=60), lambda item: sizes.Size(item, 10)
    )
    first = batcher.submit([1])
    assert gate.started.wait(TIMEOUT)
    later = batcher.submit([3, 4, 2, 1])
    gate.released.set()
    results(first + later)
    batcher.close()
    assert gate.batches == [[1], [3, 2, 1], [4]]


def test_the_queue_is_bounded_by_tokens(gate):
    batcher = batching.RequestBatcher(gate, limits(1, max_queue_tokens=50), by_length)
    first = batcher.submit([1])
    assert gate.started.wait(TIMEOUT)
    # What is larger than the queue is accepted while nothing waits.
    large = batcher.submit([40, 60])
    assert batcher.num_tokens_waiting == 100
    message = "about 50 tokens may wait, and 100 do; received 5 more"
    with pytest.raises(batching.QueueFull, match=message):
        batcher.submit([5])
    assert large[1].cancel()
    assert (batcher.num_waiting, batcher.num_tokens_waiting) == (1, 40)
    small = batcher.submit([5])
    gate.released.set()
    assert results([first[0], large[0], small[0]]) == [10, 400, 50]
    batcher.close()
    assert gate.batches == [[1], [40], [5]]


def test_a_queue_whose_callers_have_all_left_runs_nothing(gate):
    batcher = batching.RequestBatcher(gate, limits(10, 200), by_length)
    assert all(future.cancel() for future in batcher.submit([5, 6]))
    gate.released.set()
    assert results(batcher.submit([7])) == [70]
    batcher.close()
    assert gate.batches == [[7]]


def _order_of_clients(submissions, max_batch_size=2):
    """The clients whose items each batch has.

    Args:
      submissions: pairs of a client and its number of items, all of one length.
    """
    began, released = threading.Event(), threading.Event()
    batches = []

    def run(items):
        batches.append(items)
        began.set()
        assert released.wait(TIMEOUT)
        return items

    batcher = batching.RequestBatcher(run, limits(max_batch_size))
    first = batcher.submit(["first"], "first")
    assert began.wait(TIMEOUT)  # all others wait until this one is done
    waiting = [
        future
        for client, count in submissions
        for future in batcher.submit([client] * count, client)
    ]
    released.set()
    results([*first, *waiting])
    batcher.close()
    return ["".join(sorted(batch)) for batch in batches[1:]]


def test_a_client_with_many_items_does_not_delay_one_with_few():
    found = _order_of_clients([("a", 6), ("b", 1), ("c", 1)])
    assert "b" in found[0] or "c" in found[0]
    assert "b" in "".join(found[:2]) and "c" in "".join(found[:2])
    assert sorted("".join(found)) == sorted("aaaaaabc")


def test_clients_with_as_many_items_take_turns():
    found = _order_of_clients([("a", 4), ("b", 4)], max_batch_size=1)
    assert all(set(found[n : n + 2]) == {"a", "b"} for n in range(0, 8, 2))


def test_short_items_of_other_clients_do_not_keep_a_long_one_waiting():
    # Each of them asks again while its item is computed, until the long one was, or 50
    # times in all.
    began, released = threading.Event(), threading.Event()
    lengths, left = [], iter(range(50))

    def run(items):
        began.set()
        assert released.wait(TIMEOUT)
        for client, length in items:
            lengths.append(length)
            if 400 not in lengths and next(left, None) is not None:
                batcher.submit([(client, 1)], client)
        return items

    batcher = batching.RequestBatcher(
        run, limits(1), lambda item: sizes.Size(1, item[1])
    )
    first = batcher.submit([("first", 2)], "first")
    assert began.wait(TIMEOUT)  # all others wait until this one is done
    for client in "abc":
        batcher.submit([(client, 1)], client)
    long = batcher.submit([("long", 400)], "long")
    released.set()
    results([*first, *long])
    batcher.close()
    assert lengths.index(400) <= 5  # after those that came before it


def _order_of_arrivals(later):
    """The clients in the order in which their items of one token are computed.

    Args:
      later: by the number of items computed so far, the clients that then ask; nobody
        waits while the first item is computed.

    Returns:
      The order, and the batcher, closed.
    """
    order, are_done = [], threading.Event()

    def run(items):
        for client in later.get(len(order), ()):
            batcher.submit([client], client)
        order.extend(items)
        if len(order) == 1 + sum(map(len, later.values())):
            are_done.set()
        return items

    batcher = batching.RequestBatcher(run, limits(1))
    batcher.submit(["first"], "first")
    assert are_done.wait(TIMEOUT)
    batcher.close()
    return order, batcher


def test_a_newcomer_does_not_pass_those_who_wait():
    order, _ = _order_of_arrivals({0: "abcd", 1: "e", 2: "f"})
    assert order == ["first", *"abcdef"]


def test_a_newcomer_gets_no_more_than_those_who_wait_from_then_on():
    order, _ = _order_of_arrivals({0: "aaaabbbb", 4: "ccc"})
    assert order == ["first", *"abab", *"abcabcc"]


def test_a_client_that_got_more_than_its_share_waits_for_the_others():
    # While the third item is computed "a" has got one, and its share is less; that of
    # "e", which comes after it, is too.
    order, _ = _order_of_arrivals({0: "abcd", 2: "a", 3: "e"})
    assert order == ["first", *"abcdea"]


def test_what_is_cancelled_while_it_waits_for_others_is_not_counted(gate):
    batcher = batching.RequestBatcher(gate, limits(10, max_wait_ms=500), by_length)
    (future,) = batcher.submit([5])
    time.sleep(0.1)  # the thread waits for others by now
    assert future.cancel()
    batcher.close()
    assert gate.batches == []
    assert batcher._fair_share == 0


def test_clients_that_came_once_are_forgotten():
    order, batcher = _order_of_arrivals({n: [f"client {n}"] for n in range(50)})
    assert len(order) == 51
    assert len(batcher._turns) <= 1


def test_one_client_does_not_fill_the_queue():
    blocked = threading.Event()

    def run(items):
        assert blocked.wait(TIMEOUT)
        return items

    batcher = batching.RequestBatcher(run, limits(1, max_queue_tokens=10))
    try:
        batcher.submit(range(3), "greedy")
        with pytest.raises(batching.QueueFull, match="about 5 tokens of one client"):
            for _ in range(4):
                batcher.submit([0], "greedy")
        assert len(batcher.submit([1, 2], "other")) == 2
    finally:
        blocked.set()
        batcher.close()
