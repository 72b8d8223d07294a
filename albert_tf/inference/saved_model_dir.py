"""Directories of SavedModels, checked and described without TensorFlow."""

import dataclasses
import os
import re
from collections.abc import Mapping

from albert_tf.core import config as config_lib
from albert_tf.core import (
    config_io,
    console,
    files,
    other_formats,
    provenance,
    strict_json,
)
from albert_tf.data import schema

# Where a SavedModel keeps files that its graph does not read.
EXTRA = "assets.extra"
# There: a `Description`.
DESCRIPTION_FILE = "export.json"


@dataclasses.dataclass(frozen=True)
class Description:
    """What an exported model is.

    Attributes:
      name: of the run.
      task: its title, such as "MRPC"; "pre-training" without a task.
      checkpoint: the name of the exported one.
      date: of the export.
      versions: that exported it, by package.
      is_fixed_length: whether all texts are padded to its longest.
    """

    name: str
    task: str = ""
    checkpoint: str = ""
    date: str = ""
    versions: Mapping[str, str] = dataclasses.field(default_factory=dict)
    is_fixed_length: bool = False


def describe(path: str) -> Description:
    """Returns the description of a model; the directory's name alone if it has none.

    Args:
      path: the directory of the SavedModel.

    Raises:
      ValueError: the description is damaged; names the file.
    """
    description_path = os.path.join(path, EXTRA, DESCRIPTION_FILE)
    if not files.exists(description_path):
        return Description(provenance.name_of(path))
    return strict_json.load_as(description_path, Description)


def write_description(path: str, description: Description) -> None:
    """Writes what `describe` returns into the directory `path`."""
    folder = os.path.join(path, EXTRA)
    files.make_folder(folder)
    values = dataclasses.asdict(description)
    files.write_json(os.path.join(folder, DESCRIPTION_FILE), values)


def read_config(path: str) -> config_lib.Config | None:
    """Returns the configuration of an exported model; None if it has none with it.

    Args:
      path: the directory of the SavedModel.

    Raises:
      ValueError: the configuration is damaged.
    """
    config_path = os.path.join(path, EXTRA, schema.CONFIG_FILE)
    return config_io.read(config_path) if files.exists(config_path) else None


def takes_pairs(path: str) -> bool:
    """Returns whether a model was trained on a table of one's own with pairs of texts.

    Models of GLUE's tasks of pairs also answer a single text.

    Args:
      path: the directory of the SavedModel.

    Raises:
      ValueError: its configuration is damaged.
    """
    config = read_config(path)
    return bool(config and config.task.name and config.task.pair_column)


def is_saved_model(path: str) -> bool:
    """Returns whether the directory `path` holds a SavedModel."""
    names = other_formats.SAVED_MODEL_FILES
    return any(files.exists(os.path.join(path, name)) for name in names)


def check(path: str) -> None:
    """Raises ValueError if the directory `path` holds no SavedModel.

    The error says what it holds instead, if that is known, and how to get a SavedModel.
    """
    if is_saved_model(path):
        return
    other_formats.refuse(path)
    rule = "--saved_model must be a SavedModel"
    if not files.is_folder(path):
        raise ValueError(f"{rule}; there is no directory {path}")
    if files.exists(os.path.join(path, other_formats.LITE_FILE)):
        raise ValueError(
            f"{rule}; {path} is an export for TensorFlow Lite, which this command does "
            "not take. Export the run again without --form=lite"
        )
    if version := _newest_version(path):
        newest = os.path.join(path, version)
        raise ValueError(f"{rule}; {path} holds version {version}. Give {newest}")
    is_run = _is_run(path)
    command = console.command_line(
        "albert_tf.export",
        f"--model_dir={path if is_run else 'RUN'}",
        "--output_dir=saved_model",
    )
    if is_run:
        raise ValueError(
            f"{rule}; {path} is the directory of a run. Export it: {command}"
        )
    raise ValueError(f"{rule}; {path} holds none. Export one from a run: {command}")


def _newest_version(path: str) -> str:
    """Returns the name of the newest version of a model; empty if there is none."""
    names = (name for name in files.names(path) if re.fullmatch("[0-9]{1,18}", name))
    versions = [name for name in names if is_saved_model(os.path.join(path, name))]
    return max(versions, key=int, default="")


def _is_run(path: str) -> bool:
    def has(*names: str) -> bool:
        return all(files.exists(os.path.join(path, name)) for name in names)

    return has(schema.SEEDS_FILE) or has(schema.CONFIG_FILE, schema.CHECKPOINT_FILE)
