"""Archive of this code for the hosts."""

import gzip
import hashlib
import io
import os
import pathlib
import subprocess
import tarfile
import tempfile
from collections.abc import Iterable

# Files that a run needs; not the tests, for example.
PRODUCT = (
    "albert_tf",
    "configs",
    "data_prep",
    "constraints.txt",
    "pyproject.toml",
    "requirements.txt",
    "requirements-tpu.txt",
)

# The directory of the recipes, and one for a configuration from elsewhere.
_CONFIGS, _SUBMITTED = "configs", "submitted"
# A file that every checkout tracks.
_TRACKED = "albert_tf/pretrain.py"


def find_checkout(given: str) -> pathlib.Path | None:
    """Returns the root of the checkout to send, or None if there is none.

    Args:
      given: the root; "" is that of the checkout with the current directory.
    """
    if given:
        return pathlib.Path(given)
    here = pathlib.Path.cwd()
    folders = (here, *here.parents)
    return next((path for path in folders if (path / _TRACKED).is_file()), None)


def require_checkout(given: str) -> pathlib.Path:
    """Returns the root of the checkout to send, as `find_checkout` does.

    Raises:
      ValueError: there is none.
    """
    found = find_checkout(given)
    if found is None:
        raise _no_checkout(pathlib.Path.cwd())
    return found


def _no_checkout(path: pathlib.Path) -> ValueError:
    return ValueError(
        "submit sends the source code of a git checkout of the project, which "
        f"{path} is not: clone the project and pass --source=CLONE"
    )


def config_path(root: pathlib.Path, config: str) -> str:
    """The value of --config on the hosts, relative to the root of the archive."""
    if not config:
        return ""
    path = pathlib.Path(config).resolve()
    inside = path.is_relative_to(root.resolve() / _CONFIGS)
    return (
        str(path.relative_to(root.resolve())) if inside else f"{_SUBMITTED}/{path.name}"
    )


def config_path_in_image(folders: Iterable[str], config: str) -> str:
    """The value of --config in the container image.

    The image has the checkout's configs/, as docker/training.Dockerfile copies it.

    Args:
      folders: directories whose recipes an image has.
      config: the path of a recipe, or "".

    Raises:
      ValueError: the recipe is in none of the directories.
    """
    if not config:
        return ""
    path = pathlib.Path(config).resolve()
    if path.parent not in [pathlib.Path(folder).resolve() for folder in folders]:
        raise ValueError(
            "--config must be a recipe of the project with --platform=gke, such as "
            "albert_base, because the image has no others: copy yours to configs/ of "
            "the clone, build the image again and pass --source=CLONE, or change a "
            f"recipe by --set; received {config}"
        )
    return f"{_CONFIGS}/{path.name}"


def pack(root: pathlib.Path, directory: pathlib.Path, config: str = "") -> pathlib.Path:
    """Writes the tracked product files, as they are on disk, as a .tar.gz.

    The same files give the same bytes, and the name contains their SHA-256, so that a
    log can be traced to its code.

    Args:
      root: from `find_checkout`.
      directory: where to write.
      config: path of a recipe or config.json to pack too, tracked or not.

    Returns:
      The archive's path.

    Raises:
      ValueError: `root` is no git checkout of this project, or there is no git.
    """
    names = _tracked_files(root)
    if _TRACKED not in names:
        raise _no_checkout(root)
    paths = {name: root / name for name in names}
    if config:
        paths[config_path(root, config)] = pathlib.Path(config)
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, path in sorted(paths.items()):
            content = path.read_bytes()
            member = tarfile.TarInfo(name)
            member.size = len(content)
            member.mode = 0o644
            archive.addfile(member, io.BytesIO(content))
    data = gzip.compress(buffer.getvalue(), mtime=0)
    digest = hashlib.sha256(buffer.getvalue()).hexdigest()
    packed = directory / f"albert_tf-{digest[:12]}.tar.gz"
    # A name that nobody can know: in a shared directory another user could have made a
    # link of it.
    descriptor, temporary = tempfile.mkstemp(dir=directory, prefix=packed.name)
    with open(descriptor, "wb") as file:
        file.write(data)
    os.replace(temporary, packed)
    return packed


def _tracked_files(root: pathlib.Path) -> list[str]:
    command = ["git", "-C", str(root), "ls-files", "-z", "--", *PRODUCT]
    try:
        listed = subprocess.run(command, capture_output=True, check=True, timeout=60)
    except FileNotFoundError as error:
        raise ValueError(
            "submit asks git for the files to send, and there is no git; install it"
        ) from error
    except subprocess.CalledProcessError:
        return []
    names = sorted(filter(None, listed.stdout.decode().split("\0")))
    # A file whose removal is not committed is tracked, but absent.
    return [name for name in names if (root / name).is_file()]
