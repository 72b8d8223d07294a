"""The process of one experiment with one seed.

    python -m albert_tf.reproduction.experiment_process REQUEST.json PARENT

`runner`, the process PARENT, writes the request and reads what this writes. If it ends,
this process saves and ends too. It uses the `cores` of the request, all if there are
none. With `configs` in the request it finds out how long a step of these takes instead.
The same command resumes.
"""

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence

from albert_tf.core import cli, files, locks, strict_json

# The process of a command that was killed ends within this time, if all is well.
_PATIENCE_SECONDS = 300.0


@contextlib.contextmanager
def _alone(run_dir: str) -> Iterator[None]:
    """Waits for the process of an interrupted command, which may still be saving.

    Raises:
      ValueError: it does not end.
    """
    lock = locks.FileLock(f"{run_dir}.lock")
    deadline, is_told = time.monotonic() + _PATIENCE_SECONDS, False
    while True:
        try:
            lock.acquire()
            break
        except locks.HeldError as error:
            if time.monotonic() > deadline:
                raise ValueError(
                    f"another command trains {run_dir} ({error}); wait until it ends"
                ) from error
            if not is_told:
                is_told = True
                print(f"waiting for {error}, which saves and ends", file=sys.stderr)
            time.sleep(1.0)
    try:
        yield
    finally:
        lock.release()


def _end_with(parent: int) -> None:
    """Asks this process to save and end once its parent has ended."""
    while os.getppid() == parent:
        time.sleep(1.0)
    os.kill(os.getpid(), signal.SIGTERM)


def main(argv: Sequence[str]) -> None:
    """Runs the request that the first argument names, for the process of the second."""
    # Not os.getppid(): the parent may have been killed before this line.
    parent = int(argv[2])
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    request = strict_json.load(argv[1])
    if cores := request["cores"]:
        # Before TensorFlow is loaded, which makes as many threads as there are cores.
        os.sched_setaffinity(0, cores)
    with cli.user_errors(), _alone(request["run_dir"]):
        # Imported here: TensorFlow's own lines are off by now.
        from albert_tf.reproduction import measuring
        from albert_tf.training import flags

        is_timing = "configs" in request
        act = measuring.time_steps if is_timing else measuring.measure
        with flags.exiting_early():
            values = act(request)
        files.write_json(f"{request['run_dir']}.json", values)


if __name__ == "__main__":
    cli.run(main, lambda: None)
