"""The directory of a run: configuration, vocabulary and manifest."""

import hashlib
import io
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from albert_tf.checkpoints import checkpoint_files, untrained
from albert_tf.core import config as config_lib
from albert_tf.core import config_io, files, strict_json
from albert_tf.core import stages as stages_lib
from albert_tf.data import schema
from albert_tf.data import sources as sources_lib
from albert_tf.devices import strategies

# The position in the data follows from these and the step.
_OF_DATA_ORDER = ("batch_size", "seed", "shuffle_buffer")


def check(
    config: config_lib.Config,
    run: Sequence[sources_lib.StageRecords],
    model_dir: str,
) -> list[str]:
    """Compares a run with the run that its directory already holds.

    Args:
      config: of the run that starts or resumes.
      run: its stages and their records.
      model_dir: the directory, which need not exist.

    Returns:
      Lines about differences that are allowed.

    Raises:
      ValueError: it holds a run of another model, vocabulary or order of the data, or
        one whose configuration is lost.
    """
    notes: list[str] = []
    if files.exists(os.path.join(model_dir, checkpoint_files.AVERAGE_FILE)):
        raise ValueError(
            f"{model_dir} holds an average of checkpoints, which is not a run that can "
            "be resumed. Give another --model_dir, and this one as --init_checkpoint"
        )
    sources = sources_lib.distinct(run)
    vocab = read_vocab(sources[0])
    config_path = os.path.join(model_dir, schema.CONFIG_FILE)
    if files.exists(config_path):
        before = config_io.read(config_path)
        notes += _compare_settings(before, config, model_dir)
    else:
        check_unused(model_dir)
    vocab_path = os.path.join(model_dir, schema.VOCAB_FILE)
    if files.exists(vocab_path) and files.read_bytes(vocab_path) != vocab:
        raise ValueError(
            f"{model_dir} holds a run whose vocabulary is not that of the records in "
            f"{sources[0].data_dir}. Give another --model_dir, or the records of that "
            "run"
        )
    manifests = read_manifests(model_dir)
    for source in sources:
        manifest = read_manifests(source.data_dir)[""]
        if manifests.get(source.name, manifest) != manifest:
            notes.append(
                f"the records in {source.data_dir} are not those of the run so far: "
                "from now on these are read, from the position of the step"
            )
    return notes


def read_manifests(folder: str) -> dict[str, dict[str, Any]]:
    """Returns the manifests of a run by the names of its records; {} without any.

    Those of a directory of records, too: its own has the name "".
    """
    manifests = {}
    path = os.path.join(folder, schema.MANIFEST_FILE)
    if files.exists(path):
        manifests[""] = strict_json.load_object(path)
    path = os.path.join(folder, schema.MANIFESTS_FILE)
    if files.exists(path):
        manifests |= strict_json.as_type(
            strict_json.load(path), path, Mapping[str, Mapping[str, Any]]
        )
    return manifests


def check_unused(model_dir: str) -> None:
    """Raises ValueError if a directory without config.json has checkpoints.

    Whether they are of the run that would resume from them cannot be known.
    """
    if checkpoint_files.begun_steps(model_dir):
        raise ValueError(
            f"{model_dir} has checkpoints, but the {schema.CONFIG_FILE} of their run "
            "is missing. Copy it there, or give another --model_dir"
        )


def write(
    config: config_lib.Config,
    run: Sequence[sources_lib.StageRecords],
    model_dir: str,
) -> None:
    """Writes configuration, vocabulary and manifests to `model_dir`.

    Raises:
      ValueError: it cannot be written.
    """
    sources = sources_lib.distinct(run)
    vocab = read_vocab(sources[0])
    manifests = {s.name: read_manifests(s.data_dir)[""] for s in sources}
    path = os.path.join(sources[0].data_dir, schema.MANIFEST_FILE)
    manifest_file, text = schema.MANIFEST_FILE, files.read_bytes(path)
    if set(manifests) != {""}:
        manifest_file = schema.MANIFESTS_FILE
        text = (json.dumps(manifests, indent=2) + "\n").encode()
    try:
        files.make_folder(model_dir)
        for name, content in (
            (schema.CONFIG_FILE, config_io.to_json(config).encode()),
            (schema.VOCAB_FILE, vocab),
            (manifest_file, text),
        ):
            files.write_bytes(os.path.join(model_dir, name), content)
        untrained.forget(model_dir)
    except (OSError, tf.errors.OpError) as error:
        raise ValueError(
            f"--model_dir must be a writable directory: {error}"
        ) from error


