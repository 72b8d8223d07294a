"""Directories of SavedModels, checked without TensorFlow."""

import os

from albert_tf.core import files

# The second is text, the third is of models over 2 GB.
_FILES = ("saved_model.pb", "saved_model.pbtxt", "saved_model.cpb")
# Where a SavedModel keeps files that its graph does not read.
EXTRA = "assets.extra"


def is_saved_model(path: str) -> bool:
    """Returns whether the directory `path` holds a SavedModel."""
    return any(files.exists(os.path.join(path, name)) for name in _FILES)


def check(path: str) -> None:
    """Raises ValueError if the directory `path` holds no SavedModel."""
    if not is_saved_model(path):
        raise ValueError(
            f"--saved_model must be a SavedModel; {path} holds none. Make one with "
            "albert_tf.export"
        )
