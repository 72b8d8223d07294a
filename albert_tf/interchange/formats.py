"""The names of the formats, and the locations of models in them."""

from typing import NamedTuple

from albert_tf.core import files

NATIVE = "run"
READ = (NATIVE, "tf1", "albert_zh", "hf", "keras")
WRITTEN = (NATIVE, "tf1", "hf", "keras")


class Location(NamedTuple):
    """A model: the name of its format, and a path."""

    format: str
    path: str


def locate_source(location: str) -> Location:
    """The model to convert.

    Args:
      location: FORMAT:PATH.

    Raises:
      ValueError: it is not of that form, or there is no such path.
    """
    found = _split(location, "from", READ)
    # A checkpoint may be given by its prefix.
    if not files.exists(found.path) and not files.exists(f"{found.path}.index"):
        raise ValueError(f"--from must name a model; there is no {found.path}")
    return found


def locate_target(location: str) -> Location:
    """The place of the converted model.

    Args:
      location: FORMAT:DIRECTORY.

    Raises:
      ValueError: it is not of that form, or the directory is not empty.
    """
    name, path = _split(location, "to", WRITTEN)
    folder = path.rstrip("/")
    if not files.is_new_or_empty(folder):
        raise ValueError(
            f"--to must name a new or empty directory; {folder} is not. Remove it or "
            "choose another"
        )
    return Location(name, folder)


def _split(location: str, flag: str, allowed: tuple[str, ...]) -> Location:
    name, colon, path = location.partition(":")
    if name not in allowed or not colon or not path:
        raise ValueError(
            f"--{flag} must be FORMAT:PATH with one of the formats "
            f"{', '.join(allowed)}, such as hf:albert-base-v2; received {location!r}"
        )
    return Location(name, path)
