"""The run directory of fine-tuning: configuration, vocabulary and task."""

import dataclasses
import glob
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from albert_tf.checkpoints import run_dir as pretraining_run_dir
from albert_tf.checkpoints import run_vocab
from albert_tf.core import config as config_lib
from albert_tf.core import config_io, files, short_repr, strict_json
from albert_tf.data import schema
from albert_tf.model import task_model
from albert_tf.tasks import base, registry
from albert_tf.tokenization import tokenizer as tokenizer_lib

TASK_FILE = "task.json"
# The settings that may change when a run is resumed.
_CHANGEABLE = (
    "test_file",
    # Which examples train and select is compared by their digests.
    "on_bad_example",
    # A converted run may have "auto".
    "hyperparameters",
    "given_settings",
    "steps_per_loop",
    "save_every_steps",
    "keep_checkpoints",
    "eval_batch_size",
    "stall_seconds",
    "hang_seconds",
    "save_retry_seconds",
    "max_skipped_steps",
    "on_no_progress",
)


def check(
    config: config_lib.Config, vocab: bytes, init_checkpoint: str, model_dir: str
) -> None:
    """Compares a run with the run that its directory already contains, if any.

    Args:
      config: of the run that starts or resumes.
      vocab: of the run in `init_checkpoint`.
      init_checkpoint: the prefix of the checkpoint to start from.
      model_dir: the directory, which need not exist.

    Raises:
      ValueError: it contains another run, or one whose configuration is lost.
    """
    if not files.exists(os.path.join(model_dir, schema.CONFIG_FILE)):
        pretraining_run_dir.check_unused(model_dir)
        return
    if not files.exists(os.path.join(model_dir, TASK_FILE)):
        raise ValueError(
            f"{model_dir} contains a run of pre-training; pass another --model_dir"
        )
    before, now = (
        config_io.to_dict(config_io.read(os.path.join(model_dir, schema.CONFIG_FILE))),
        config_io.to_dict(config),
    )
    changes = [
        f"{section}.{name} was {before[section][name]!r} and is {value!r}"
        for section, values in now.items()
        for name, value in values.items()
        if before[section][name] != value and name not in _CHANGEABLE
    ]
    if files.read_bytes(os.path.join(model_dir, schema.VOCAB_FILE)) != vocab:
        changes.append("the vocabulary differs")
    before_path = read_task(model_dir)["init_checkpoint"]
    if os.path.dirname(before_path) != os.path.dirname(_absolute(init_checkpoint)):
        changes.append(f"--init_checkpoint was {before_path} and is {init_checkpoint}")
    _refuse(model_dir, changes)


def read_config(folders: Iterable[str]) -> config_lib.Config | None:
    """Reads the config.json of the first run of fine-tuning, if there is one."""
    for folder in folders:
        paths = [os.path.join(folder, n) for n in (TASK_FILE, schema.CONFIG_FILE)]
        if all(map(files.exists, paths)):
            return config_io.read(paths[1])
    return None


def check_seeds(model_dir: str, folders: Iterable[str]) -> None:
    """Checks that a directory has no runs of other seeds, whose summary would be lost.

    Args:
      model_dir: the directory, which need not exist.
      folders: the names of the seeds' directories in it; [""] for a single run.

    Raises:
      ValueError: it has.
    """
    escaped = model_dir if files.is_remote(model_dir) else glob.escape(model_dir)
    paths = files.glob(os.path.join(escaped, "seed-*", schema.CONFIG_FILE))
    found = {os.path.basename(os.path.dirname(path)) for path in paths}
    if files.exists(os.path.join(model_dir, schema.CONFIG_FILE)):
        found.add("")
    if others := sorted(found - set(folders)):
        runs = ", ".join(others) if all(others) else "a run of one seed"
        raise ValueError(
            f"{model_dir} contains {runs}, which this command does not resume. Pass "
            "another --model_dir; or, to add seeds, the same first seed and a larger "
            "--seeds"
        )


def check_data(
    task: base.Task, train_digest: str, selection_digest: str, model_dir: str
) -> None:
    """Compares the data with that of the run in the directory, if any.

    Args:
      task: with its labels.
      train_digest: `features.digest` of the training split.
      selection_digest: `examples.digest` of the examples that select the checkpoint.
        A run of an earlier version has none, and is not compared.
      model_dir: the run directory.

    Raises:
      ValueError: they differ.
    """
    if not files.exists(os.path.join(model_dir, schema.CONFIG_FILE)):
        return
    before, changes = read_task(model_dir), []
    if before["labels"] != list(task.labels):
        changes.append(f"labels were {before['labels']} and are {list(task.labels)}")
    if before["train_digest"] != train_digest:
        changes.append("the training examples differ")
    if before["selection_digest"] not in ("", selection_digest):
        # Else the best of scores on different examples would be kept.
        changes.append("the examples that select the checkpoint differ")
    _refuse(model_dir, changes)


def _refuse(model_dir: str, changes: list[str]) -> None:
    if changes:
        raise ValueError(
            f"{model_dir} contains a run with other settings: {', '.join(changes)}. "
            "Pass another --model_dir, or the settings of that run"
        )


def _absolute(path: str) -> str:
    return path if files.is_remote(path) else os.path.abspath(path)


