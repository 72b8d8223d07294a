"""Training in processes of its own, which the test that started them ends.

They are forks of a server that has imported TensorFlow and computed nothing, so that
each starts at once.
"""

import contextlib
import gc
import json
import multiprocessing
import os
import pathlib
import runpy
import socket
import sys
import time
from collections.abc import Iterator, Sequence
from multiprocessing import context as context_lib

import numpy as np
import tensorflow as tf

from albert_tf.training import metrics_log
from tests.support import small_run

TIMEOUT = 240


def command(data_dir, model_dir, settings: Sequence[str], *flags: str) -> list[str]:
    """The command that pre-trains with the small recipe."""
    return [
        sys.executable,
        "-m",
        "albert_tf.pretrain",
        *(f"--set={setting}" for setting in (*small_run.OVERRIDES, *settings)),
        f"--data_dir={data_dir}",
        f"--model_dir={model_dir}",
        *flags,
    ]


def forkserver() -> context_lib.ForkServerContext:
    """The server, the same for all tests of a session, as a context."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(
        [
            "albert_tf.finetuning.finetuning",
            "albert_tf.finetuning.results_writer",
            "albert_tf.training.pretraining",
            "tests.support.training_processes",
        ]
    )
    return context


def _run(words: Sequence[str], environment: dict[str, str], errors: str) -> None:
    """Does in this process what the command would do in one of its own."""
    gc.freeze()  # a collection would read all that the server imported
    os.environ.update(environment)
    for path, number in ((os.devnull, 1), (errors, 2)):
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        os.dup2(descriptor, number)
        os.close(descriptor)
    interpreter, option, module, *flags = words
    assert (interpreter, option) == (sys.executable, "-m")
    sys.argv = [module, *flags]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def cluster_environments(num_workers: int) -> list[dict[str, str]]:
    """Returns the TF_CONFIG of each worker of a run."""
    workers = [f"127.0.0.1:{_free_port()}" for _ in range(num_workers)]
    return [
        {
            "TF_CONFIG": json.dumps(
                {
                    "cluster": {"worker": workers},
                    "task": {"type": "worker", "index": index},
                }
            )
        }
        for index in range(num_workers)
    ]


@contextlib.contextmanager
def running(
    commands: Sequence[Sequence[str]], folder: pathlib.Path, is_cluster: bool = False
) -> Iterator[list[multiprocessing.Process]]:
    """Processes that run side by side, and are gone in the end.

    Args:
      commands: of each, as `command` makes them.
      folder: where their error streams go, as 0.err, 1.err, …
      is_cluster: whether they are the workers of one run, each told by TF_CONFIG.
    """
    folder.mkdir(exist_ok=True)
    environments = [{} for _ in commands]
    if is_cluster:
        environments = cluster_environments(len(commands))
    processes = []
    try:
        for index, (words, environment) in enumerate(
            zip(commands, environments, strict=True)
        ):
            arguments = (words, environment, str(folder / f"{index}.err"))
            process = forkserver().Process(target=_run, args=arguments)
            process.start()
            processes.append(process)
        yield processes
    finally:
        for process in processes:
            if process.is_alive():
                process.kill()
            process.join()


def exit_codes(
    processes: Sequence[multiprocessing.Process], timeout: float = TIMEOUT
) -> list[int]:
    """Waits for all, so many seconds for each."""
    codes = []
    for process in processes:
        process.join(timeout=timeout)
        if process.exitcode is None:
            raise TimeoutError(f"a process did not end within {timeout} seconds")
        codes.append(process.exitcode)
    return codes


def wait_for_step(model_dir: pathlib.Path, step: int) -> None:
    """Waits for a checkpoint of that step or a later one."""
    deadline = time.monotonic() + TIMEOUT
    while time.monotonic() < deadline:
        if newest_step(model_dir) >= step:
            return
        time.sleep(0.05)
    raise TimeoutError(f"no checkpoint of step {step} in {model_dir}")


def newest_step(model_dir: pathlib.Path) -> int:
    """The step of the newest checkpoint; -1 where there is none."""
    path = tf.train.latest_checkpoint(str(model_dir))
    return int(path.rpartition("-")[2]) if path else -1


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def variables(path) -> dict[str, np.ndarray]:
    """All of a checkpoint: weights, slots, step and what the loop carries.

    Args:
      path: its prefix, or a run's directory for its newest one.
    """
    reader = tf.train.load_checkpoint(str(path))
    return {
        name: reader.get_tensor(name)
        for name in reader.get_variable_to_shape_map()
        if name.endswith("VARIABLE_VALUE")
    }


def largest_difference(one, other) -> float:
    """Over all variables of two checkpoints, which must have the same names."""
    assert one.keys() == other.keys() and len(one) > 90
    return max(
        float(np.abs(value.astype(np.float64) - other[name]).max())
        for name, value in one.items()
        if name != "save_counter/.ATTRIBUTES/VARIABLE_VALUE"
    )


# What depends on the clock or on restarts, and not on what is computed.
_OF_TIME = ("seconds", "_per_second", "input_share", "utilization", "begun_at")


def computed_rows(model_dir) -> list[dict]:
    """The rows of metrics.jsonl without what depends on clock and restarts."""
    return [
        {name: value for name, value in row.items() if not name.endswith(_OF_TIME)}
        for row in metrics_log.read_metrics(str(model_dir))
    ]
