"""The formats by name."""

from collections.abc import Callable

from albert_tf import config as config_lib
from albert_tf.interchange import (
    albert_zh,
    hugging_face,
    keras_hub,
    ours,
    portable,
    tables,
    tf1,
)

Reader = Callable[[str, portable.ReadOptions, tables.Report], portable.Portable]
Writer = Callable[[portable.Portable, str, tables.Report], None]

OURS = "run"
READERS: dict[str, Reader] = {
    OURS: ours.read,
    "tf1": tf1.read,
    "albert_zh": albert_zh.read,
    "hf": hugging_face.read,
    "keras": keras_hub.read,
}
# Besides our own, which takes a recipe too.
_WRITERS: dict[str, Writer] = {
    "tf1": tf1.write,
    "hf": hugging_face.write,
    "keras": keras_hub.write,
}
WRITTEN = (OURS, *_WRITERS)


def write(
    name: str,
    model: portable.Portable,
    folder: str,
    recipe: config_lib.Config,
    report: tables.Report,
) -> None:
    """Writes a model in one of the formats `WRITTEN`.

    Args:
      name: the format's.
      model: what to write.
      folder: an empty one.
      recipe: gives a run the settings that the model does not.
      report: is told what went where, and what has no counterpart.

    Raises:
      ValueError: the format has no such model.
    """
    if name == OURS:
        ours.write(model, folder, recipe, report)
    else:
        _WRITERS[name](model, folder, report)


def locate(location: str, flag: str, allowed: tuple[str, ...]) -> tuple[str, str]:
    """Divides FORMAT:PATH.

    Args:
      location: what the user gave.
      flag: the flag's name, for errors.
      allowed: the formats that may stand there.

    Raises:
      ValueError: it is something else.
    """
    name, colon, path = location.partition(":")
    if name not in allowed or not colon or not path:
        raise ValueError(
            f"--{flag} must be FORMAT:PATH with one of the formats "
            f"{', '.join(allowed)}, such as hf:albert-base-v2; received {location!r}"
        )
    return name, path
