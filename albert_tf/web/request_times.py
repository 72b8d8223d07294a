"""Times of the last requests of each address, by a clock that is never set back."""

import collections
import time
from collections.abc import Callable

from limits import storage


class MonotonicStorage(storage.MemoryStorage):
    """What a moving window of `limits` needs, and no other kind of window.

    The library's own storage reads the time of day. If that is set back, requests from
    before count until it has passed them again: addresses are refused for as long. It
    also keeps an entry for each address until the process ends.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic):
        """Takes a clock that returns seconds."""
        super().__init__()
        self._now = now
        # The newest last, by addresses in the order of their newest.
        self._times: collections.OrderedDict[str, collections.deque[float]] = (
            collections.OrderedDict()
        )

    def acquire_entry(self, key: str, limit: int, expiry: int, amount: int = 1) -> bool:
        """Counts requests, unless that would be too many within the window.

        Args:
          key: of an address.
          limit: of requests within the window.
          expiry: seconds of the window.
          amount: how many requests there are.

        Returns:
          Whether they were counted.
        """
        now = self._now()
        self._forget(now - expiry)
        times = self._times.get(key, collections.deque())
        while times and times[0] <= now - expiry:
            times.popleft()
        if len(times) + amount > limit:
            return False
        times.extend([now] * amount)
        self._times[key] = times
        self._times.move_to_end(key)
        return True

    def get_moving_window(self, key: str, limit: int, expiry: int) -> tuple[float, int]:
        """The time of the oldest request within the window, and how many there are."""
        now = self._now()
        times = [one for one in self._times.get(key, ()) if one > now - expiry]
        return (times[0], len(times)) if times else (now, 0)

    def _forget(self, end: float) -> None:
        """Drops the addresses whose newest request is not after `end`."""
        while self._times:
            key, times = next(iter(self._times.items()))
            if times[-1] > end:
                break
            del self._times[key]
