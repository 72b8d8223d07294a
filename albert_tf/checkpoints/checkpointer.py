"""Checkpoints of a run: written while it trains, and restored strictly."""

import contextlib
import glob
import os
import re
import shutil
import threading
from collections.abc import Callable, Collection, Mapping

import tensorflow as tf

from albert_tf.checkpoints import checkpoint_files
from albert_tf.core import config as config_lib
from albert_tf.core import failures, files, progress_bar, short_repr, strict_json
from albert_tf.data import schema

BEST_FILE = "best_checkpoint.json"
# The parts of a checkpoint that hold weights; the second is of the same tree of names.
MODEL, AVERAGE = "model", "average"
# A part of runs that compute in float16.
LOSS_SCALE = "loss_scale"
# Which setting makes a part.
_SETTINGS = {
    AVERAGE: "an average of the weights, which this run would lose: pass the "
    "train.ema_decay of that run",
    LOSS_SCALE: "a loss scale, which this run would lose: pass "
    "train.compute_dtype=float16",
}
_NAME = checkpoint_files.NAME
_PREFIX = re.compile(r".*-(\d{1,18})", re.DOTALL)
# Of the file that names checkpoints: some ten thousand of them.
_MAX_LIST_BYTES = 1 << 20


class Checkpointer:
    """Saves and restores the parts of a run in `model_dir`.

    A thread writes a checkpoint from copies of the variables while training continues.
    A checkpoint counts once it is complete: then the file `checkpoint`, which names the
    newest, is replaced, and older checkpoints are removed except the last `keep` and
    the best. After a failure everything is as before the save, which may be repeated:
    what was written of it is removed.

    Attributes:
      best: `step` and `metric` of the best checkpoint, or None.
      check_held: called, perhaps by a thread, before a complete checkpoint counts; does
        not return if another run has taken the directory.
      lacking: the optional parts that the checkpoint which was restored did not have.
    """

    def __init__(
        self,
        model_dir: str,
        keep: int,
        parts: Mapping[str, object],
        is_chief: bool,
        optional: Collection[str] = (),
    ):
        """Prepares to save and restore.

        Args:
          model_dir: the run's directory.
          keep: how many of the last checkpoints to keep.
          parts: trackable objects by their names in the checkpoint.
          is_chief: whether this process writes.
          optional: names of parts that a checkpoint to restore may lack; they then
            keep their values.
        """
        self._model_dir = model_dir
        self._keep = keep
        self._parts, self._optional = dict(parts), optional
        self._checkpoint = _make_checkpoint(parts)
        self.lacking: list[str] = []
        self._is_chief = is_chief
        self._paths, self._lost = _existing(model_dir)
        self._begun: str | None = None
        self._writer: threading.Thread | None = None
        self._is_published = False
        self._failure: Exception | None = None
        self.check_held: Callable[[], None] = lambda: None
        self.best = read_best(model_dir)
        self._best_before = self.best
        self._is_best_written = True

    def restore(
        self, use_previous: bool = False, first_step: int = 0
    ) -> tuple[int | None, list[str]]:
        """Restores the newest checkpoint.

        It is the one that the file `checkpoint` names. If that file is lost, it is the
        newest one that is whole.

        Args:
          use_previous: whether to take an older one if the newest is damaged.
          first_step: the step at which a new run begins; a first save of it that was
            interrupted is not missed.

        Returns:
          Its step, or None if the directory has none; and lines about a lost file
          `checkpoint`, checkpoints that were skipped, and a lost best checkpoint.

        Raises:
          ValueError: the checkpoint is damaged or of another model; or all are, or only
            parts of some are there.
        """
        notes = []
        if self._lost and self._paths:
            notes.append(f"{self._lost}: resuming from the newest whole checkpoint")
        skipped: list[str] = []
        while self._paths:
            path = self._paths[-1]
            try:
                self.read(path)
                step = step_of(path)
                return step, [*notes, *skipped, *self._check_best(step)]
            except ValueError as error:
                # If no file says which were complete, the last may be part of a save.
                if not (use_previous or self._lost):
                    raise ValueError(f"{error}{self._offer()}") from error
                skipped.append(str(error))
            self._paths.pop()
        if skipped:
            raise ValueError(f"all checkpoints are damaged: {skipped[-1]}")
        self._check_new(first_step)
        return None, []

    def read(self, path: str, leaves_settings: bool = False) -> list[str]:
        """Restores the parts from a checkpoint, which may be another run's.

        Args:
          path: of the checkpoint.
          leaves_settings: whether to leave out what other settings need, the average of
            the weights or the loss scale, if it is missing here.

        Returns:
          The names of these parts.

        Raises:
          ValueError: it is damaged or of another model, or has parts that are missing
            here.
        """
        with _named_errors(path):
            found = _part_names(path)
        left = [name for name in _SETTINGS if name in found and name not in self._parts]
        if left and not leaves_settings:
            raise ValueError(f"the checkpoint {path} has {_SETTINGS[left[0]]}")
        self.lacking = [name for name in self._optional if name not in found]
        checkpoint = self._checkpoint
        if self.lacking:
            checkpoint = _make_checkpoint(
                {k: part for k, part in self._parts.items() if k not in self.lacking}
            )
        with _named_errors(path):
            status = checkpoint.read(path)
            if left:
                status.assert_existing_objects_matched()
            else:
                status.assert_consumed()
        return left

    def _check_best(self, step: int) -> list[str]:
        """Forgets a best checkpoint that is not there; returns a line about a loss."""
        best = self.best
        if best is None or self._path_of(best["step"]) in self._paths:
            return []
        self.best = None
        if best["step"] > step:
            return []  # skipped, or never completed: the run evaluates it again
        return [
            f"{self._path(BEST_FILE)} names step {best['step']}, whose checkpoint is "
            "lost: the best one is chosen among those from now on"
        ]

    def _check_new(self, first_step: int) -> None:
        """Raises ValueError if a new run would overwrite what is left of another."""
        remedy = (
            "Copy the run again if a copy was interrupted; else give another "
            "--model_dir, or remove these files"
        )
        # A first save that was interrupted has nothing that is not made again.
        begun = {*checkpoint_files.begun_steps(self._model_dir)}
        if begun - {first_step}:
            raise ValueError(
                f"{self._path(_NAME)}-* are parts of checkpoints, none of which is "
                f"whole. {remedy}"
            )
        if files.exists(self._path(schema.CHECKPOINT_FILE)):
            raise ValueError(f"{self._lost}, and there is no checkpoint. {remedy}")

    def _offer(self) -> str:
        if len(self._paths) < 2:
            return ""
        return (
            f". The one before it is {self._paths[-2]}: --use_previous_checkpoint "
            "resumes from it"
        )

    def save(self, step: int, metric: float | None = None, wait: bool = False) -> None:
        """Starts to save under `step`, once the previous checkpoint is written.

        Args:
          step: the present step.
          metric: the metric of this checkpoint, if it is the best so far.
          wait: whether to return only once the checkpoint is complete.

        Raises:
          OSError: the previous checkpoint, or with `wait` this one, could not be
            written.
        """
        if self._is_chief:
            self.wait()
        self._best_before = self.best
        if metric is not None:
            # Every process of a run must know it.
            self.best, self._is_best_written = {"step": step, "metric": metric}, False
        if not self._is_chief:
            return
        self._begun, self._is_published, self._failure = (
            self._path_of(step),
            False,
            None,
        )
        options = tf.train.CheckpointOptions(
            enable_async=not wait, experimental_write_callbacks=[self._publish]
        )
        if wait:
            try:
                self._checkpoint.write(self._begun, options)
            except (OSError, tf.errors.OpError) as error:
                self._failure = error
            self.check()
        else:
            self._checkpoint.write(self._begun, options)
            # TensorFlow's thread says nothing when it ends; this one ends with it.
            self._writer = threading.Thread(target=self._checkpoint.sync, daemon=True)
            self._writer.start()

    @property
    def is_writing(self) -> bool:
        """Whether a thread is writing a checkpoint."""
        return self._writer is not None and self._writer.is_alive()

    def check(self) -> bool:
        """Returns, once for each save, whether its checkpoint is complete by now.

        Raises:
          OSError: it could not be written. Raised once.
        """
        if self._begun is None or self.is_writing:
            return False
        path, was_async = self._begun, self._writer is not None
        self._begun = self._writer = None
        if self._is_published:
            return True
        self.best, self._is_best_written = self._best_before, False
        if self._failure is None and was_async:
            self._failure = self._take_error(path)
        if path not in self._paths and not failures.is_outage(self._failure):
            self.check_held()  # or these may be another run's files
            # What cannot be removed now is removed after the next save.
            with contextlib.suppress(OSError, tf.errors.OpError):
                self._remove(lambda step: self._path_of(step) == path)
        raise OSError(
            f"the checkpoint {path} could not be written: {self._reason(self._failure)}"
        ) from self._failure

    def _reason(self, error: Exception | None) -> str:
        """Says why a checkpoint could not be written."""
        if not failures.is_full_disk(error) or files.is_remote(self._model_dir):
            return str(error)
        free = shutil.disk_usage(self._model_dir).free
        said = (
            f"no space is left on the disk of {self._model_dir}. It has {free:,} bytes "
            "free; free some space"
        )
        if not self._paths:
            return said
        needed = sum(map(files.size, files.glob(f"{glob.escape(self._paths[-1])}.*")))
        return f"{said}, since a checkpoint takes {needed:,} bytes"

    def wait(self) -> bool:
        """Waits until the checkpoint that was started is written.

        Returns and raises as `check`.
        """
        if self._writer is not None:
            self._writer.join()
        return self.check()

    def mark_best(self, step: int, metric: float) -> None:
        """Marks the checkpoint of `step`, which is written, as the best so far.

        Raises:
          OSError: the mark could not be written; the next save writes it.
        """
        if self._is_chief:
            self.wait()
        self.best, self._is_best_written = {"step": step, "metric": metric}, False
        if not self._is_chief:
            return
        try:
            self._write_best()
        except (OSError, tf.errors.OpError) as error:
            raise OSError(
                f"the best checkpoint could not be marked: {error}"
            ) from error

    def save_copy(self, folder: str, step: int, metric: float | None = None) -> None:
        """Saves to another directory.

        Its files, copied to the run's directory, are the run's newest checkpoint.

        Args:
          folder: a directory that exists.
          step: the present step.
          metric: as `save` takes it.

        Raises:
          OSError: a file cannot be written.
          tf.errors.OpError: likewise.
        """
        path = path_of_step(folder, step)
        self._checkpoint.write(path)
        best = self.best if metric is None else {"step": step, "metric": metric}
        if best is not None:
            files.write_json(os.path.join(folder, BEST_FILE), best)
        _write_list(folder, [*self._paths, path])

    def _take_error(self, path: str) -> Exception | None:
        """Returns the error of the asynchronous write that has ended without success.

        TensorFlow raises it at the next write, which it does not start.
        """
        try:
            self._checkpoint.write(path, tf.train.CheckpointOptions(enable_async=True))
        except (OSError, tf.errors.OpError) as error:
            return error
        raise RuntimeError("TensorFlow did not say why a checkpoint was not written")

    def _publish(self, path: str) -> None:
        """Makes a complete checkpoint the newest, and removes those not to be kept.

        Called by the thread that wrote it, which would keep an error for the next save.
        """
        self.check_held()
        try:
            if not self._is_best_written:
                self._write_best()
            paths = [known for known in self._paths if known != path] + [path]
            kept = paths[-self._keep :]
            if self.best:
                best_path = self._path_of(self.best["step"])
                kept = [known for known in paths if known in kept or known == best_path]
            _write_list(self._model_dir, kept)
        except (OSError, tf.errors.OpError) as error:
            self._failure = error
            return
        self._paths, self._is_published = kept, True
        # A file that cannot be removed now is removed after the next save.
        with contextlib.suppress(OSError, tf.errors.OpError):
            self._remove_older(step_of(path))

    def _remove_older(self, newest: int) -> None:
        """Removes checkpoints not to be kept, and parts left by a killed process.

        Later ones stay: they are damaged ones that were skipped.
        """
        kept = {step_of(path) for path in self._paths}
        self._remove(lambda step: step not in kept and step < newest)

    def _remove(self, is_stale: Callable[[int], bool]) -> None:
        """Removes all files of some checkpoints, whole or not, by their steps."""
        found = checkpoint_files.group(tf.io.gfile.listdir(self._model_dir))
        for name in (name for step in found if is_stale(step) for name in found[step]):
            is_folder = name.rstrip("/").endswith(checkpoint_files.TEMPORARY)
            remove = tf.io.gfile.rmtree if is_folder else tf.io.gfile.remove
            remove(self._path(name))

    def _write_best(self) -> None:
        path = self._path(BEST_FILE)
        if self.best is not None:
            files.write_json(path, self.best)
        elif files.exists(path):  # of a checkpoint that was not completed
            files.remove(path)
        self._is_best_written = True

    def _path_of(self, step: int) -> str:
        return path_of_step(self._model_dir, step)

    def _path(self, name: str) -> str:
        return os.path.join(self._model_dir, name)


