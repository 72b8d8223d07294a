"""Format of an exported train step: a directory of a program and its description.

The program is the text of a StableHLO module whose function `main` takes one step. No
TensorFlow is needed to read it.
"""

import dataclasses
import json
import os
from collections.abc import Mapping
from typing import Any

from albert_tf.core import files, short_repr, strict_json

PROGRAM_FILE = "step.mlir"
DESCRIPTION_FILE = "step.json"
_FORMAT_VERSION = 1
# The output that is the loss of a step, and the one that is 1 if a step was skipped.
LOSS, IS_BAD = "loss", "is_bad"


@dataclasses.dataclass(frozen=True)
class Argument:
    """An argument of `main`: a feature of the batch, a scalar, or a variable.

    name: of the feature, or of the variable in a checkpoint.
    dtype: a NumPy name.
    shape: of the array.
    fill: the value of all elements at the start, or None if they are drawn.
    stddev: that of the truncated normal distribution of a variable that is drawn; None
      for a feature, whose name says what it holds (`albert_tf.data.schema`).
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    fill: float | None = None
    stddev: float | None = None

    @property
    def is_feature(self) -> bool:
        """Whether it is a part of the batch."""
        return self.fill is None and self.stddev is None


@dataclasses.dataclass(frozen=True)
class Output:
    """An output of `main`: a scalar of the step, or the new value of a variable.

    name: of the scalar, or of the variable.
    dtype: a NumPy name.
    shape: of the array.
    argument: the index of the argument that is this output in the next step; None for
      a scalar.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    argument: int | None = None


@dataclasses.dataclass(frozen=True)
class ExportedStep:
    """Description of an exported step.

    config: the recipe, as nested values.
    num_tokens: of a batch, with padding.
    model_flops: of the matrix products of a step, without what is recomputed, the
      optimizer and elementwise operations (`albert_tf.model.costs`).
    arguments: those of `main`, in order.
    outputs: those of `main`, in order.
    """

    config: Mapping[str, Mapping[str, Any]]
    num_tokens: int
    model_flops: int
    arguments: tuple[Argument, ...]
    outputs: tuple[Output, ...]

    def output_index(self, name: str) -> int:
        """Returns the index of an output."""
        return [output.name for output in self.outputs].index(name)


def write(folder: str, step: ExportedStep, program: str) -> None:
    """Writes program and description; makes the directory if there is none."""
    files.make_folder(folder)
    values = {"format_version": _FORMAT_VERSION, **dataclasses.asdict(step)}
    text = json.dumps(values, indent=1, allow_nan=False) + "\n"
    files.write_bytes(os.path.join(folder, PROGRAM_FILE), program.encode())
    files.write_bytes(os.path.join(folder, DESCRIPTION_FILE), text.encode())


def read(folder: str) -> tuple[ExportedStep, str]:
    """Reads description and program.

    Raises:
      ValueError: there is no exported step, it is damaged, or of another format
        version.
    """
    paths = [os.path.join(folder, name) for name in (DESCRIPTION_FILE, PROGRAM_FILE)]
    missing = [path for path in paths if not files.exists(path)]
    if missing:
        raise ValueError(
            "an exported step must be a directory that --export_step wrote; there is "
            f"no {missing[0]}"
        )
    description_path, program_path = paths
    values = strict_json.load_object(description_path)
    version = values.pop("format_version", None)
    if version != _FORMAT_VERSION:
        raise ValueError(
            f"{description_path} must have format_version {_FORMAT_VERSION}; received "
            f"{short_repr.shown(version)}. Export the step again"
        )
    step = strict_json.as_type(values, description_path, ExportedStep)
    try:
        return step, files.read_bytes(program_path).decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"{program_path} must be UTF-8: {error}") from error
