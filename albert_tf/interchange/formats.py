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


def locate(source: str, target: str) -> tuple[Location, Location]:
    """The model to convert, and the place of the converted model.

    Args:
      source: FORMAT:PATH.
      target: FORMAT:DIRECTORY.

    Raises:
      ValueError: one is not of that form, there is no such path, the directory is not
        empty, or there is nothing to convert.
    """
    found = _split(source, "from", READ)
    # A checkpoint may be given by its prefix.
    if not files.exists(found.path) and not files.exists(f"{found.path}.index"):
        raise ValueError(f"--from must name a model; there is no {found.path}")
    name, path = _split(target, "to", WRITTEN)
    if found.format == name == NATIVE:
        raise ValueError("--from and --to have the format run: copy the directory")
    folder = path.rstrip("/")
    if not files.is_new_or_empty(folder):
        raise ValueError(
            f"--to must name a new or empty directory; {folder} is not. Remove it or "
            "choose another"
        )
    return found, Location(name, folder)


def _split(location: str, flag: str, allowed: tuple[str, ...]) -> Location:
    name, colon, path = location.partition(":")
    if name not in allowed or not colon or not path:
        raise ValueError(
            f"--{flag} must be FORMAT:PATH with one of the formats "
            f"{', '.join(allowed)}, such as hf:albert-base-v2; received {location!r}"
        )
    return Location(name, path)
