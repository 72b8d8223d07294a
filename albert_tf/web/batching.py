"""Batches of items from many callers: a queue, and a thread that runs batches."""

import collections
import threading
import time
from collections.abc import Callable, Sequence
from concurrent import futures
from typing import Any, NamedTuple


class QueueFull(RuntimeError):
    """The queue has no room for the submitted items; it may have later."""


class BatcherClosed(RuntimeError):
    """The batcher accepts no more items."""


class _Entry(NamedTuple):
    item: Any
    arrived: float  # seconds of the monotonic clock
    future: futures.Future


class RequestBatcher:
    """Runs a function on batches of items from many callers.

    A batch is run when it is full, or when its first item has waited `max_wait_ms`.
    Items that arrive while a batch is run go into the next ones.
    """

    def __init__(
        self,
        run: Callable[[Sequence[Any]], Sequence[Any]],
        max_batch_size: int,
        max_wait_ms: float,
        max_queue: int,
        on_batch: Callable[[int], None] = lambda size: None,
    ):
        """Starts the thread.

        Args:
          run: from a list of items to a list of their results; a result that is an
            exception is raised to the caller of that item only.
          max_batch_size: items in a batch.
          max_wait_ms: how long an item waits for others.
          max_queue: items that may wait.
          on_batch: called with the size of each batch, in the thread.

        Raises:
          ValueError: a size is below 1, or the wait below 0.
        """
        for name, value, least in (
            ("max_batch_size", max_batch_size, 1),
            ("max_wait_ms", max_wait_ms, 0),
            ("max_queue", max_queue, 1),
        ):
            if value < least:
                raise ValueError(f"{name} must be {least} or more; received {value}")
        self._run = run
        self._max_batch_size = max_batch_size
        self._max_wait = max_wait_ms / 1000
        self._max_queue = max_queue
        self._on_batch = on_batch
        self._waiting: collections.deque[_Entry] = collections.deque()
        self._changed = threading.Condition()
        self._is_closed = False
        # A future of the pool captures whatever `run` raises, so that no error ends the
        # thread, which all later batches need.
        self._pool = futures.ThreadPoolExecutor(1, "batch")
        self._thread = threading.Thread(target=self._work, name="batcher", daemon=True)
        self._thread.start()

    @property
    def num_waiting(self) -> int:
        """Number of items that wait, without those that are being run."""
        return len(self._waiting)

    def submit(self, items: Sequence[Any]) -> list[futures.Future]:
        """Queues all items or none.

        Returns:
          A future for each item.

        Raises:
          QueueFull: they do not all fit into the queue.
          BatcherClosed: the batcher was closed.
        """
        now = time.monotonic()
        entries = [_Entry(item, now, futures.Future()) for item in items]
        with self._changed:
            if self._is_closed:
                raise BatcherClosed("the server is stopping; try again later")
            if len(self._waiting) + len(entries) > self._max_queue:
                raise QueueFull(
                    f"at most {self._max_queue} texts may wait, and "
                    f"{len(self._waiting)} do; received {len(entries)} more. Try again "
                    "later"
                )
            self._waiting.extend(entries)
            self._changed.notify()
        return [entry.future for entry in entries]

    def close(self) -> None:
        """Runs the waiting items, and ends the thread."""
        with self._changed:
            self._is_closed = True
            self._changed.notify()
        self._thread.join()
        self._pool.shutdown()

    def _work(self) -> None:
        while entries := self._next_batch():
            # A caller that disconnected has cancelled its future.
            entries = [e for e in entries if e.future.set_running_or_notify_cancel()]
            if entries:
                self._run_batch(entries)

    def _next_batch(self) -> list[_Entry]:
        """The next batch; empty when the batcher is closed and all items are done."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._is_closed)
            if not self._waiting:
                return []
            deadline = self._waiting[0].arrived + self._max_wait
            self._changed.wait_for(
                lambda: len(self._waiting) >= self._max_batch_size or self._is_closed,
                timeout=max(deadline - time.monotonic(), 0),
            )
            size = min(len(self._waiting), self._max_batch_size)
            return [self._waiting.popleft() for _ in range(size)]

    def _run_batch(self, entries: Sequence[_Entry]) -> None:
        self._on_batch(len(entries))
        computed = self._pool.submit(self._results, [e.item for e in entries])
        error = computed.exception()
        if error is None:
            for entry, result in zip(entries, computed.result(), strict=True):
                if isinstance(result, Exception):
                    entry.future.set_exception(result)
                else:
                    entry.future.set_result(result)
        elif len(entries) == 1:
            entries[0].future.set_exception(error)
        else:
            # Run each separately, so that the failing item affects no other.
            for entry in entries:
                self._run_batch([entry])

    def _results(self, items: Sequence[Any]) -> Sequence[Any]:
        results = self._run(items)
        if len(results) != len(items):
            raise RuntimeError(
                f"there must be a result for each of {len(items)} items; received "
                f"{len(results)}"
            )
        return results
