"""Batches of items from many callers: a queue, and a thread that runs batches.

The queue and the batches are bounded by tokens, since these, and not the number of
texts, are what the model computes. A batch is padded to its longest item, so it takes
items of like lengths.
"""

import collections
import dataclasses
import math
import threading
import time
from collections.abc import Callable, Sequence
from concurrent import futures
from typing import Any, NamedTuple

from albert_tf.web import sizes


class QueueFull(RuntimeError):
    """The queue has no room for the submitted items; it may have later."""


class BatcherClosed(RuntimeError):
    """The batcher accepts no more items."""


@dataclasses.dataclass(frozen=True)
class Limits:
    """Limits of batches and of the queue.

    Attributes:
      max_batch_size: items in a batch.
      max_batch_tokens: tokens of a batch, padding included; a larger item is a batch by
        itself.
      max_wait_ms: how long an item waits for others.
      max_queue_tokens: tokens that may wait. What is more than that in one submission
        is accepted if nothing waits.
      max_client_share: the share of them that one client may have, if it has any.
      max_length_ratio: the longest item of a batch has at most so many times the tokens
        of the shortest; infinity batches in the order of arrival.
    """

    max_batch_size: int
    max_batch_tokens: int
    max_wait_ms: float
    max_queue_tokens: int
    max_length_ratio: float = 2.0
    max_client_share: float = 0.5

    def __post_init__(self):
        for field in dataclasses.fields(self):
            least = 0 if field.name in ("max_wait_ms", "max_client_share") else 1
            value = getattr(self, field.name)
            if value < least:
                raise ValueError(
                    f"{field.name} must be {least} or more; received {value}"
                )


class _Entry(NamedTuple):
    item: Any
    size: sizes.Size
    arrived: float  # seconds of the monotonic clock
    client: str
    future: futures.Future


def _unit(item: Any) -> sizes.Size:
    return sizes.Size(1, 1)


