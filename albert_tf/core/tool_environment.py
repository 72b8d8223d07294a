"""Python environments of their own, for packages that do not fit beside TensorFlow."""

import os
import pathlib
import subprocess
import sys

from albert_tf.core import binaries

# The installed package has the files of a clone that users need, here.
_INSTALLED = pathlib.Path(__file__).resolve().parents[1] / "environments"


def python_of(folder: pathlib.Path) -> pathlib.Path:
    """Returns the path of an environment's interpreter, whether it is there or not."""
    return folder / "venv" / "bin" / "python"


def is_made(folder: pathlib.Path, requirements: str) -> bool:
    """Returns whether an environment was made completely, perhaps with other pins.

    Args:
      folder: where it is.
      requirements: name of the file that pins all its packages.
    """
    venv = python_of(folder).parents[1]
    # make_venv writes the first when all is installed, and removes the second then.
    is_installed = (venv / f"installed-{requirements}").exists()
    return is_installed and not venv.with_name("venv.unfinished").exists()


def pins_of(requirements: str) -> pathlib.Path:
    """Returns the path of a file of pins, in a clone or in the installed package.

    Args:
      requirements: its name.

    Raises:
      ValueError: there is none: the package has not all of those of a clone.
    """
    for path in (binaries.ROOT / requirements, _INSTALLED / requirements):
        if path.exists():
            return path
    raise ValueError(
        f"{requirements} can be installed in a clone of the project only; there is no "
        f"{binaries.ROOT / requirements}"
    )


def make(folder: pathlib.Path, requirements: str) -> str:
    """Returns the interpreter of an environment, which is made if there is none.

    Args:
      folder: where it is; made if it does not exist.
      requirements: name of the file that pins all its packages.

    Raises:
      ValueError: it cannot be made, such as without a network.
    """
    pins = pins_of(requirements)
    is_clone = pins.parent == binaries.ROOT
    script = (binaries.ROOT / ".ci" if is_clone else _INSTALLED) / "make_venv"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / requirements).write_bytes(pins.read_bytes())
    # The file pins everything; the repository's constraints are for other packages.
    (folder / "constraints.txt").write_bytes(b"")
    done = subprocess.run(
        ["sh", str(script), "venv", requirements],
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
