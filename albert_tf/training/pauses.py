"""Growing pauses between attempts to write to a storage that fails."""

import time

_FIRST_SECONDS = 10.0
_LONGEST_SECONDS = 600.0


class Pauses:
    """Counts failed attempts in a row, and says when the next one is due.

    The second attempt is due at once. Each later one waits twice as long as the one
    before it, from 10 seconds to 10 minutes.
    """

    def __init__(self):
        """Starts without a failure."""
        self.succeeded()

    def failed(self) -> None:
        """Counts a failed attempt."""
        now = time.monotonic()
        if not self.num_failures:
            self._first_failure = now
        self.num_failures += 1
        self._due = now + _seconds_after(self.num_failures)

    def succeeded(self) -> None:
        """Forgets earlier failures."""
        self.num_failures = 0
        self._first_failure = self._due = 0.0

    @property
    def seconds(self) -> float:
        """Seconds since the first failure in a row; 0 without one."""
        return time.monotonic() - self._first_failure if self.num_failures else 0.0

    @property
    def is_due(self) -> bool:
        """Whether the next attempt is due."""
        return time.monotonic() >= self._due


def _seconds_after(num_failures: int) -> float:
    if num_failures < 2:
        return 0.0
    return min(_FIRST_SECONDS * 2.0 ** (num_failures - 2), _LONGEST_SECONDS)
