"""SHA-256 of the files of a directory, in the format of `sha256sum --check`.

Models that are exported, or converted to formats without checksums of their own, have
them, and are checked when they are read. Others have none, and are read as they are.
"""

import os
import re

from albert_tf.core import files

FILE = "SHA256SUMS"
# The model card is there to be edited.
_UNCHECKED = ("README.md", FILE)
_MAX_BYTES = 1 << 20
_LINE = re.compile(r"([0-9a-f]{64})  ([^\\\0]+)")


def write(folder: str) -> None:
    """Writes the sums of all files beneath a directory, but that of its model card."""
    lines = [
        f"{files.sha256(os.path.join(folder, path))}  {path}\n"
        for path in _paths(folder)
        if path not in _UNCHECKED
    ]
    files.write_bytes(os.path.join(folder, FILE), "".join(lines).encode())


def check(folder: str) -> None:
    """Checks the files of a directory that has sums.

    Args:
      folder: the directory; there need not be any.

    Raises:
      ValueError: a file is missing or another one, or the sums are no sums; names
        the file.
      OSError: the sums are a link to nothing.
    """
    sums_path = os.path.join(folder, FILE)
    if not files.exists(sums_path) and not os.path.islink(sums_path):
        return
    for path, expected in _read(sums_path).items():
        full = os.path.join(folder, path)
        if not files.exists(full):
            raise ValueError(
                f"{full} is missing, but is listed in {sums_path}. Copy the directory "
                "again"
            )
        if _sum(full) != expected:
            raise ValueError(
                f"{full} is damaged or was replaced: its SHA-256 is not that in "
                f"{sums_path}. Copy the directory again; if you changed the file "
                f"yourself, remove {FILE}"
            )


def _read(sums_path: str) -> dict[str, str]:
    """Returns the sums by path."""
    if files.size(sums_path) > _MAX_BYTES:
        raise ValueError(f"{sums_path} must have at most {_MAX_BYTES:,} bytes")
    found = {}
    if not files.size(sums_path):
        raise ValueError(f"{sums_path} is empty. Copy the directory again")
    lines = files.read_bytes(sums_path).decode(errors="replace").splitlines()
    for number, line in enumerate(lines, 1):
        match = _LINE.fullmatch(line)
        if not match or ".." in match[2].split("/") or match[2].startswith("/"):
            raise ValueError(
                f"{sums_path}, line {number}, must be the SHA-256 and the path of a "
                "file within the directory, as sha256sum writes them. Copy the "
                "directory again"
            )
        found[match[2]] = match[1]
    return found


def _sum(path: str) -> str:
    try:
        return files.sha256(path)
    except OSError as error:  # a directory, or a file that may not be read
        raise ValueError(f"{path} cannot be read: {error.strerror}") from error


def _paths(folder: str, below: str = "") -> list[str]:
    """Returns the paths of all files, relative to the directory."""
    found = []
    for name in files.names(os.path.join(folder, below) if below else folder):
        path = f"{below}/{name}" if below else name
        is_folder = files.is_folder(os.path.join(folder, path))
        found += _paths(folder, path) if is_folder else [path]
    return found
