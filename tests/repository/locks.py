"""Writes .ci/locks: all packages of an environment, with the SHA-256 of their files.

    python -m tests.repository.locks UV     # or: make locks

For each requirements file that holds all of an environment there is one of its name,
with the files for all platforms. `.ci/make_venv` gives it to pip, which installs
nothing else. UV is the program that resolves the requirements and asks the index.
"""

import pathlib
import re
import subprocess
import sys

from tests.repository import project_files

FOLDER = project_files.ROOT / ".ci" / "locks"
# Those of constraints.txt; the others pin all by themselves.
_CONSTRAINED = ("requirements.txt", "requirements-dev.txt", "requirements-serving.txt")
# Machines without a GPU use builds of PyTorch that are published elsewhere.
_WITHOUT_LOCK = ("bench-torch", "interop")
# Within another environment, or for other machines.
_PARTS = ("dask", "jax", "openvino", "tpu")
_OPTIONS = (
    "--generate-hashes --no-header --no-annotate --universal --python-version=3.11.5"
)


def environments(root: pathlib.Path) -> list[str]:
    """The names of the requirements files that have a lock."""
    names = sorted(path.name for path in root.glob("requirements*.txt"))
    without = {f"requirements-{name}.txt" for name in (*_WITHOUT_LOCK, *_PARTS)}
    return [name for name in names if name not in without]


def parse(text: str) -> dict[str, list[str]]:
    """The hashes of a lock by "name==version", names as package indexes write them."""
    found: dict[str, list[str]] = {}
    for word in text.replace("\\", " ").split():
        if re.match(r"[\w.-]+==[\w.]", word):
            hashes = found.setdefault(normalized(word), [])
        elif word.startswith("--hash="):
            hashes.append(word.removeprefix("--hash="))
    return found


def normalized(pin: str) -> str:
    """A pin without extras, its name as package indexes write it."""
    name, _, version = pin.partition("==")
    return f"{re.sub(r'[-_.]+', '-', name.partition('[')[0]).lower()}=={version}"


def main() -> int:
    """Resolves each environment, and writes its lock."""
    (uv,) = sys.argv[1:]
    FOLDER.mkdir(exist_ok=True)
    for name in environments(project_files.ROOT):
        constraints = ["-c", "constraints.txt"] if name in _CONSTRAINED else []
        ended = subprocess.run(
            [uv, "pip", "compile", "-q", *_OPTIONS.split(), *constraints, name],
            cwd=project_files.ROOT,
            capture_output=True,
            text=True,
        )
        if ended.returncode:
            print(f"{name}: {ended.stderr}", file=sys.stderr)
            return 1
        (FOLDER / name).write_text(ended.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
