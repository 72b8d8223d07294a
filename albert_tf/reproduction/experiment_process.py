"""The process of one experiment with one seed.

    python -m albert_tf.reproduction.experiment_process REQUEST.json

`runner` writes the request, and reads what this writes. It uses the `cores` of the
request, all if there are none. With `configs` in the request it finds out how long a
step of these takes instead. The same command resumes.
"""

import os
import signal
import threading
import time
from collections.abc import Sequence

from albert_tf.core import cli, files, strict_json


def _end_with(parent: int) -> None:
    """Asks this process to save and end once its parent has ended."""
    while os.getppid() == parent:
        time.sleep(1.0)
    os.kill(os.getpid(), signal.SIGTERM)


def main(argv: Sequence[str]) -> None:
    """Runs the request that the first argument names."""
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    request = strict_json.load(argv[1])
    if cores := request["cores"]:
        # Before TensorFlow is loaded, which makes as many threads as there are cores.
        os.sched_setaffinity(0, cores)
    with cli.user_errors():
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
