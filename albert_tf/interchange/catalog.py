"""The formats by name."""

from collections.abc import Callable
from typing import NamedTuple

from albert_tf.interchange import (
    albert_zh,
    hugging_face,
    keras_hub,
    ours,
    portable,
    tables,
    tf1,
)

Reader = Callable[
    [str, portable.ReadOptions, tables.Report], portable.Portable
]
Writer = Callable[[portable.Portable, str, tables.Report], None]
# The one format whose writer takes a recipe besides: `ours.write`.
OURS = "run"


class Format(NamedTuple):
    """How a format is read and written; None where it is not."""

    read: Reader
    write: Writer | None


FORMATS: dict[str, Format] = {
    OURS: Format(ours.read, None),
    "tf1": Format(tf1.read, tf1.write),
    "albert_zh": Format(albert_zh.read, None),
    "hf": Format(hugging_face.read, hugging_face.write),
    "keras": Format(keras_hub.read, keras_hub.write),
}
WRITTEN = (OURS, *(name for name, format_ in FORMATS.items() if format_.write))


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
