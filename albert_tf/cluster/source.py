"""Archive of this code for the hosts."""

import gzip
import hashlib
import io
import os
import pathlib
import subprocess
import tarfile
import tempfile

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


# Directory in the archive for a configuration from outside configs/.
_SUBMITTED = "submitted"


def config_path(root: pathlib.Path, config: str) -> str:
    """The value of --config on the hosts, relative to the root of the archive."""
    if not config:
        return ""
    path = pathlib.Path(config).resolve()
    inside = path.is_relative_to(root.resolve() / "configs")
    return (
        str(path.relative_to(root.resolve())) if inside else f"{_SUBMITTED}/{path.name}"
    )


def check_is_in_image(root: pathlib.Path, config: str) -> None:
    """Raises a ValueError unless a configuration is in the container image.

    The image has the checkout's configs/, as docker/training.Dockerfile copies it.
    """
    if config_path(root, config).startswith(f"{_SUBMITTED}/"):
        raise ValueError(
            f"--config must be a file of {root / 'configs'} with --platform=gke, "
            "because the image has no others; copy it there and build the image "
            f"again, or change a recipe by --set; received {config}"
        )


def pack(root: pathlib.Path, directory: pathlib.Path, config: str = "") -> pathlib.Path:
    """Writes the tracked product files, as they are on disk, as a .tar.gz.

    The same files give the same bytes, and the name contains their SHA-256, so that a
    log can be traced to its code.

    Args:
      root: the repository.
      directory: where to write.
      config: a recipe or config.json to pack too, tracked or not.

    Returns:
      The archive's path.

    Raises:
      ValueError: `root` is no git checkout of this project.
    """
    names = _tracked_files(root)
    if "albert_tf/pretrain.py" not in names:
        raise ValueError(
            "--source must be the root of a git checkout of this project; there is no "
            f"tracked albert_tf/pretrain.py in {root}"
        )
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
    except (FileNotFoundError, subprocess.CalledProcessError) as error:
        raise ValueError(
            f"--source must be a git checkout, and git must be installed; received "
            f"{root}: {error}"
        ) from error
    names = sorted(filter(None, listed.stdout.decode().split("\0")))
    # A file whose removal is not committed is tracked, but absent.
    return [name for name in names if (root / name).is_file()]
