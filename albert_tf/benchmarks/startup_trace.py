"""Times the parts of a start of pre-training, up to its first step.

  python -m albert_tf.benchmarks.startup_trace RESULT STARTED [FLAGS OF pretrain]

Runs albert_tf.pretrain unchanged, with timers around the functions that it calls, and
ends it after two calls of the loop. RESULT is a JSON file, and STARTED the value of
`time.time()` when the process was started. The flags must set
train.steps_per_loop=1.
"""

import collections
import contextlib
import json
import runpy
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

_CALLED_AT = time.time()

import tensorflow as tf  # noqa: E402  (its import is timed too)

from albert_tf.checkpoints import checkpointer, run_dir  # noqa: E402
from albert_tf.core import config_io, files  # noqa: E402
from albert_tf.data import input_pipeline  # noqa: E402
from albert_tf.data import manifest as manifest_lib  # noqa: E402
from albert_tf.devices import strategies  # noqa: E402
from albert_tf.model import pretraining_model  # noqa: E402
from albert_tf.optim import optimizers  # noqa: E402
from albert_tf.training import (  # noqa: E402
    loops,
    metrics_log,
    pretraining,  # noqa: F401 (counted as an import, not in the run)
)

# The functions that are timed, and the part of the start that they belong to.
_PARTS = (
    (strategies, "create_strategy", "devices"),
    (strategies, "check_same_step", "devices"),
    (manifest_lib, "read_manifest", "data"),
    (manifest_lib, "check_manifest", "data"),
    (run_dir, "check", "data"),
    (run_dir, "write", "data"),
    (input_pipeline, "run_input_fn", "data"),
    (input_pipeline, "eval_input_fn", "data"),
    (strategies, "distribute_dataset", "data"),
    (pretraining_model, "build_pretraining_model", "model and optimizer"),
    (optimizers, "create", "model and optimizer"),
    (optimizers.AdamW, "build", "model and optimizer"),
    (checkpointer.Checkpointer, "__init__", "restore"),
    (checkpointer.Checkpointer, "restore", "restore"),
    (metrics_log.MetricsLog, "__init__", "metrics so far"),
    (checkpointer.Checkpointer, "save", "checkpoint before it"),
)
NAMES = (
    "Python",
    "imports",
    "devices",
    "data",
    "model and optimizer",
    "restore",
    "metrics so far",
    "evaluation before it",
    "checkpoint before it",
    "tracing",
    "compiling",
    "first batch",
    "the step",
    "rest",
)


class _Measured(Exception):
    """Ends the run when everything is measured."""


class Start:
    """The times of the parts of a start, which must not be nested."""

    def __init__(self, started: float, now: Callable[[], float] = time.time):
        self.parts: dict[str, float] = collections.defaultdict(float)
        self.result: dict[str, Any] = {}
        self._started = started
        self._now = now

    @contextlib.contextmanager
    def on_parts(self) -> Iterator[None]:
        """Times the functions that a run calls within this context."""
        with contextlib.ExitStack() as stack:

            def patch(owner, name, make):
                original = getattr(owner, name)
                stack.callback(setattr, owner, name, original)
                setattr(owner, name, make(original))

            for owner, name, part in _PARTS:
                patch(owner, name, lambda f, part=part: self.timed(f, part))
            patch(config_io, "load", self._ending_imports)
            patch(loops, "make_evaluation_sums", self._timing_evaluations)
            patch(loops, "make_train_loop", self._ending_after_two_calls)
            yield

    def timed(self, function: Callable, part: str) -> Callable:
        """Returns `function` with a timer that adds to a part."""

        def timed(*arguments, **named):
            start = self._now()
            try:
                return function(*arguments, **named)
            finally:
                self.parts[part] += self._now() - start

        return timed

    def _ending_imports(self, load: Callable) -> Callable:
        def load_after_imports(*arguments):
            self.parts["Python"] = _CALLED_AT - self._started
            self.parts["imports"] = self._now() - _CALLED_AT
            return load(*arguments)

        return load_after_imports

    def _timing_evaluations(self, make: Callable) -> Callable:
        def make_timed(*arguments):
            make_sums = make(*arguments)
            return lambda *inputs: self.timed(
                make_sums(*inputs), "evaluation before it"
            )

        return make_timed

    def _ending_after_two_calls(self, make: Callable) -> Callable:
        return lambda *arguments: _Loop(make(*arguments), self)

    def finish(self, first: dict[str, float], second: dict[str, float]) -> None:
        """Computes the result from the times of two calls of the loop."""
        step = second["ended"] - second["began"] - second["input_seconds"]
        waiting = first["input_seconds"]
        self.parts["first batch"] = waiting
        self.parts["the step"] = step
        whole = first["ended"] - first["began"]
        self.parts["compiling"] = max(0.0, whole - waiting - step)
        total = first["ended"] - self._started
        self.parts["rest"] = total - sum(self.parts.values())
        self.result["parts"] = {name: self.parts[name] for name in NAMES}
        self.result["seconds"] = total
        self.result["core_seconds"] = first["core_seconds"]


class _Loop:
    """The train loop, whose first call is traced separately from its execution."""

    def __init__(self, loop: Any, start: Start):
        self._loop = loop
        self._start = start
        self._calls: list[dict[str, float]] = []

    def __call__(self, batches, num_steps):
        calls = self._calls
        if len(calls) == 2:
            # Time of the host between two calls, without work that is done only once.
            self._start.result["host_seconds"] = time.time() - calls[1]["ended"]
            raise _Measured
        if not calls:
            trace = self._start.timed(self._loop.get_concrete_function, "tracing")
            trace(batches, tf.TensorSpec([], tf.int32))
        began = time.time()
        outcome = self._loop(batches, num_steps)
        waiting = float(outcome["input_seconds"])
        calls.append(
            {
                "began": began,
                "ended": time.time(),
                "input_seconds": waiting,
                "core_seconds": time.process_time(),
            }
        )
        if len(calls) == 2:
            self._start.finish(*calls)
        return outcome


def main(argv: list[str]) -> None:
    """Runs pre-training and writes the result."""
    _, result, started, *flags = argv
    start = Start(float(started))
    sys.argv = ["albert_tf.pretrain", *flags]
    with start.on_parts(), contextlib.suppress(_Measured):
        runpy.run_module("albert_tf.pretrain", run_name="__main__", alter_sys=True)
    files.write_bytes(result, json.dumps(start.result).encode())


if __name__ == "__main__":
    main(sys.argv)
