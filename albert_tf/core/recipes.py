"""The recipes of this project: in configs/ of a clone, or in the installed package."""

import os
import pathlib

_PACKAGE = pathlib.Path(__file__).resolve().parents[1]
# An installed package has them as albert_tf/recipes.
_FOLDERS = (_PACKAGE / "recipes", _PACKAGE.parent / "configs")
FOLDER = str(next((path for path in _FOLDERS if path.is_dir()), _FOLDERS[-1]))


def path_of(name: str) -> str:
    """Returns the path of one of the recipes, such as "small"."""
    return os.path.join(FOLDER, f"{name}.py")


def names(folder: str = FOLDER) -> list[str]:
    """Returns the names of all recipes, in alphabetical order."""
    if not os.path.isdir(folder):
        return []
    files = [os.path.splitext(name) for name in os.listdir(folder)]
    return sorted(stem for stem, end in files if end == ".py" and stem[0] != "_")


def find(path: str, recipes_dir: str = FOLDER) -> str:
    """Returns the path of a recipe that is given by path or by name.

    Args:
      path: that of a file; or "small" or "configs/small.py" for one of this project,
        from any directory.
      recipes_dir: the directory of the project's recipes.

    Returns:
      A path; that given if there is no such recipe.
    """
    folder, file = os.path.split(path)
    stem, end = os.path.splitext(file)
    is_name = not end if not folder else (folder, end) == ("configs", ".py")
    if not os.path.isfile(path) and is_name and stem in names(recipes_dir):
        return os.path.join(recipes_dir, f"{stem}.py")
    return path
