"""Licences of all packages that are pulled in, those of optional tools too, as a table.

    python -m tests.repository.licences     # or: make licences

They are read from the metadata of the packages: in this environment, and in those that
`make docs`, `make test-interop` and `albert_tf.plan --install_tools` have made in
`build`. A package that is in none of them is listed as not installed.
"""

import pathlib
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
    """Returns the names of the packages of the product and its tests."""
    return _names(project_files.ROOT / "constraints.txt")


def locked() -> list[str]:
    """Returns the names of all packages in any lock file, sorted."""
    paths = (project_files.ROOT / ".ci" / "locks").glob("*.txt")
    return sorted({name for path in paths for name in _names(path)} | {*pinned()})


def _names(path: pathlib.Path) -> list[str]:
    return re.findall(r"^([\w.-]+)==", path.read_text(), re.M)


def elsewhere() -> dict[str, metadata.Distribution]:
    """Returns the packages in the environments beneath `build`, by normalized name."""
    found = {}
    for folder in (project_files.ROOT / "build").glob("**/lib/python3*/site-packages"):
        for one in metadata.distributions(path=[str(folder)]):
            found[_normalized(one.metadata["Name"])] = one
    return found


def _normalized(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def licence_of(package: str, found: metadata.PackageMetadata | None = None) -> str:
    """Returns the licence of a package; empty if nothing says it.

    Args:
      package: its name.
      found: its metadata; by default that in this environment.
    """
    found = found or metadata.metadata(package)
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


def _row(name: str, others: dict[str, metadata.Distribution]) -> list[str]:
    if is_installed(name):
        return [name, metadata.version(name), licence_of(name)]
    if other := others.get(_normalized(name)):
        return [name, other.version, licence_of(name, other.metadata)]
    return [name, "", "not installed"]


def main() -> None:
    """Prints the table."""
    others = elsewhere()
    rows = [_row(name, others) for name in locked()]
    table = text_table.align([["package", "version", "licence"], *rows])
    print("\n".join(table))


if __name__ == "__main__":
    main()
