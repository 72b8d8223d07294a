"""Directories of SavedModels, checked and described without TensorFlow."""

import dataclasses
import os
from collections.abc import Mapping

from albert_tf.core import console, files, other_formats, provenance, strict_json
from albert_tf.data import schema

# The second is text, the third is of models over 2 GB.
_FILES = ("saved_model.pb", "saved_model.pbtxt", "saved_model.cpb")
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
    """

    name: str
    task: str = ""
    checkpoint: str = ""
    date: str = ""
    versions: Mapping[str, str] = dataclasses.field(default_factory=dict)


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


def is_saved_model(path: str) -> bool:
    """Returns whether the directory `path` holds a SavedModel."""
    return any(files.exists(os.path.join(path, name)) for name in _FILES)


def check(path: str) -> None:
    """Raises ValueError if the directory `path` holds no SavedModel."""
    if is_saved_model(path):
        return
    other_formats.refuse(path)
    rule = f"--saved_model must be a SavedModel; {path}"
    if _is_run(path):
        command = console.command_line(
            "albert_tf.export", f"--model_dir={path}", "--output_dir=saved_model"
        )
        raise ValueError(f"{rule} is the directory of a run. Export it: {command}")
    raise ValueError(f"{rule} holds none. Make one with albert_tf.export")


def _is_run(path: str) -> bool:
    def has(*names: str) -> bool:
        return all(files.exists(os.path.join(path, name)) for name in names)

    return has(schema.SEEDS_FILE) or has(schema.CONFIG_FILE, schema.CHECKPOINT_FILE)
