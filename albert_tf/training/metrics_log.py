"""Writes metrics of a run: metrics.jsonl, TensorBoard and a progress bar.

`objectives` and `throughput` compute the metrics; `trainer` puts a row together.
"""

import itertools
import json
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from albert_tf.core import failures, files, progress_bar, short_repr, strict_json
from albert_tf.data import schema
from albert_tf.training import pauses

METRICS_FILE = "metrics.jsonl"
_ROW_KEYS = ("split", "step", "stage", "seconds", "begun_at")


def read_metrics(model_dir: str) -> list[dict]:
    """Returns the rows of a run's metrics.jsonl; an empty list if there is none.

    Raises:
      ValueError: a line is damaged; names it.
    """
    path = os.path.join(model_dir, METRICS_FILE)
    if not tf.io.gfile.exists(path):
        return []
    rows = []
    # A process that was killed may have left part of a line, after the last line feed.
    *whole, _ = files.read_bytes(path, strict_json.MAX_DATA_BYTES).split(b"\n")
    for number, line in enumerate(whole, 1):
        if line:
            place = f"{path}:{number}"
            # Leniently: a loss may be NaN.
            rows.append(_checked(strict_json.loads(line, place, lenient=True), place))
    return rows


def _checked(row: Any, place: str) -> dict[str, Any]:
    """Returns a row, whose values are numbers except for the name of the split."""
    is_object = isinstance(row, dict) and isinstance(row.get("split"), str)
    is_step = is_object and type(row.get("step")) is int and 0 <= row["step"] < 1 << 63
    if not is_step or not all(
        type(value) in (int, float) for name, value in row.items() if name != "split"
    ):
        raise ValueError(
            f"{place}: a row of metrics must have a split, a step and numbers by name; "
            f"received {short_repr.shown(row)}. Remove the line, or copy the file again"
        )
    return row


def step_seconds(model_dir: str) -> float:
    """Returns the mean seconds of a step of a run, without its first row's.

    These include what was compiled.
    """
    rows = [row for row in read_metrics(model_dir) if row["split"] == schema.TRAIN]
    first, *_, last = rows
    return (last["seconds"] - first["seconds"]) / (last["step"] - first["step"])


def fastest_step_seconds(model_dir: str) -> float:
    """Returns the seconds of a step of a run between those two rows where it is least.

    The run was not interrupted: what a process did after its last row is in no
    `seconds`. Other load and compilation make steps slower, never faster.
    """
    rows = [row for row in read_metrics(model_dir) if row["split"] == schema.TRAIN]
    return min(
        (after["seconds"] - before["seconds"]) / (after["step"] - before["step"])
        for before, after in itertools.pairwise(rows)
    )


def check_new(model_dir: str, first_step: int = 0) -> None:
    """Raises ValueError if a run that starts would drop rows of another run.

    Args:
      model_dir: the run's directory.
      first_step: the step at which it begins.
    """
    last = max((row["step"] for row in read_metrics(model_dir)), default=0)
    if last > first_step:
        raise ValueError(
            f"{os.path.join(model_dir, METRICS_FILE)} has rows of a run up to step "
            f"{last}, but its checkpoints are missing. Copy them there to resume it; "
            "else give another --model_dir, or remove the files of that run"
        )


