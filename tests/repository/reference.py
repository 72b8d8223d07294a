"""Writes the pages of docs/reference from the code.

    python -m tests.repository.reference

Importing TensorFlow takes seconds, and is not needed.
tests/repository/test_reference.py compares the pages with the rendered text.
"""

import pathlib

from tests.repository import (
    api_reference,
    commands_reference,
    project_files,
    settings_reference,
)

COMMAND = "make reference"

_PAGES = {
    "docs/reference/api.md": api_reference.render,
    "docs/reference/commands.md": commands_reference.render,
    "docs/reference/settings.md": settings_reference.render,
}


def render(root: pathlib.Path) -> dict[str, str]:
    """The text of each page by its path."""
    return {path: page(root) for path, page in _PAGES.items()}


def differences(root: pathlib.Path) -> list[str]:
    """The pages that are not as rendered."""
    return [
        f"{path}: run `{COMMAND}`"
        for path, text in render(root).items()
        if not (root / path).is_file() or (root / path).read_text() != text
    ]


def main() -> None:
    """Writes the pages."""
    for path, text in render(project_files.ROOT).items():
        (project_files.ROOT / path).parent.mkdir(parents=True, exist_ok=True)
        (project_files.ROOT / path).write_text(text)
        print(f"wrote {path} with {text.count(chr(10))} lines")


if __name__ == "__main__":
    main()
