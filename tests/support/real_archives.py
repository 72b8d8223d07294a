"""Archives of real tasks and probes, unpacked for a test."""

import pathlib
import tarfile


def unpack(path: pathlib.Path, folder: pathlib.Path, prefix: str = "") -> None:
    """Unpacks the members of an archive whose names begin with a prefix."""
    with tarfile.open(path) as archive:
        # Python 3.11 has filters since 3.11.4.
        archive.extraction_filter = getattr(tarfile, "data_filter", None)
        members = [m for m in archive if m.name.startswith(prefix)]
        archive.extractall(folder, members)
