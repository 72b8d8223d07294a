"""Licences of all packages that the product and its tests pull in, as a table.

    python -m tests.repository.licences     # or: make licences

They are read from the metadata of the packages in this environment.
"""

import re
from importlib import metadata

from albert_tf.core import text_table
from tests.repository import project_files

# Packages whose metadata names none; read in the files of their sources.
_KNOWN = {"namex": "Apache-2.0", "sentencepiece": "Apache-2.0"}
# What may be used beside a program under Apache-2.0, as metadata spells it.
_PERMISSIVE = re.compile(
    r"0BSD|Apache|Artistic|BSD|CC0|CNRI|HPND|ISC|MIT|PSF|Python Software Foundation|"
    r"Unlicense|Zlib|public domain",
    re.IGNORECASE,
)
# The files of such a package stay under its licence; programs that use them need not.
_OF_FILES = re.compile(r"MPL|Mozilla")


def pinned() -> list[str]:
    """Returns the names of all pinned packages."""
    text = (project_files.ROOT / "constraints.txt").read_text()
    return re.findall(r"^([\w.-]+)==", text, re.M)


def licence_of(package: str) -> str:
    """Returns the licence of an installed package; empty if nothing says it."""
    found = metadata.metadata(package)
    classifiers = [
        one.rpartition(" :: ")[2]
        for one in found.get_all("Classifier") or []
        if one.startswith("License ::")
    ]
    return (
        found.get("License-Expression")
        or "; ".join(classifiers)
        or (found.get("License") or "").partition("\n")[0].strip()
        or _KNOWN.get(package, "")
    )


def is_acceptable(licence: str) -> bool:
    """Returns whether each part of a licence lets the product be used freely."""
    parts = re.split(r"\s+(?:AND|OR|WITH)\s+|;\s*", licence)
    return all(
        _PERMISSIVE.search(part) or _OF_FILES.search(part) or "exception" in part
        for part in parts
    )


def is_installed(package: str) -> bool:
    """Returns whether this environment has the package."""
    try:
        metadata.version(package)
    except metadata.PackageNotFoundError:
        return False
    return True


def main() -> None:
    """Prints the table."""
    rows = [["package", "version", "licence"]]
    rows += [
        [name, metadata.version(name), licence_of(name)]
        for name in pinned()
        if is_installed(name)
    ]
    print("\n".join(text_table.align(rows)))


if __name__ == "__main__":
    main()
