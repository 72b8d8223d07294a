"""Digest of a module's source and of every project module that it imports.

It identifies the code that decides a result, so that unfinished work of other code is
not continued. Imports say what takes part, so no list of files has to be kept.
"""

import ast
import hashlib
import pathlib
from collections.abc import Collection, Iterator

_ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def imports_digest(
    path: str, root: pathlib.Path = _ROOT, omit: Collection[str] = ()
) -> str:
    """Returns the SHA-256 of a module's file and of all that it imports of the project.

    Args:
      path: the module's `__file__`.
      root: the directory that holds the project's packages.
      omit: paths below `root` of files that do not count.
    """
    digest = hashlib.sha256()
    root = root.resolve()
    for source in _imported_files(pathlib.Path(path).resolve(), root):
        name = source.relative_to(root).as_posix()
        if name not in omit:
            digest.update(f"{name}\n".encode())
            digest.update(source.read_bytes())
    return digest.hexdigest()


def _imported_files(path: pathlib.Path, root: pathlib.Path) -> list[pathlib.Path]:
    """Returns the file and all project files that it imports, sorted."""
    found: set[pathlib.Path] = set()
    to_read = [path]
    while to_read:
        source = to_read.pop()
        if source not in found:
            found.add(source)
            to_read += _imports(source, root)
    return sorted(found)


def _imports(source: pathlib.Path, root: pathlib.Path) -> Iterator[pathlib.Path]:
    for node in ast.walk(ast.parse(source.read_bytes())):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            file = root.joinpath(*name.split(".")).with_suffix(".py")
            if file.is_file():
                yield file
