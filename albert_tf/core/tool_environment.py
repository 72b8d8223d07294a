"""Python environments of their own, for packages that do not fit beside TensorFlow."""

import os
import pathlib
import subprocess
import sys

from albert_tf.core import binaries


def python_of(folder: pathlib.Path) -> pathlib.Path:
    """Returns the path of an environment's interpreter, whether it is there or not."""
    return folder / "venv" / "bin" / "python"


def make(folder: pathlib.Path, requirements: str) -> str:
    """Returns the interpreter of an environment, which is made if there is none.

    Args:
      folder: where it is; made if it does not exist.
      requirements: name of the file in a clone that pins all its packages.

    Raises:
      ValueError: it cannot be made, such as without a network.
    """
    script = binaries.ROOT / ".ci" / "make_venv"
    if not script.exists():
        raise ValueError(
            f"{requirements} can be installed in a clone of the project only; there is "
            f"no {script}"
        )
    folder.mkdir(parents=True, exist_ok=True)
    (folder / requirements).write_bytes((binaries.ROOT / requirements).read_bytes())
    # The file pins everything; the repository's constraints are for other packages.
    (folder / "constraints.txt").write_bytes(b"")
    done = subprocess.run(
        [str(script), "venv", requirements],
        cwd=folder,
        env=os.environ | {"PYTHON": sys.executable},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    if done.returncode:
        reason = last_line(done.stderr, "ERROR:")
        raise ValueError(f"{requirements} could not be installed: {reason}")
    return str(python_of(folder))


def last_line(text: str, start: str = "") -> str:
    """Returns the last line that begins with `start`, or else the last line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    marked = [line for line in lines if line.startswith(start)]
    return (marked or lines or ["it printed nothing"])[-1]
