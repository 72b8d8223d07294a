"""Source code as a text: Python's library and the installed packages, line by line.

Call as `python -m tests.reproduction.source_text --output=source.txt`. A file is a
document, a line a paragraph, without its indentation. Docstrings, comment lines and
tests are left out. docs/experiments.md says what it was made for.
"""

import argparse
import ast
import pathlib
import random
import sysconfig
from collections.abc import Iterable, Iterator

MAX_CHARACTERS = 40_000_000
MAX_FILE_CHARACTERS = 200_000
MIN_LINES = 20
SEED = 1

_LEFT_OUT = {"site-packages", "test", "tests", "idle_test", "_vendor"}
_WITH_DOCSTRINGS = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def source_files() -> list[pathlib.Path]:
    """Returns the files of the library, then those of the packages, without tests."""
    found = []
    for name in ("stdlib", "purelib"):
        root = pathlib.Path(sysconfig.get_paths()[name])
        for path in sorted(root.rglob("*.py")):
            folders = set(path.relative_to(root).parts)
            if not folders & _LEFT_OUT and not path.name.endswith("_pb2.py"):
                found.append(path)
    return found


def document(source: str) -> str:
    """Returns the lines of a module; empty if it has too few, or is not Python 3."""
    try:
        docstrings = _docstring_lines(ast.parse(source))
    except (SyntaxError, ValueError):
        return ""
    lines = []
    for number, line in enumerate(source.splitlines(), 1):
        code = line.strip()
        if code and number not in docstrings and not code.startswith("#"):
            lines.append(code)
    return "\n".join(lines) if len(lines) >= MIN_LINES else ""


def text(sources: Iterable[str]) -> Iterator[str]:
    """Yields different documents in a random order, up to `MAX_CHARACTERS`."""
    documents = list(filter(None, dict.fromkeys(map(document, sources))))
    random.Random(SEED).shuffle(documents)
    size = 0
    for one in documents:
        if size > MAX_CHARACTERS:
            return
        size += len(one)
        yield one[:MAX_FILE_CHARACTERS]


def main() -> None:
    """Writes the text."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=pathlib.Path, required=True)
    arguments = parser.parse_args()
    sources = (path.read_text("utf-8", "replace") for path in source_files())
    documents = "".join(f"{one}\n\n" for one in text(sources))
    arguments.output.write_text(documents, "utf-8")


def _docstring_lines(tree: ast.Module) -> set[int]:
    found: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, _WITH_DOCSTRINGS) and ast.get_docstring(node) is not None:
            first = node.body[0]
            found.update(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    return found


if __name__ == "__main__":
    main()
