"""Worker processes and the threads that feed them.

The calling process reads and decompresses the input, with a thread for every few
workers, and distributes tasks; the workers do the rest. With one worker all is done in
the calling process.
"""

import concurrent.futures
import contextlib
import itertools
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from albert_tf.core import numba_cache

# Enough that no worker waits for its next task, few enough to fit in memory.
_TASKS_PER_WORKER = 2
# The number of workers that one thread, which reads and decompresses, can keep busy.
_WORKERS_PER_READER = 4

# The name of a method of the worker, and its arguments.
Task = tuple


class Pool:
    """Does tasks with a number of processes; a context manager."""

    def __init__(self, num_workers: int, worker: Callable[..., Any], *arguments: Any):
        """Starts no process yet.

        Args:
          num_workers: the number of processes; 1 starts none.
          worker: called once in each process, returns the object that does the tasks.
            Must be at the top level of its module.
          *arguments: of `worker`.
        """
        self._num_workers = num_workers
        self._other_children = set(multiprocessing.active_children())
        self._local_worker = worker(*arguments) if num_workers == 1 else None
        self._pool: concurrent.futures.ProcessPoolExecutor | None = None
        if num_workers > 1:
            # "spawn": a fork of a process that has threads may hang.
            self._pool = concurrent.futures.ProcessPoolExecutor(
                num_workers,
                multiprocessing.get_context("spawn"),
                _start,
                (worker, *arguments),
            )

    def __enter__(self) -> "Pool":
        return self

    def __exit__(self, error_type, *_) -> None:
        if self._pool is None:
            return
        if error_type is not None:
            # Their results are useless, and a second Ctrl-C must not reach them.
            children = set(multiprocessing.active_children()) - self._other_children
            for child in children:
                child.terminate()
        self._pool.shutdown(cancel_futures=True)

    def do_all(self, tasks: Iterable[Task]) -> Iterator[tuple[Task, Any]]:
        """Does tasks and yields each with its result, in any order.

        `tasks` is read as workers become free.

        Raises:
          OSError: a worker was killed.
        """
        if self._pool is None:
            for task in tasks:
                yield task, _do_with(self._local_worker, task)
            return
        in_flight: dict[concurrent.futures.Future, Task] = {}
        try:
            for task in tasks:
                with _without_interrupts():
                    in_flight[self._pool.submit(_do, task)] = task
                if len(in_flight) == self._num_workers * _TASKS_PER_WORKER:
                    yield from _results(in_flight)
            while in_flight:
                yield from _results(in_flight)
        except concurrent.futures.process.BrokenProcessPool as error:
            raise OSError(
                "a worker process was killed, perhaps because memory ran out; give the "
                "same command again, with fewer --num_workers if necessary"
            ) from error

    def read(
        self, groups: Sequence[Any], read_group: Callable[[Any], Iterator]
    ) -> Iterator:
        """Yields the items of `read_group` for each group of files, in any order.

        With enough workers, several groups are read at a time, each one item ahead.
        """
        if self._num_workers == 1:
            for group in groups:
                yield from read_group(group)
            return
        num_readers = -(-self._num_workers // _WORKERS_PER_READER)
        waiting = map(read_group, groups)
        reading: dict[concurrent.futures.Future, Iterator] = {}
        with concurrent.futures.ThreadPoolExecutor(num_readers) as threads:
            for items in itertools.islice(waiting, num_readers):
                reading[threads.submit(next, items, _END)] = items
            while reading:
                for future, items in _pop_finished(reading):
                    item = future.result()
                    follower = items if item is not _END else next(waiting, None)
                    if follower is not None:
                        reading[threads.submit(next, follower, _END)] = follower
                    if item is not _END:
                        yield item


@contextlib.contextmanager
def _without_interrupts() -> Iterator[None]:
    """Blocks Ctrl-C in processes that are started in this context, for good.

    They inherit the blocked signal; in this process it is only delayed.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


_END = object()


def _results(in_flight: dict) -> Iterator[tuple[Task, Any]]:
    for future, task in _pop_finished(in_flight):
        yield task, future.result()


def _pop_finished(futures: dict) -> list[tuple[concurrent.futures.Future, Any]]:
    """Removes the futures that are done, at least one, and returns their items."""
    done, _ = concurrent.futures.wait(
        futures, return_when=concurrent.futures.FIRST_COMPLETED
    )
    return [(future, futures.pop(future)) for future in done]


# The worker of a process, which lives as long as the process.
_worker: Any = None


def _start(worker: Callable[..., Any], *arguments: Any) -> None:
    global _worker
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _worker = worker(*arguments)


def _end_with_parent() -> None:
    """Ends this process when the calling process is killed."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _do(task: Task) -> Any:
    return _do_with(_worker, task)


def _do_with(worker: Any, task: Task) -> Any:
    name, *arguments = task
    with numba_cache.first_use(f"{type(worker).__name__}.{name}"):
        return getattr(worker, name)(*arguments)