def _existing(model_dir: str) -> tuple[list[str], str]:
    """Finds the checkpoints of a directory.

    Returns:
      Paths, the newest last: that of the file `checkpoint`, after those of earlier
      steps that are whole. If that file is lost, all that are whole, and what happened
      to it; else "".
    """
    whole = checkpoint_files.whole_steps(model_dir)
    newest, lost = _named_newest(model_dir)
    if newest is not None:
        whole = [step for step in whole if step < step_of(newest)]
    paths = [path_of_step(model_dir, step) for step in whole]
    return [*paths, newest] if newest is not None else paths, lost


def _named_newest(model_dir: str) -> tuple[str | None, str]:
    """Returns the checkpoint that the file `checkpoint` names, or what is wrong."""
    path = os.path.join(model_dir, schema.CHECKPOINT_FILE)
    if not files.exists(path):
        return None, f"{path}, which names the newest checkpoint, is missing"
    # TensorFlow would return None if the storage cannot be reached.
    try:
        content = files.read_bytes(path, _MAX_LIST_BYTES)
        # TensorFlow would print the whole of another content.
        is_list = content.lstrip().startswith(b"model_checkpoint_path:")
        state = tf.train.get_checkpoint_state(model_dir) if is_list else None
    except ValueError:  # it is empty or huge
        state = None
    # A damaged one may name anything.
    if state is None or not _PREFIX.fullmatch(state.model_checkpoint_path):
        return None, f"{path}, which names the newest checkpoint, cannot be read"
    return state.model_checkpoint_path, ""


