"""Models of other libraries, recognized where one of this project is expected."""

import os
import shlex

from albert_tf.core import files, provenance, strict_json

_CONFIG_FILE = "config.json"
_OF_HUGGING_FACE = ("architectures", "model_type", "transformers_version")
_OF_KERAS_HUB = ("class_name", "registered_name")
# The configuration beside checkpoints of TensorFlow 1: of ALBERT's authors, and the
# start of its name in brightmart's albert_zh.
_TF1_CONFIG, _ALBERT_ZH_CONFIG = "albert_config.json", "albert_config_"
_TITLES = {
    "hf": "Hugging Face transformers",
    "keras": "KerasHub",
    "tf1": "ALBERT's authors",
    "albert_zh": "albert_zh",
}


def refuse(path: str) -> None:
    """Raises ValueError for a model that albert_tf.convert must convert first.

    Args:
      path: a directory, or the prefix of a checkpoint in one; there need not be any.
    """
    folder = path.rstrip("/")
    if files.exists(f"{path}.index"):
        folder = os.path.dirname(path) or "."
    name = _format_of(folder)
    if not name:
        return
    run = f"{provenance.name_of(folder)}_run"
    words = ["python", "-m", "albert_tf.convert"]
    command = shlex.join([*words, f"--from={name}:{folder}", f"--to=run:{run}"])
    raise ValueError(
        f"{folder} holds a model of {_TITLES[name]}, which must be converted to a run "
        f"first: {command}. Then give {run}"
    )


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
        return "keras" if any(name in values for name in _OF_KERAS_HUB) else ""
    names = files.names(folder)
    if _TF1_CONFIG in names:
        return "tf1"
    has_any = any(name.startswith(_ALBERT_ZH_CONFIG) for name in names)
    return "albert_zh" if has_any else ""
