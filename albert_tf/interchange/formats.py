"""The names of the formats, and the locations of models in them."""

from typing import NamedTuple

from albert_tf.core import checkpoint_prefix, files, other_formats

NATIVE = "run"
READ = (NATIVE, "tf1", "albert_zh", "hf", "keras")
WRITTEN = (NATIVE, "tf1", "hf", "keras")
# What names a model of a format that can be fetched.
DOWNLOADED = {
    "hf": "the name of a model on the Hugging Face Hub, such as albert/albert-base-v2",
    "keras": "the name of a preset of KerasHub, such as albert_base_en_uncased",
    "tf1": "the name or address of an archive of ALBERT's authors, such as "
    "albert_base_v2",
}


class Location(NamedTuple):
    """A model: the name of its format, and a path, or a name to fetch it by."""

    format: str
    path: str

    def __str__(self) -> str:
        return f"{self.format}:{self.path}"


def locate(
    source: str, target: str, is_download: bool = False
) -> tuple[Location, Location]:
    """The model to convert, and the place of the converted model.

    Args:
      source: FORMAT:PATH.
      target: FORMAT:DIRECTORY.
      is_download: whether the path of the source is a name to fetch a model by.

    Raises:
      ValueError: one is not of that form, there is no such path, the model there is of
        another format, the directory is not empty, or there is nothing to convert.
    """
    found = _split(source, "from", READ)
    if is_download:
        _check_download(found)
    elif not _exists(found.path):
        raise ValueError(
            f"--from must name a model; there is no {found.path}"
            f"{_advice(found) or checkpoint_prefix.say_others(found.path)}"
        )
    else:
        other_formats.require(*found)
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


def _exists(path: str) -> bool:
    """Returns whether there is a file, a directory, or a checkpoint of that prefix."""
    if path.startswith("https://"):
        return False
    return files.exists(path) or checkpoint_prefix.exists(path)


def _advice(found: Location) -> str:
    if found.format not in DOWNLOADED or found.path.startswith(("/", ".", "gs://")):
        return ""
    return f". If it is {DOWNLOADED[found.format]}, add --download to fetch it"


def _check_download(found: Location) -> None:
    if found.format not in DOWNLOADED:
        raise ValueError(
            f"--download fetches models of the formats {', '.join(DOWNLOADED)}; "
            f"received --from={found}"
        )
    if _exists(found.path):
        raise ValueError(
            f"with --download, --from must be {DOWNLOADED[found.format]}; {found.path} "
            "is here already. Omit --download to convert it, or give the command in "
            "another directory"
        )


def _split(location: str, flag: str, allowed: tuple[str, ...]) -> Location:
    name, colon, path = location.partition(":")
    if name not in allowed or not colon or not path:
        raise ValueError(
            f"--{flag} must be FORMAT:PATH with one of the formats "
            f"{', '.join(allowed)}, such as hf:albert-base-v2; received {location!r}"
        )
    return Location(name, path)