def _write_list(folder: str, paths: list[str]) -> None:
    """Writes the file that names checkpoints, the newest last.

    It is read by tf.train.latest_checkpoint. The names in it are relative, so that the
    directory may move.
    """
    names = [os.path.basename(path) for path in paths]
    lines = [f'model_checkpoint_path: "{names[-1]}"']
    lines += [f'all_model_checkpoint_paths: "{name}"' for name in names]
    text = "".join(f"{line}\n" for line in lines)
    files.write_bytes(os.path.join(folder, schema.CHECKPOINT_FILE), text.encode())


def read_best(model_dir: str) -> dict | None:
    """Returns `step` and `metric` of the best checkpoint, or None."""
    path = os.path.join(model_dir, BEST_FILE)
    if not files.exists(path):
        return None
    try:
        best = strict_json.load_object(path, lenient=True)  # the metric may be NaN
    except ValueError as error:
        raise ValueError(
            f"{error}. Copy it again; or remove it, and the best checkpoint is chosen "
            "among those from now on"
        ) from error
    step, metric = best.get("step"), best.get("metric")
    # True is an integer too.
    is_step = type(step) is int and 0 <= step < 1 << 63
    if not is_step or type(metric) not in (int, float):
        raise ValueError(
            f"{path} must name the step of the best checkpoint and its metric; "
            f"received {short_repr.shown(best)}"
        )
    return {"step": step, "metric": metric}