def write(
    config: config_lib.Config,
    vocab: bytes,
    task: base.Task,
    init_checkpoint: str,
    train_digest: str,
    model_dir: str,
    selection_digest: str = "",
) -> None:
    """Creates `model_dir` with configuration, vocabulary and task.

    Args:
      config: of the run.
      vocab: its SentencePiece model.
      task: with its labels.
      init_checkpoint: the prefix of the checkpoint to start from.
      train_digest: as for `check_data`.
      model_dir: the directory, which may contain this run already.
      selection_digest: as for `check_data`; empty for a run that was not trained here.

    Raises:
      ValueError: it cannot be written.
    """
    # A resumed run is calibrated again only at its end, and the checkpoint that it
    # started from may no longer be the newest.
    kept = {
        "init_checkpoint": _absolute(init_checkpoint),
        "calibration": {},
        "selection_digest": selection_digest,
    }
    if files.exists(os.path.join(model_dir, schema.CONFIG_FILE)):
        before = read_task(model_dir)
        kept = {name: before[name] for name in kept}
    described = {
        "name": task.settings.name,
        "kind": task.kind,
        "labels": list(task.labels),
        "head_settings": task.head_settings(),
        "train_digest": train_digest,
        **kept,
    }
    try:
        files.make_folder(model_dir)
        run_vocab.write(model_dir, vocab)
        _write_task(model_dir, described)
        # Last: if it exists, so do the others.
        files.write_bytes(
            os.path.join(model_dir, schema.CONFIG_FILE),
            config_io.to_json(config).encode(),
        )
    except (OSError, tf.errors.OpError) as error:
        raise ValueError(
            f"--model_dir must be a directory that can be written: {error}"
        ) from error


def add_calibration(model_dir: str, values: Mapping[str, float]) -> None:
    """Adds the result of `Task.calibrate` to task.json."""
    described = {**read_task(model_dir), "calibration": dict(values)}
    _write_task(model_dir, described)


def _write_task(model_dir: str, described: Mapping[str, Any]) -> None:
    values = dict(described)
    if not values["selection_digest"]:
        # A run of an earlier version keeps its file, as models exported from it do.
        del values["selection_digest"]
    files.write_json(os.path.join(model_dir, TASK_FILE), values)


def copy(model_dir: str, folder: str) -> None:
    """Creates a directory for more results of a run, with the files of `write`."""
    files.make_folder(folder)
    names = (schema.VOCAB_FILE, run_vocab.SUM_FILE, TASK_FILE, schema.CONFIG_FILE)
    for name in names:
        if files.exists(source := os.path.join(model_dir, name)):
            files.copy(source, os.path.join(folder, name))


def read_task(model_dir: str) -> dict[str, Any]:
    """Reads task.json, from `write` and `add_calibration`.

    Raises:
      ValueError: it is not the directory of a fine-tuning run, or the file is damaged.
    """
    path = os.path.join(model_dir, TASK_FILE)
    try:
        task = strict_json.load(path, lenient=True)
    except (OSError, tf.errors.OpError) as error:
        raise ValueError(
            "the directory must be of one run of albert_tf.finetune, which writes "
            f"{os.path.basename(path)}; {path} cannot be read"
        ) from error
    rules = {
        "name": lambda name: isinstance(name, str),
        "kind": lambda kind: kind in list(task_model.HEADS),
        "labels": lambda labels: (
            isinstance(labels, list) and all(isinstance(name, str) for name in labels)
        ),
        "head_settings": _holds_numbers,
        "train_digest": lambda digest: isinstance(digest, str),
        "selection_digest": lambda digest: isinstance(digest, str),
        "init_checkpoint": lambda prefix: isinstance(prefix, str),
        "calibration": _holds_numbers,
    }
    if isinstance(task, dict):
        # Only a run that resumes needs these.
        absent = ("train_digest", "selection_digest", "init_checkpoint")
        task = {**dict.fromkeys(absent, ""), **task}
    for name, holds in rules.items():
        if not isinstance(task, dict) or name not in task or not holds(task[name]):
            raise ValueError(
                f"{path} must hold {name} as albert_tf.finetune writes it; received "
                f"{short_repr.shown(task)}. Copy it again, or fine-tune again"
            )
    return task


def _holds_numbers(values: Any) -> bool:
    return isinstance(values, dict) and all(
        type(value) in (int, float) for value in values.values()
    )


@dataclasses.dataclass(frozen=True)
class FineTunedRun:
    """A fine-tuning run without its weights.

    Attributes:
      config: of the run.
      task: with its labels.
      tokenizer: of the model.
    """

    config: config_lib.Config
    task: base.Task
    tokenizer: tokenizer_lib.Tokenizer

    def build_model(self, compute) -> task_model.TaskModel:
        """Builds the model with random weights; takes a `compute.Compute`."""
        return task_model.build_task_model(
            self.config.model,
            self.task.kind,
            self.config.train.seed,
            compute,
            **self.task.head_settings(),
        )


def read(model_dir: str, overrides: Sequence[str] = ()) -> FineTunedRun:
    """Reads the directory of a fine-tuning run.

    Args:
      model_dir: the directory.
      overrides: as `config_io.check_data_settings` takes them.

    Raises:
      ValueError: it is not the directory of a fine-tuning run, or a file is damaged.
    """
    described = read_task(model_dir)
    config = config_io.read(os.path.join(model_dir, schema.CONFIG_FILE))
    config = config_io.override(config, overrides)
    run_vocab.check(model_dir)
    tokenizer = tokenizer_lib.Tokenizer.from_file(
        os.path.join(model_dir, schema.VOCAB_FILE), config.data.lower_case
    )
    task = registry.create(config.task, described["labels"])
    task.use_calibration(described["calibration"])
    return FineTunedRun(config, task, tokenizer)
