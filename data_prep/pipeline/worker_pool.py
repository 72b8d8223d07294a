"""Worker processes and the threads that feed them.

The calling process reads and decompresses the input, with a thread for every few
workers, and distributes tasks; the workers do the rest. With one worker all is done in
the calling process.
"""

import concurrent.futures.process
import contextlib
import itertools
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol

from albert_tf.core import numba_cache

# Enough that no worker waits for its next task, few enough to fit in memory.
TASKS_PER_WORKER = 2
# The number of workers that one thread, which reads and decompresses, can keep busy.
_WORKERS_PER_READER = 4
# A task is given up after it was lost with its worker so many times: it may be what
# ends them.
_MOST_LOSSES = 3
_CHECK_SECONDS = 5.0

# The name of a method of the worker, and its arguments.
Task = tuple


class Executor(Protocol):
    """Workers, each of which does one task at a time."""

    @property
    def num_workers(self) -> int:
        """The number of workers that there are now."""

    @property
    def capacity(self) -> int:
        """The number of tasks to submit before the first of them is done."""

    def submit(self, task: Task) -> concurrent.futures.Future:
        """Begins a task."""

    def is_lost(self, error: BaseException) -> bool:
        """Returns whether a task ended with its worker, and can be submitted again."""

    def check(self) -> None:
        """Raises an OSError if no task will ever be done."""

    def close(self, is_failed: bool) -> None:
        """Ends the workers; if something failed, without waiting for their tasks."""


def start(num_workers: int, worker: Callable[..., Any], *arguments: Any) -> Executor:
    """Returns workers on this machine.

    Args:
      num_workers: the number of processes; 1 starts none.
      worker: called once in each process, returns the object that does the tasks.
        Must be at the top level of its module.
      *arguments: of `worker`.
    """
    if num_workers == 1:
        return _ThisProcess(worker(*arguments))
    return _Processes(num_workers, worker, *arguments)


class Pool:
    """Does tasks with an executor; a context manager that closes it."""

    def __init__(self, executor: Executor):
        self._executor = executor

    def __enter__(self) -> "Pool":
        return self

    def __exit__(self, error_type, *_) -> None:
        self._executor.close(error_type is not None)

    def do_all(self, tasks: Iterable[Task]) -> Iterator[tuple[Task, Any]]:
        """Does tasks and yields each with its result, in any order.

        `tasks` is read as workers become free. A task that is lost with its worker is
        done again.

        Raises:
          OSError: a worker was killed, and no other can do its tasks.
        """
        # Each with the number of times that it was lost.
        in_flight: dict[concurrent.futures.Future, tuple[Task, int]] = {}
        try:
            for task in tasks:
                in_flight[self._executor.submit(task)] = task, 0
                while len(in_flight) >= self._executor.capacity:
                    yield from self._results(in_flight)
            while in_flight:
                yield from self._results(in_flight)
        except concurrent.futures.process.BrokenProcessPool as error:
            raise OSError(
                "a worker process was killed, perhaps because memory ran out; give the "
                "same command again, with fewer --num_workers if necessary"
            ) from error

    def _results(self, in_flight: dict) -> Iterator[tuple[Task, Any]]:
        """Yields tasks that are done, and submits those again that were lost."""
        for future, (task, num_losses) in _pop_finished(in_flight, self._executor):
            error = _error_of(future)
            if error is None:
                yield task, future.result()
                continue
            if not self._executor.is_lost(error):
                raise error
            if num_losses == _MOST_LOSSES:
                raise OSError(
                    f"a task ({task[0]}) was lost with its worker {num_losses + 1} "
                    "times, perhaps because memory ran out; give the same command "
                    "again, with more memory for each worker"
                ) from error
            in_flight[self._executor.submit(task)] = task, num_losses + 1

    def read(
        self, groups: Sequence[Any], read_group: Callable[[Any], Iterator]
    ) -> Iterator:
        """Yields the items of `read_group` for each group of files, in any order.

        With enough workers, several groups are read at a time, each one item ahead.
        """
        if self._executor.num_workers == 1:
            for group in groups:
                yield from read_group(group)
            return
        num_readers = -(-self._executor.num_workers // _WORKERS_PER_READER)
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


class _ThisProcess:
    """The executor of one worker: the calling process."""

    num_workers = capacity = 1

    def __init__(self, worker: Any):
        self._worker = worker

    def submit(self, task: Task) -> concurrent.futures.Future:
        """Does the task."""
        done: concurrent.futures.Future = concurrent.futures.Future()
        done.set_result(do(self._worker, task))
        return done

    def is_lost(self, error: BaseException) -> bool:
        """Nothing is lost."""
        return False

    def check(self) -> None:
        """Each task is done at once."""

    def close(self, is_failed: bool) -> None:
        """There is nothing to close."""


class _Processes:
    """Processes on this machine."""

    def __init__(self, num_workers: int, worker: Callable[..., Any], *arguments: Any):
        self.num_workers = num_workers
        self._other_children = set(multiprocessing.active_children())
        # "spawn": a fork of a process that has threads may hang.
        self._pool = concurrent.futures.ProcessPoolExecutor(
            num_workers,
            multiprocessing.get_context("spawn"),
            _start,
            (worker, *arguments),
        )

    @property
    def capacity(self) -> int:
        return self.num_workers * TASKS_PER_WORKER

    def submit(self, task: Task) -> concurrent.futures.Future:
        with _without_interrupts():
            return self._pool.submit(_do, task)

    def is_lost(self, error: BaseException) -> bool:
        """When one of them is killed, no other does a task any more."""
        return False

    def check(self) -> None:
        """The pool itself notices processes that end."""

    def close(self, is_failed: bool) -> None:
        if is_failed:
            # Their results are useless, and a second Ctrl-C must not reach them.
            children = set(multiprocessing.active_children()) - self._other_children
            for child in children:
                child.terminate()
        self._pool.shutdown(cancel_futures=True)


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


def _pop_finished(
    futures: dict, executor: Executor | None = None
) -> list[tuple[concurrent.futures.Future, Any]]:
    """Removes the futures that are done, at least one, and returns their items.

    Raises OSError if the executor says that it will never do them.
    """
    while True:
        done, _ = concurrent.futures.wait(
            futures, _CHECK_SECONDS, concurrent.futures.FIRST_COMPLETED
        )
        if done:
            return [(future, futures.pop(future)) for future in done]
        if executor is not None:
            executor.check()


def _error_of(future: concurrent.futures.Future) -> BaseException | None:
    try:
        return future.exception()
    except concurrent.futures.CancelledError as error:
        return error


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
    return do(_worker, task)


def do(worker: Any, task: Task) -> Any:
    """Returns the result of a task of a worker."""
    name, *arguments = task
    with numba_cache.first_use(f"{type(worker).__name__}.{name}"):
        return getattr(worker, name)(*arguments)
