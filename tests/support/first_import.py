"""Programs in a process of their own, in which a fake may take TensorFlow's place."""

import os
import pathlib
import subprocess
import sys

from tests.repository import project_files


def run(
    program: str, *folders: pathlib.Path, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Runs a program with this project, and with little of this environment.

    Args:
      program: Python.
      *folders: found before the installed packages.
      **variables: of its environment.
    """
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    paths = os.pathsep.join([*map(str, folders), str(project_files.ROOT)])
    return subprocess.run(
        [sys.executable, "-c", program],
        env={**kept, "PYTHONPATH": paths, **variables},
        capture_output=True,
        text=True,
        timeout=120,
    )


def fake_tensorflow(folder: pathlib.Path, source: str) -> pathlib.Path:
    """Makes a module `tensorflow` of that source in a folder, and returns it."""
    package = folder / "tensorflow"
    package.mkdir()
    (package / "__init__.py").write_text(f"import os\n{source}")
    return folder
