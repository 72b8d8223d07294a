"""Branches: runs that continue another run, from one of its checkpoints, elsewhere.

A branch begins with the weights, the optimizer's slots, the step and the state of the
loop of the other run, which is only read. The file branch.json says where it began.
"""

import dataclasses
import os
from collections.abc import Sequence

from albert_tf.checkpoints import checkpoint_files, checkpointer, run_dir, warm_start
from albert_tf.core import config as config_lib
from albert_tf.core import config_io, files, strict_json
from albert_tf.data import schema
from albert_tf.data import sources as sources_lib

FILE = "branch.json"
# Settings of the model that leave its variables, and what they mean, as they are.
_FREE_OF_MODEL = ("hidden_dropout_rate", "attention_dropout_rate", "initializer_range")


@dataclasses.dataclass(frozen=True)
class Branch:
    """Where a run began.

    Attributes:
      path: the prefix of the other run's checkpoint.
      step: its step.
      records_begin_at: the step at which the records are read from their beginning:
        this step, or that of the other run, whose reading continues.
    """

    path: str
    step: int
    records_begin_at: int

    @property
    def restarts_records(self) -> bool:
        """Whether the records are read from their beginning where the run begins."""
        return self.records_begin_at == self.step


def find(
    branch_from: str,
    config: config_lib.Config,
    vocab: bytes,
    run: Sequence[sources_lib.StageRecords],
    model_dir: str,
) -> tuple[Branch | None, list[str]]:
    """Returns where a run began or is to begin, if it is a branch.

    Args:
      branch_from: run or checkpoint that a new run continues; empty for none. What the
        directory says about a run that has begun counts instead.
      config: of the run.
      vocab: of its records.
      run: its stages and their records.
      model_dir: its directory, which need not exist.

    Returns:
      The branch or None, and lines for the log.

    Raises:
      ValueError: the checkpoint is absent or does not fit the settings or records, or
        `model_dir` holds a run that began otherwise.
    """
    path = os.path.join(model_dir, FILE)
    if files.exists(path):
        branch = _read(path)
        return branch, [f"this run continues {branch.path}, in a branch of its own"]
    if not branch_from:
        return None, []
    if checkpoint_files.begun_steps(model_dir):
        raise ValueError(
            f"--branch_from begins a new run, and {model_dir} holds one that began "
            "otherwise. Give another --model_dir, or omit --branch_from to resume it"
        )
    return _plan(branch_from, config, vocab, run)


def write(branch: Branch, model_dir: str) -> None:
    """Writes branch.json; call it before anything else of the run is written.

    Raises:
      OSError: a local file cannot be written.
      tf.errors.OpError: a remote one cannot.
    """
    files.make_folder(model_dir)
    files.write_json(os.path.join(model_dir, FILE), dataclasses.asdict(branch))


def _read(path: str) -> Branch:
    try:
        return strict_json.load_as(path, Branch)
    except ValueError as error:
        raise ValueError(
            "the file must say where a branch began, as albert_tf.pretrain writes it: "
            f"{error}. Copy it again"
        ) from error


def _plan(
    branch_from: str,
    config: config_lib.Config,
    vocab: bytes,
    run: Sequence[sources_lib.StageRecords],
) -> tuple[Branch, list[str]]:
    path = warm_start.checkpoint_path(branch_from, "--branch_from")
    found = {
        name: warm_start.find_beside(path, name)
        for name in (schema.CONFIG_FILE, schema.VOCAB_FILE, FILE)
    }
    config_path, vocab_path = found[schema.CONFIG_FILE], found[schema.VOCAB_FILE]
    if config_path is None or vocab_path is None:
        raise ValueError(
            f"--branch_from must be of a run with {schema.CONFIG_FILE} and "
            f"{schema.VOCAB_FILE} beside its checkpoints; received {path}. Copy them "
            "there, or give its weights as --init_checkpoint"
        )
    if files.read_bytes(vocab_path) != vocab:
        raise ValueError(
            f"a branch must have the vocabulary of its run, {vocab_path}; the records "
            "have another. Make the records with that one, or give the run as "
            "--init_checkpoint, which matches pieces by their text"
        )
    before = config_io.read(config_path)
    changes = _changes(before, config)
    step = checkpointer.step_of(path)
    manifests = run_dir.read_manifests(os.path.dirname(config_path))
    is_same = all(
        manifests.get(source.name) == run_dir.read_manifests(source.data_dir)[""]
        for records in run
        for source in records.sources
        if records.stage.first_step < max(step, 1)
    )
    differing = run_dir.order_changes(before, config, step)
    if is_same and not differing:
        reading = "from the position of this step, as there"
        before_that = found[FILE]
        begin_at = _read(before_that).records_begin_at if before_that else 0
    else:
        reason = ", ".join(differing) if is_same else "they are not those of that run"
        reading, begin_at = f"from their beginning: {reason}", step
    path = path if files.is_remote(path) else os.path.abspath(path)
    lines = [
        f"branch: weights, optimizer, step {step} and state of the loop are those of "
        f"{path}",
        f"branch: records are read {reading}",
    ]
    if changes:
        lines.append(f"branch: other settings: {', '.join(changes)}")
    return Branch(path, step, begin_at), lines


def _changes(before: config_lib.Config, config: config_lib.Config) -> list[str]:
    """Returns the settings that differ, each as "SETTING was OLD and is NEW".

    Raises:
      ValueError: one of the model does, whose weights then mean something else.
    """
    old, new = (config_io.to_dict(value) for value in (before, config))
    told: list[str] = []
    refused: list[str] = []
    for section in ("model", "data", "optimizer", "train"):
        for name, value in old[section].items():
            if value == new[section][name]:
                continue
            is_fixed = section == "model" and name not in _FREE_OF_MODEL
            change = f"{section}.{name} was {value} and is {new[section][name]}"
            (refused if is_fixed else told).append(change)
    if refused:
        raise ValueError(
            f"a branch must have the model of its run: {', '.join(refused)}. Give "
            "those settings, or give the run as --init_checkpoint"
        )
    return told
