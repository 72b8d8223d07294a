"""Times of requests within a moving window."""

from albert_tf.web import request_times


class Clock:
    """A clock that tests set."""

    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


def test_a_window_moves_with_its_requests():
    clock = Clock()
    times = request_times.MonotonicStorage(clock)
    assert times.get_moving_window("a", 2, 1) == (100.0, 0)
    taken = []
    for clock.now in (100.0, 100.5, 100.75, 101.0, 101.25, 101.5):
        taken.append(times.acquire_entry("a", 2, 1))
    # What was refused does not count: at 101.0 the request of 100.0 has left.
    assert taken == [True, True, False, True, False, True]
    assert times.get_moving_window("a", 2, 1) == (101.0, 2)


def test_addresses_have_windows_of_their_own_and_are_forgotten():
    clock = Clock()
    times = request_times.MonotonicStorage(clock)
    for number in range(1000):
        clock.now = 100.0 + number / 1000
        assert times.acquire_entry(str(number), 1, 1)
        assert not times.acquire_entry(str(number), 1, 1)
    assert len(times._times) == 1000
    clock.now = 101.5
    assert times.acquire_entry("0", 1, 1)
    assert len(times._times) == 500
    assert times.acquire_entry("700", 1, 1) is False


def test_several_requests_at_once_count_each():
    times = request_times.MonotonicStorage(Clock())
    assert not times.acquire_entry("a", 3, 1, amount=4)
    assert times.acquire_entry("a", 3, 1, amount=2)
    assert not times.acquire_entry("a", 3, 1, amount=2)
    assert times.acquire_entry("a", 3, 1)
