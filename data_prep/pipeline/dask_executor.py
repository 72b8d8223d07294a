"""The workers of a Dask cluster as workers of data preparation.

Tasks travel to them and results back through the cluster; files do not: every worker
must see the directory of unfinished work under the same path. A plugin makes the
object that does the tasks in each worker process, also in those that join later or
are restarted, and refuses workers with another program, which would make other bytes.
"""

import concurrent.futures
import contextlib
import importlib.util
import os
import socket
import threading
import time
import uuid
from typing import Any

import distributed
from distributed import scheduler

from data_prep.pipeline import program, worker, worker_pool

# So long is waited for a worker, at the start and when all are lost.
PATIENCE_SECONDS = 60.0
_RETRY_SECONDS = 0.2
_ANSWER_SECONDS = 5.0


class DaskExecutor:
    """Tasks done by the workers of a cluster; an `worker_pool.Executor`."""

    def __init__(self, address: str, *arguments: Any):
        """Connects to a cluster, and prepares its workers.

        Args:
          address: of its scheduler, HOST:PORT.
          *arguments: of `worker.Worker`; paths must be those of the workers.

        Raises:
          ValueError: there is no such scheduler, or workers that cannot take part: they
            lack the program or the directory, or have others.
          OSError: the cluster has no worker.
        """
        try:
            self._client = distributed.Client(
                address, timeout=PATIENCE_SECONDS, set_as_default=False
            )
        except (OSError, ValueError) as error:
            raise ValueError(
                "--dask_scheduler must be the address of a scheduler that runs, "
                f"HOST:PORT; received {address} ({error})"
            ) from error
        self._key = f"data_prep-{uuid.uuid4()}"
        self._last_seen = time.monotonic()
        # By the names that the scheduler has for them.
        self._in_flight: dict[str, concurrent.futures.Future] = {}
        self._unknown: set[str] = set()
        self._executor = self._client.get_executor(pure=False, retries=0)
        try:
            self._client.wait_for_workers(1, PATIENCE_SECONDS)
            self._check_program_is_there()
            plugin = _Plugin(self._key, program.describe(), arguments)
            self._client.register_plugin(plugin, name=self._key)
        except TimeoutError as error:
            self.close(is_failed=True)
            raise OSError(_no_worker()) from error
        except ValueError as error:
            self.close(is_failed=True)
            raise ValueError(
                f"a worker of the Dask cluster cannot take part: {error}. Each needs "
                "this program and its packages (PYTHONPATH), and must see the "
                "directory of unfinished work (--work_dir) under the same path"
            ) from error

    def _check_program_is_there(self) -> None:
        package = __name__.partition(".")[0]
        # Not with a function of ours, which a worker without the program cannot load.
        found = self._client.run(importlib.util.find_spec, package)
        missing = [address for address, spec in found.items() if spec is None]
        if missing:
            raise ValueError(f"{missing[0]} has no package {package}")

    def describe(self) -> str:
        """Returns a line on the cluster."""
        return (
            f"Dask cluster with {self.num_workers} workers, dashboard: "
            f"{self._client.dashboard_link}"
        )

    @property
    def num_workers(self) -> int:
        """The number of worker processes that there are now."""
        workers = self._client.scheduler_info(n_workers=-1)["workers"]
        return max(1, len(workers))

    @property
    def capacity(self) -> int:
        """The number of tasks to submit before the first of them is done."""
        return self.num_workers * worker_pool.TASKS_PER_WORKER

    def submit(self, task: worker_pool.Task) -> concurrent.futures.Future:
        """Sends a task to a worker."""
        name = f"{self._key}-{uuid.uuid4()}"
        sent = self._send(_Sent(task))
        future = self._executor.submit(_do, self._key, sent, key=name)
        self._in_flight[name] = future
        return future

    def _send(self, sent: "_Sent") -> distributed.Future:
        """Sends data to a worker; to another one if that ends meanwhile."""
        while True:
            with contextlib.suppress(OSError):
                if self._client.status == "running":
                    # Not through the scheduler: a block of text has megabytes.
                    [future] = self._client.scatter([sent], direct=True, hash=False)
                    self._last_seen = time.monotonic()
                    return future
            self.check()
            time.sleep(_RETRY_SECONDS)

    def is_lost(self, error: BaseException) -> bool:
        """Returns whether a task ended with its worker, or with that of its data."""
        return isinstance(
            error,
            concurrent.futures.CancelledError
            | scheduler.KilledWorker
            | distributed.client.FutureCancelledError,
        )

    def check(self) -> None:
        """Raises an OSError if scheduler or workers have been lost for a while.

        Ends tasks as lost that the scheduler does not know any more: if a worker ends
        while data is sent to it, the task that needs it may be forgotten silently.
        """
        now, is_connected = time.monotonic(), self._client.status == "running"
        if is_connected and self._client.scheduler_info(n_workers=-1)["workers"]:
            self._last_seen = now
            # A scheduler that is lost is seen when `check` is called again.
            with contextlib.suppress(OSError):
                self._end_forgotten()
        elif now - self._last_seen > PATIENCE_SECONDS:
            raise OSError(_no_worker() if is_connected else _LOST)

    def _end_forgotten(self) -> None:
        self._in_flight = {
            name: future
            for name, future in self._in_flight.items()
            if not future.done()
        }
        connection = self._client.scheduler
        assert connection is not None  # it is connected
        states = self._client.sync(
            connection.get_task_status,
            keys=list(self._in_flight),
            callback_timeout=_ANSWER_SECONDS,
        )
        unknown = {name for name, state in states.items() if state is None}
        # Those that have just been submitted may not have reached the scheduler.
        for name in unknown & self._unknown:
            # Not its `cancel`, of which those who wait for it would not be told.
            with contextlib.suppress(concurrent.futures.InvalidStateError):
                self._in_flight[name].set_exception(concurrent.futures.CancelledError())
        self._unknown = unknown

    def close(self, is_failed: bool) -> None:
        """Disconnects; the cluster keeps running."""
        # A scheduler that is lost has neither tasks nor plugins.
        if self._client.status == "running":
            self._executor.shutdown(wait=not is_failed)
            with contextlib.suppress(OSError, ValueError):
                self._client.unregister_worker_plugin(self._key)
        self._client.close()


