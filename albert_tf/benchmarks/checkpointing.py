"""Time to save checkpoints, in the background and at once, and to restore them."""

import os
import shutil
import time

from albert_tf.benchmarks import figures
from albert_tf.training import trainer as trainer_lib

_GROUP = "checkpoint"


def measure(
    trainer: trainer_lib.Trainer, folder: str, num_repeats: int
) -> list[figures.Figure]:
    """Times saving in the background, saving at once, and restoring.

    Args:
      trainer: what to save.
      folder: created for this, and removed.
      num_repeats: how often each is done, after a first one that allocates the copies.

    Raises:
      OSError: the folder cannot be written to.
    """
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    checkpointer = trainer.make_checkpointer(folder)
    checkpointer.save(0)
    checkpointer.wait()
    waiting, written, at_once, restoring = [], [], [], []
    for number in range(1, num_repeats + 1):
        started = time.perf_counter()
        checkpointer.save(number)
        waiting.append(time.perf_counter() - started)
        checkpointer.wait()
        written.append(time.perf_counter() - started)
    for number in range(num_repeats + 1, 2 * num_repeats + 1):
        started = time.perf_counter()
        checkpointer.save(number, wait=True)
        at_once.append(time.perf_counter() - started)
    for _ in range(num_repeats):
        started = time.perf_counter()
        trainer.make_checkpointer(folder).restore()
        restoring.append(time.perf_counter() - started)
    found = [
        figures.median_figure(_GROUP, name, samples, "s")
        for name, samples in (
            ("in the background: training waits", waiting),
            ("in the background: written after", written),
            ("at once", at_once),
            ("restored in", restoring),
        )
    ]
    size = checkpoint_bytes(folder, 2 * num_repeats)
    shutil.rmtree(folder)
    return [*found, figures.Figure(_GROUP, "size", size / 1e6, "MB")]


def checkpoint_bytes(folder: str, step: int) -> int:
    """Size of all files of the checkpoint of a step."""
    start = f"model.ckpt-{step}."
    return sum(
        entry.stat().st_size
        for entry in os.scandir(folder)
        if entry.name.startswith(start)
    )