class RequestBatcher:
    """Runs a function on batches of items from many callers.

    A batch is run when it is full, or when the oldest item has waited `max_wait_ms`. It
    has the oldest item of the client that is first in turn, and others of like lengths.
    Items that arrive while a batch is run go into the next ones. An item whose future
    is cancelled is not run, and makes room.

    Turns are those of fair queueing (Demers et al., 1989): each token that is computed
    for a client moves its turn back by one, and a client that begins to wait gets the
    turn that it would have if it had got an equal share of all batches before. So a
    client with many items does not delay another with few, and short items of many
    clients do not keep a long one waiting.
    """

    def __init__(
        self,
        run: Callable[[Sequence[Any]], Sequence[Any]],
        limits: Limits,
        size_of: sizes.SizeOf = _unit,
        on_batch: Callable[[int], None] = lambda size: None,
    ):
        """Starts the thread.

        Args:
          run: from a list of items to a list of their results; a result that is an
            exception is raised to the caller of that item only.
          limits: of batches and of the queue.
          size_of: returns the size of an item; by default all are one token.
          on_batch: called with the number of items of each batch, in the thread.
        """
        self._run = run
        self._limits = limits
        self._size_of = size_of
        self._on_batch = on_batch
        self._waiting: list[_Entry] = []
        # Tokens that a client would have got since the beginning if each batch had been
        # divided equally among those who waited, and the turns of those who wait or got
        # more than that.
        self._fair_share = 0.0
        self._turns: dict[str, float] = {}
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
        return len(self._still_wanted())

    @property
    def num_tokens_waiting(self) -> int:
        """Their tokens."""
        return sum(entry.size.tokens for entry in self._still_wanted())

    def submit(self, items: Sequence[Any], client: str = "") -> list[futures.Future]:
        """Queues all items or none.

        Args:
          items: what to compute.
          client: whose items they are; one without a name may fill the queue.

        Returns:
          A future for each item.

        Raises:
          QueueFull: they do not all fit into the queue.
          BatcherClosed: the batcher was closed.
        """
        now = time.monotonic()
        entries = [
            _Entry(item, self._size_of(item), now, client, futures.Future())
            for item in items
        ]
        tokens = sum(entry.size.tokens for entry in entries)
        most = self._limits.max_queue_tokens
        most_of_client = int(most * self._limits.max_client_share)
        with self._changed:
            if self._is_closed:
                raise BatcherClosed("the server is stopping; try again later")
            self._waiting = self._still_wanted()
            before = self.num_tokens_waiting
            if before and before + tokens > most:
                raise QueueFull(
                    f"about {most} tokens may wait, and {before} do; received {tokens} "
                    "more. Try again later"
                )
            own = sum(e.size.tokens for e in self._waiting if e.client == client)
            if client and own and own + tokens > most_of_client:
                raise QueueFull(
                    f"about {most_of_client} tokens of one client may wait, and {own} "
                    f"of yours do; received {tokens} more. Wait for their answers"
                )
            if not own:
                turn = self._turns.get(client, 0.0)
                self._turns[client] = max(turn, self._fair_share)
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

    def _still_wanted(self) -> list[_Entry]:
        """Those that wait, without those whose caller has left."""
        return [entry for entry in self._waiting if not entry.future.cancelled()]

    def _work(self) -> None:
        while (entries := self._next_batch()) is not None:
            entries = [e for e in entries if e.future.set_running_or_notify_cancel()]
            if entries:
                self._run_batch(entries)

    def _next_batch(self) -> list[_Entry] | None:
        """The next batch; None when the batcher is closed and all items are done."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._is_closed)
            self._waiting = self._still_wanted()
            if not self._waiting:
                return None if self._is_closed else []
            deadline = self._waiting[0].arrived + self._limits.max_wait_ms / 1000
            self._changed.wait_for(
                lambda: self._has_full_batch() or self._is_closed,
                timeout=max(deadline - time.monotonic(), 0),
            )
            self._waiting = self._still_wanted()
            if not self._waiting:
                return []
            batch = self._choose()
            self._count(batch)
            chosen = {id(entry) for entry in batch}
            self._waiting = [e for e in self._waiting if id(e) not in chosen]
            return batch

    def _count(self, batch: Sequence[_Entry]) -> None:
        """Moves the turns of a batch's clients, while its items still wait."""
        waiting = {entry.client for entry in self._waiting}
        for entry in batch:
            self._turns[entry.client] += entry.size.tokens
        tokens = sum(entry.size.tokens for entry in batch)
        self._fair_share += tokens / len(waiting)
        # A client that does not wait begins at the fair share, unless it had more.
        self._turns = {
            client: turn
            for client, turn in self._turns.items()
            if client in waiting or turn > self._fair_share
        }

    def _has_full_batch(self) -> bool:
        return (
            len(self._waiting) >= self._limits.max_batch_size
            or self.num_tokens_waiting >= self._limits.max_batch_tokens
        )

    def _choose(self) -> list[_Entry]:
        """The items of the next batch, in the order of their arrival."""
        tokens: collections.Counter[str] = collections.Counter()
        for entry in self._waiting:
            tokens[entry.client] += entry.size.tokens
        # Among clients whose turn is the same, the one that waits for least.
        client = min(tokens, key=lambda one: (self._turns[one], tokens[one]))
        first = next(n for n, e in enumerate(self._waiting) if e.client == client)
        near = self._waiting[first].size.length
        ratio = self._limits.max_length_ratio
        places = [at for at in range(len(self._waiting)) if at != first]
        if ratio < math.inf:
            # Stable: among equally near ones the first comes first.
            places.sort(key=lambda at: abs(self._waiting[at].size.length - near))
        chosen: list[int] = []
        rows = longest = 0
        shortest = near
        for place in (first, *places):
            size = self._waiting[place].size
            high, low = max(longest, size.length), min(shortest, size.length)
            is_larger = (rows + size.rows) * high > self._limits.max_batch_tokens
            if chosen and (is_larger or high > ratio * low):
                continue
            chosen.append(place)
            rows, longest, shortest = rows + size.rows, high, low
            if len(chosen) == self._limits.max_batch_size:
                break
        return [self._waiting[place] for place in sorted(chosen)]

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