_LOST = "the Dask scheduler is lost; start it, then give the same command again"


def _no_worker() -> str:
    return (
        f"the Dask cluster has had no worker for {PATIENCE_SECONDS:.0f} seconds; start "
        "some (dask worker HOST:PORT --nthreads=1), then give the same command again"
    )


class _Sent:
    """A task on its way: Dask would look for futures within a tuple."""

    def __init__(self, task: worker_pool.Task):
        self.task = task


# Of this process, by the key of the run.
_workers: dict[str, worker.Worker] = {}
# A worker of Dask may have several threads; ours does one task at a time.
_lock = threading.Lock()


class _Plugin(distributed.WorkerPlugin):
    """Prepares a worker process of Dask."""

    def __init__(self, key: str, program_of_run: dict[str, Any], arguments: tuple):
        self._key, self._program = key, program_of_run
        self._arguments = arguments

    def setup(self, worker: Any) -> None:  # noqa: ARG002, the name is Dask's
        """Makes the object that does tasks, if the program here is that of the run."""
        _make_worker(self._key, self._program, self._arguments)

    def teardown(self, worker: Any) -> None:  # noqa: ARG002, the name is Dask's
        """Forgets it."""
        _workers.pop(self._key, None)


def _make_worker(key: str, expected: dict[str, Any], arguments: tuple) -> None:
    host, found = socket.gethostname(), program.describe()
    if found != expected:
        differing = [
            f"{name} {found['versions'].get(name)} instead of {version}"
            for name, version in expected["versions"].items()
            if found["versions"].get(name) != version
        ]
        what = ", ".join(differing) or "other code of data_prep"
        raise ValueError(f"{host} has {what}")
    made = worker.Worker(*arguments)
    if not os.path.isdir(made.work_path):
        raise ValueError(f"{host} has no directory {made.work_path}")
    _workers[key] = made


def _do(key: str, sent: _Sent) -> Any:
    with _lock:
        return worker_pool.do(_workers[key], sent.task)