def is_unreachable(error: Exception) -> bool:
    """Returns whether an error says nothing about the file that was to be read."""
    is_denied = isinstance(error, tf.errors.PermissionDeniedError)
    return is_denied or failures.is_outage(error)


def step_of(path: str) -> int:
    """Returns the step of a checkpoint, the end of its prefix.

    Raises:
      ValueError: the prefix does not end in one.
    """
    match = _PREFIX.fullmatch(path)
    if match is None:
        raise ValueError(
            "the prefix of a checkpoint must end in its step, as in "
            f"RUN/model.ckpt-500; received {path}"
        )
    return int(match[1])


def best_path(model_dir: str) -> str | None:
    """Returns the prefix of the best checkpoint of a run, or None."""
    best = read_best(model_dir)
    return None if best is None else path_of_step(model_dir, best["step"])


def path_of_step(model_dir: str, step: int) -> str:
    """Returns the prefix of the checkpoint of a step, which need not exist."""
    return os.path.join(model_dir, f"{_NAME}-{step}")


def newest_path(model_dir: str) -> str:
    """Returns the prefix of the newest checkpoint of a directory.

    Raises:
      ValueError: there is none.
    """
    paths, lost = _existing(model_dir)
    if not paths:
        raise ValueError(
            f"--model_dir must hold a checkpoint; {model_dir} has none. Train one "
            "with albert_tf.pretrain, or albert_tf.finetune"
        )
    if lost:
        progress_bar.say(f"warning: {lost}; {paths[-1]} is taken")
    return paths[-1]