def _compare_settings(before, config: config_lib.Config, model_dir: str) -> list[str]:
    """Refuses settings that make it another run; returns the other differences."""
    fixed: dict[str, tuple[str, ...] | None] = {
        "model": None,
        "optimizer": None,
        **_of_order(config),
    }
    refused, told = [], []
    for section, names in fixed.items():
        old = config_io.to_dict(before)[section]
        new = config_io.to_dict(config)[section]
        for name in old:
            if old[name] == new[name]:
                continue
            change = f"{section}.{name} was {old[name]} and is {new[name]}"
            if names is None or name in names:
                refused.append(change)
            elif section == "train":
                told.append(f"{change} from now on")
    step = max(checkpoint_files.begun_steps(model_dir), default=0)
    refused += _compare_stages(before, config, step)
    if refused:
        raise ValueError(
            f"{model_dir} holds a run with other settings: {', '.join(refused)}. Give "
            "another --model_dir (and this one as --init_checkpoint, to start with its "
            "weights, or as --branch_from, to continue it there), or the settings of "
            "that run"
        )
    return told


def order_changes(
    before: config_lib.Config, config: config_lib.Config, step: int
) -> list[str]:
    """Returns the differing settings that the order of records and masks follows from.

    Each as "SETTING was OLD and is NEW".

    Args:
      before: of a run.
      config: of a run that continues it.
      step: where it does.
    """
    old, new = (config_io.to_dict(value) for value in (before, config))
    return _compare_stages(before, config, step) + [
        f"{section}.{name} was {old[section][name]} and is {new[section][name]}"
        for section, names in _of_order(config).items()
        for name in names
        if old[section][name] != new[section][name]
    ]


def _of_order(config: config_lib.Config) -> dict[str, tuple[str, ...]]:
    of_masks = schema.MASK_SETTINGS if config.data.masking == "dynamic" else ()
    return {"train": _OF_DATA_ORDER, "data": ("pack_sequences", *of_masks)}


def _compare_stages(
    before: config_lib.Config, config: config_lib.Config, step: int
) -> list[str]:
    """Returns the changes to stages that a run has begun at a step.

    What has not begun may change, and so may the end of the present stage.
    """
    if not (before.train.stages or config.train.stages):
        return []
    old, new = (_begun_stages(one, step) for one in (before, config))
    if old == new:
        return []
    return [f"up to step {step}, train.stages were {old} and are {new}"]


def _begun_stages(config: config_lib.Config, step: int) -> list[dict[str, Any]]:
    """Returns what batches and rates of a run up to a step follow from."""
    of_data = schema.MASK_SETTINGS if config.data.masking == "dynamic" else ()
    return [
        {
            "steps": min(stage.last_step, step) - stage.first_step,
            "batch_size": stage.config.train.batch_size,
            "max_seq_length": stage.config.data.max_seq_length,
            "pack_sequences": stage.config.data.pack_sequences,
            **{name: getattr(stage.config.data, name) for name in of_data},
            "learning_rate_factor": stage.learning_rate_factor,
        }
        for stage in stages_lib.split(config)
        if stage.first_step < max(step, 1)
    ]


def read_vocab(source: sources_lib.Source) -> bytes:
    """Returns the vocabulary beside records, checked against their manifest.

    Raises:
      ValueError: it is missing, or another one.
    """
    path = os.path.join(source.data_dir, schema.VOCAB_FILE)
    if not files.exists(path):
        raise ValueError(
            f"records must have their vocabulary beside them; there is no {path}. Copy "
            "it there, or make the records again"
        )
    vocab = files.read_bytes(path)
    if hashlib.sha256(vocab).hexdigest() != source.manifest.vocab_sha256:
        raise ValueError(
            f"{path} is not the vocabulary that the records were made with: its "
            "sha256 is not that of the manifest. Put that one back, or make the "
            "records again"
        )
    return vocab


def keep_batch(strategy, batch, model_dir: str, step: int) -> str:
    """Writes this process's part of a batch as .npz; returns its path."""
    parts = strategies.local_values(strategy, batch)
    arrays = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    content = io.BytesIO()
    np.savez(content, allow_pickle=False, **arrays)
    suffix = strategies.worker_suffix(strategy)
    path = os.path.join(model_dir, f"bad_batch-{step}{suffix}.npz")
    files.write_bytes(path, content.getvalue())
    return path
