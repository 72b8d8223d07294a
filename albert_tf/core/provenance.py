"""Dates and versions with which a run or an exported model was made."""

import dataclasses
import datetime
import importlib
import importlib.metadata
import os
import platform
from collections.abc import Mapping

from albert_tf.core import files, strict_json

# In the directory of a run: its starts, a JSON array.
FILE = "provenance.json"
# Packages whose versions change results, by the name that is shown.
_PACKAGES = {
    "TensorFlow": ("tensorflow", "tensorflow-tpu", "tensorflow-cpu"),
    "tf-keras": ("tf-keras",),
    "NumPy": ("numpy",),
    "SentencePiece": ("sentencepiece",),
}


@dataclasses.dataclass(frozen=True)
class Provenance:
    """When something was made, and with what.

    Attributes:
      date: such as "2026-11-23 17:46 UTC".
      versions: of albert_tf, Python and the packages that compute, by name.
      step: the step at which a process of a run began.
    """

    date: str
    versions: Mapping[str, str]
    step: int = 0

    @property
    def versions_line(self) -> str:
        """The versions, such as "albert_tf 0.1.0, Python 3.12.3"."""
        return ", ".join(f"{name} {value}" for name, value in self.versions.items())


def now(step: int = 0) -> Provenance:
    """Returns the present time and the installed versions."""
    # By its name: the package names the modules of its API, which rank above this one.
    package = importlib.import_module("albert_tf")
    versions = {
        "albert_tf": package.__version__,
        "Python": platform.python_version(),
    }
    for shown, names in _PACKAGES.items():
        found = filter(None, map(_version, names))
        if version := next(found, ""):
            versions[shown] = version
    time = datetime.datetime.now(datetime.UTC)
    return Provenance(f"{time:%Y-%m-%d %H:%M} UTC", versions, step)


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""


def name_of(folder: str) -> str:
    """Returns the name of a run or model: the last part of its directory's path."""
    path = folder if files.is_remote(folder) else os.path.abspath(folder)
    return os.path.basename(path.rstrip("/"))


def record_start(model_dir: str, step: int) -> None:
    """Adds a start of this process to those of a run.

    Args:
      model_dir: the directory of the run.
      step: where it starts.

    Raises:
      ValueError: the file of the earlier starts is damaged; names it.
    """
    starts = [*read_starts(model_dir), now(step)]
    files.make_folder(model_dir)
    values = list(map(dataclasses.asdict, starts))
    files.write_json(os.path.join(model_dir, FILE), values)


def read_starts(model_dir: str) -> tuple[Provenance, ...]:
    """Returns the starts of a run; none if it is of a version that kept no record.

    Raises:
      ValueError: the file is damaged; names it.
    """
    path = os.path.join(model_dir, FILE)
    if not files.exists(path):
        return ()
    return strict_json.as_type(strict_json.load(path), path, tuple[Provenance, ...])
