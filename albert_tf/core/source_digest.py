"""Digest of the code of a module and of every project module that it imports.

It identifies the code that decides a result, so that unfinished work of other code is
not continued. Imports say what takes part, so no list of files has to be kept.
Comments, docstrings and layout are not part of it.
"""

import ast
import hashlib
import pathlib
from collections.abc import Collection, Iterator

_ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
_WITH_DOCSTRING = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def imports_digest(
    path: str, root: pathlib.Path = _ROOT, omit: Collection[str] = ()
) -> str:
    """Returns the SHA-256 of the code of a module and of all that it imports.

    Args:
      path: the module's `__file__`.
      root: the directory that holds the project's packages.
      omit: paths below `root` of files that do not count.
    """
    digest = hashlib.sha256()
    for name, tree in sorted(imported_code(path, root).items()):
        if name not in omit:
            digest.update(f"{name}\n{_describe(tree)}\n".encode())
    return digest.hexdigest()


def imported_code(path: str, root: pathlib.Path = _ROOT) -> dict[str, ast.Module]:
    """Returns the code of a module and of all project files that it imports.

    Args:
      path: the module's `__file__`.
      root: the directory that holds the project's packages.

    Returns:
      By path below `root`.
    """
    root = root.resolve()
    trees: dict[str, ast.Module] = {}
    to_read = [pathlib.Path(path).resolve()]
    while to_read:
        source = to_read.pop()
        name = source.relative_to(root).as_posix()
        if name not in trees:
            trees[name] = ast.parse(source.read_bytes())
            to_read += _imports(trees[name], root)
    return trees


def _imports(tree: ast.Module, root: pathlib.Path) -> Iterator[pathlib.Path]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            names.append(f"{node.module}")  # `from module import name`
        else:
            continue
        for name in names:
            file = root.joinpath(*name.split(".")).with_suffix(".py")
            if file.is_file():
                yield file


def _describe(tree: ast.Module) -> str:
    """Returns a text that changes with the code and with nothing else."""
    for node in ast.walk(tree):
        if isinstance(node, _WITH_DOCSTRING) and ast.get_docstring(node, clean=False):
            del node.body[0]
    return ast.dump(tree)