class MetricsLog:
    """Writes the metrics of one run, and shows its progress.

    A row of metrics.jsonl has `split` (train, heldout or probe), `step`, `seconds` of
    training so far (without what an interrupted process did after its last row),
    `begun_at` (the step at which the process that wrote it began),
    `stage` if the recipe names stages, and the metrics by name. Rows later than the
    restored step are dropped, because a run that resumes there makes them again. Only
    the chief of several processes writes; the others keep the rows and print warnings
    only.

    A row that cannot be written is kept and written with a later one: no failure of the
    storage ends a run here.
    """

    def __init__(
        self,
        model_dir: str,
        first_step: int,
        num_steps: int,
        is_chief: bool = True,
    ):
        """Starts at the step `first_step`."""
        self._path = os.path.join(model_dir, METRICS_FILE)
        rows = read_metrics(model_dir)
        self._rows = [row for row in rows if row["step"] <= first_step]
        self._seconds_before = self._rows[-1]["seconds"] if self._rows else 0.0
        self._started = time.monotonic()
        # None: the file must be written whole, without the rows that are dropped.
        self._num_written: int | None = None
        self._num_before = self._num_summarized = len(self._rows)
        self._model_dir = model_dir
        self._first_step = first_step
        self._is_chief = is_chief
        self._writers: dict[str, tf.summary.SummaryWriter] = {}
        self._outputs = [
            _Output(METRICS_FILE, self._write_rows, self.warn),
            _Output("the summaries of TensorBoard", self._write_summaries, self.warn),
        ]
        self._bar = progress_bar.make(
            total=num_steps, initial=first_step, unit="step", disable=not is_chief
        )

    @property
    def rows(self) -> Sequence[Mapping[str, Any]]:
        """The rows so far, also those from before a restart."""
        return self._rows

    def find(self, split: str, step: int) -> dict[str, float]:
        """Returns the metrics of a split recorded at a step; empty if none."""
        for row in self._rows:
            if (row["split"], row["step"]) == (split, step):
                return {k: v for k, v in row.items() if k not in _ROW_KEYS}
        return {}

    def record(self, split: str, step: int, values: Mapping[str, float]) -> None:
        """Records the metrics of a split at a step."""
        seconds = self._seconds_before + time.monotonic() - self._started
        row = {
            "split": split,
            "step": step,
            "seconds": round(seconds, 3),
            "begun_at": self._first_step,
            **values,
        }
        self._rows.append(row)
        for output in self._outputs if self._is_chief else ():
            output.write()

    def flush(self) -> None:
        """Writes the rows that could not be written earlier."""
        for output in self._outputs if self._is_chief else ():
            output.flush()

    def close(self) -> None:
        """Writes the rows that are not written yet, and closes the summaries."""
        self.flush()
        try:
            for writer in self._writers.values():
                writer.close()
        except (OSError, tf.errors.OpError) as error:
            self.warn(f"the last summaries are lost: {failures.one_line(error)}")
        self._writers = {}

    def progress(self, step: int, values: Mapping[str, float]) -> None:
        """Moves the progress bar to `step`, with some of a row's values after it."""
        shown = {
            name: f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
            for name, value in _shown(values).items()
        }
        self._bar.set_postfix(shown, refresh=False)
        self._bar.update(step - self._bar.n)

    def show(self, text: str) -> None:
        """Shows what is being done before the progress bar, on a terminal alone."""
        if self._is_chief and sys.stderr.isatty():
            self._bar.set_description_str(text)

    def show_step(self, step: int) -> None:
        """Moves the progress bar between two rows, on a terminal alone."""
        if self._is_chief and sys.stderr.isatty():
            # Without `update`, so that the next row is shown, however near it is.
            self._bar.n = step
            self._bar.refresh()

    def say(self, line: str) -> None:
        """Prints a line above the progress bar, on the chief."""
        if self._is_chief:
            self.warn(line)

    def warn(self, line: str) -> None:
        """Prints a line above the progress bar, on every process."""
        progress_bar.say(line)

    def __enter__(self) -> "MetricsLog":
        return self

    def __exit__(self, kind, *_) -> None:
        """Closes the progress bar; after an error, writes what is not written yet."""
        if kind is not None:
            self.flush()
        self._bar.close()

    def _write_rows(self) -> None:
        if self._num_written is None or files.is_remote(self._path):
            # A gs:// file is always written whole.
            lines = [json.dumps(row) + "\n" for row in self._rows]
            files.write_bytes(self._path, "".join(lines).encode())
        else:
            lines = [json.dumps(row) + "\n" for row in self._rows[self._num_written :]]
            # Until it succeeds: a part of a line may be written.
            self._num_written = None
            with open(self._path, "a", encoding="utf-8") as file:
                file.write("".join(lines))
        self._num_written = len(self._rows)

    def _write_summaries(self) -> None:
        try:
            for row in self._rows[self._num_summarized :]:
                with self._writer(row["split"]).as_default(row["step"]):
                    for name, value in row.items():
                        if name not in _ROW_KEYS:
                            # Of each number of Python, TensorFlow keeps a tensor for
                            # as long as the process lives.
                            tf.summary.scalar(name, np.float32(value))
        except (OSError, tf.errors.OpError):
            # The file may lack earlier rows too, so all go into another one.
            self._writers, self._num_summarized = {}, self._num_before
            raise
        self._num_summarized = len(self._rows)

    def _writer(self, split: str) -> tf.summary.SummaryWriter:
        if split not in self._writers:
            folder = os.path.join(self._model_dir, "summaries", split)
            self._writers[split] = tf.summary.create_file_writer(folder)
        return self._writers[split]


def _shown(values: Mapping[str, float]) -> dict[str, float]:
    shown = {
        name.removesuffix("_loss").replace("_", " "): value
        for name, value in values.items()
        if name.endswith("loss")
    }
    shown["tokens/s"] = values["tokens_per_second"]
    if "model_flops_utilization" in values:
        shown["MFU"] = values["model_flops_utilization"]
    return shown


class _Output:
    """Writes rows when they come, or after a failure later."""

    def __init__(
        self, name: str, write_rows: Callable[[], None], warn: Callable[[str], None]
    ):
        """Takes the name, what writes the rows that are missing, and a log."""
        self._name = name
        self._write_rows = write_rows
        self._warn = warn
        self._pauses = pauses.Pauses()

    def write(self) -> None:
        """Writes, unless it failed a short while ago."""
        if self._pauses.is_due:
            self._attempt()

    def flush(self) -> None:
        """Writes if it failed the last time; says if it fails again."""
        if self._pauses.num_failures:
            self._attempt()
        if self._pauses.num_failures:
            self._warn(f"{self._name}: the last rows are lost")

    def _attempt(self) -> None:
        has_failed = self._pauses.num_failures > 0
        try:
            self._write_rows()
        except (OSError, tf.errors.OpError) as error:
            self._pauses.failed()
            if not has_failed:
                reason = failures.one_line(error)
                self._warn(
                    f"{self._name} cannot be written: {reason}. The rows are in "
                    "memory, and will be written as soon as they can be"
                )
            return
        self._pauses.succeeded()
        if has_failed:
            self._warn(f"{self._name}: all rows are written again")