def restore_parts(
    path: str, weights: str = config_lib.WEIGHTS[0], **parts: object
) -> None:
    """Restores parts of a checkpoint by their names in it, and nothing else.

    Args:
      path: the prefix of the checkpoint.
      weights: as in `weights_part`, for the part `model`.
      **parts: trackable objects by their names in the checkpoint.

    Raises:
      ValueError: the checkpoint is damaged, or a part does not fit.
    """
    if MODEL in parts:
        parts[weights_part(path, weights)] = parts.pop(MODEL)
    checkpoint = tf.train.Checkpoint(**parts)
    with _named_errors(path):
        status = checkpoint.read(path)
        status.assert_existing_objects_matched()
        status.expect_partial()


def weights_part(path: str, weights: str = config_lib.WEIGHTS[0]) -> str:
    """Returns the name of the part of a checkpoint to read weights from.

    Everything that reads weights calls this.

    Args:
      path: the prefix of the checkpoint.
      weights: "averaged" for the average of the weights if the checkpoint has it
        (`train.ema_decay`), and else the trained ones; or "trained".

    Raises:
      ValueError: the checkpoint is damaged.
    """
    is_averaged = weights == "averaged" and has_part(path, AVERAGE)
    return AVERAGE if is_averaged else MODEL


def has_part(path: str, name: str) -> bool:
    """Returns whether a checkpoint has a part.

    Raises:
      ValueError: it is damaged.
    """
    with _named_errors(path):
        return name in _part_names(path)


def _part_names(path: str) -> set[str]:
    names = tf.train.load_checkpoint(path).get_variable_to_shape_map()
    return {name.partition("/")[0] for name in names}


def _make_checkpoint(parts: Mapping[str, object]) -> tf.train.Checkpoint:
    checkpoint = tf.train.Checkpoint(**parts)
    # TensorFlow creates this counter when it saves; created now, so that all
    # checkpoints have it.
    checkpoint.save_counter  # noqa: B018 (reading it makes it)
    return checkpoint


@contextlib.contextmanager
def _named_errors(path: str):
    """Raises TensorFlow's errors for a checkpoint that does not fit as one line."""
    try:
        yield
    except (AssertionError, ValueError, IndexError, tf.errors.OpError) as error:
        if is_unreachable(error):
            raise
        reason = str(error).strip().split("\n")[0]
        raise ValueError(
            f"the checkpoint {path} cannot be restored into this model: {reason}. It "
            "is damaged or of another configuration; give another --model_dir, or the "
            "configuration in its config.json"
        ) from error
