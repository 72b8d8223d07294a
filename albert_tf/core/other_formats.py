"""Formats of models, recognized by their files where another format is expected."""

import os
import shlex

from albert_tf.core import checkpoint_prefix, console, files, provenance, strict_json

_CONFIG_FILE = "config.json"
_OF_HUGGING_FACE = ("architectures", "model_type", "transformers_version")
_OF_KERAS_HUB = ("class_name", "registered_name")
_OF_RUN = ("model", "optimizer", "train")
_SEEDS_FILE = "seeds.json"  # of a run with several seeds
# The configuration beside checkpoints of TensorFlow 1: of ALBERT's authors, and the
# start of its name in brightmart's albert_zh.
_TF1_CONFIG, _ALBERT_ZH_CONFIG = "albert_config.json", "albert_config_"
_TITLES = {
    "hf": "Hugging Face transformers",
    "keras": "KerasHub",
    "tf1": "ALBERT's authors",
    "albert_zh": "albert_zh",
}
# Files of exported models. The second is text, the third is of models over 2 GB.
SAVED_MODEL_FILES = ("saved_model.pb", "saved_model.pbtxt", "saved_model.cpb")
LITE_FILE = "model.tflite"
# Their names of variables tell them apart, not their files.
_OF_TF1 = ("tf1", "albert_zh")


def refuse(path: str) -> None:
    """Raises ValueError for a model that albert_tf.convert must convert first.

    Args:
      path: a directory, or the prefix of a checkpoint in one; there need not be any.
    """
    folder = _folder_of(path)
    name = _format_of(folder)
    if name not in _TITLES:
        return
    run = f"{provenance.name_of(folder)}_run"
    words = f"--from={name}:{folder}", f"--to=run:{run}"
    command = console.command_line("albert_tf.convert", *words)
    raise ValueError(
        f"{folder} holds a model of {_TITLES[name]}, which must be converted to a run "
        f"first: {command}. Then give {run}"
    )


def refuse_exported(path: str) -> None:
    """Raises ValueError for a model of albert_tf.export, where a run is expected.

    Args:
      path: a directory; there need not be any.
    """
    folder = path.rstrip("/")
    names = (*SAVED_MODEL_FILES, LITE_FILE)
    if any(files.exists(os.path.join(folder, name)) for name in names):
        raise ValueError(
            f"{folder} is an exported model; give the directory of the run that it was "
            "made from"
        )


def require(name: str, path: str) -> None:
    """Raises ValueError for a model of another format than the user named.

    For the format run, an exported model is of another one.

    Args:
      name: of the format, one of albert_tf.convert.
      path: a directory, or the prefix of a checkpoint in one.
    """
    folder = _folder_of(path)
    if name == "run":
        refuse_exported(folder)
    found = _format_of(folder)
    is_of_tf1 = found in _OF_TF1
    if found in ("", name) or (is_of_tf1 and name in _OF_TF1):
        return
    has_checkpoint = any(file.endswith(".index") for file in files.names(folder))
    # A model of another library may lie beside a checkpoint of TensorFlow 1, and the
    # configuration alone makes none.
    if (has_checkpoint and name in _OF_TF1 and found != "run") or (
        is_of_tf1 and not has_checkpoint
    ):
        return
    what = f"a model of {_TITLES[found]}" if found in _TITLES else "a run"
    place = path if is_of_tf1 else folder
    raise ValueError(
        f"--from has the format {name}, and {folder} looks like {what}: pass "
        + shlex.join([f"--from={found}:{place}"])
    )


def _folder_of(path: str) -> str:
    """Returns the directory of a model, which may be given by a checkpoint's prefix."""
    if checkpoint_prefix.exists(path):
        return os.path.dirname(path) or "."
    return path.rstrip("/")


def _format_of(folder: str) -> str:
    """Returns the name of a format of albert_tf.convert; empty if none is known."""
    path = os.path.join(folder, _CONFIG_FILE)
    if files.exists(path):
        try:
            values = strict_json.load_object(path, lenient=True)
        except ValueError:
            return ""  # who reads it says what is wrong
        if any(name in values for name in _OF_HUGGING_FACE):
            return "hf"
        if any(name in values for name in _OF_KERAS_HUB):
            return "keras"
        return "run" if all(name in values for name in _OF_RUN) else ""
    names = files.names(folder)
    if _SEEDS_FILE in names:
        return "run"
    if _TF1_CONFIG in names:
        return "tf1"
    has_any = any(name.startswith(_ALBERT_ZH_CONFIG) for name in names)
    return "albert_zh" if has_any else ""
