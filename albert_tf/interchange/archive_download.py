"""TensorFlow 1 checkpoints of ALBERT's authors, fetched from their published addresses.

The addresses are those of the README of google-research/albert. The authors published
no checksums: the SHA-256 of what arrived is said, and can be required.
"""

import gzip
import os
import shutil
import tarfile
import urllib.request
import zlib

import tqdm

from albert_tf.core import failures, files
from albert_tf.interchange import download_plan

_ADDRESS = "https://storage.googleapis.com/albert_models"
_ENDING = ".tar.gz"
NAMES = tuple(
    f"albert_{size}_{version}"
    for version in ("v2", "v1", "zh")
    for size in ("base", "large", "xlarge", "xxlarge")
)
_CONFIG = "albert_config.json"
_DIGEST, _CONTENT = "sha256", "content"  # of a directory in the cache
_TIMEOUT = 30  # seconds without a byte
_READ_BYTES = 1 << 20
# Of the largest model with its optimizer's slots, times three.
_MAX_BYTES = 8 << 30
# A checkpoint of ALBERT has seven.
_MAX_MEMBERS = 1000
_MAX_MESSAGE = 300
# Whatever reading or extracting it may raise: a name with a null byte is a ValueError,
# and tarfile calls itself for each header that tells a long name.
_DAMAGE = (
    *(tarfile.TarError, zlib.error, EOFError, OSError),
    *(ValueError, OverflowError, RecursionError),
)


def fetch(name: str, revision: str, say: download_plan.Say) -> str:
    """Fetches an archive and extracts its checkpoint.

    Args:
      name: one of `NAMES`, or its address.
      revision: the SHA-256 that the archive must have; empty for any.
      say: gets what is fetched, and its SHA-256.

    Returns:
      The directory of the checkpoint, below the user's cache directory.

    Raises:
      ValueError: there is no such archive, it has another SHA-256 or is damaged, or its
        host cannot be reached.
    """
    name = name.removeprefix(f"{_ADDRESS}/").removesuffix(_ENDING)
    if name not in NAMES:
        raise ValueError(
            f"the archives of ALBERT's authors are {', '.join(NAMES)}; received "
            f"{name!r}"
        )
    address = f"{_ADDRESS}/{name}{_ENDING}"
    folder = os.path.join(_cache_folder(), name)
    content, digest_path = (os.path.join(folder, x) for x in (_CONTENT, _DIGEST))
    if files.exists(folder):
        download_plan.announce({}, address, say)
        digest = files.read_bytes(digest_path).decode()
        _check_digest(digest, revision, f"{folder}, which was fetched before,")
    else:
        with files.complete_folder(folder) as unfinished:
            archive = os.path.join(unfinished, f"{name}{_ENDING}")
            _fetch(address, archive, say)
            digest = files.sha256(archive)
            _check_digest(digest, revision, address)
            _extract(archive, os.path.join(unfinished, _CONTENT), address)
            _checkpoint_folder(os.path.join(unfinished, _CONTENT), address)
            files.remove(archive)
            files.write_bytes(os.path.join(unfinished, _DIGEST), digest.encode())
    say(f"SHA-256 {digest}, {_vouching(digest, revision)}")
    say(f"in {content}")
    return _checkpoint_folder(content, address)


def _vouching(digest: str, revision: str) -> str:
    if revision:
        return "as --revision requires"
    return (
        "which is unknown here: its authors published none to compare it with. To "
        f"require it, pass --revision={digest}"
    )


def _check_digest(digest: str, revision: str, place: str) -> None:
    if revision and digest != revision.lower():
        raise ValueError(
            f"{place} must have the SHA-256 that --revision gives, {revision}; it has "
            f"{digest}. Do not use it, or omit --revision"
        )


def _cache_folder() -> str:
    caches = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return os.path.join(caches, "albert_tf", "tf1")


def _fetch(address: str, path: str, say: download_plan.Say) -> None:
    """Writes what an address gives to a file.

    Raises:
      ValueError: it cannot be reached, or the connection breaks.
    """
    try:
        with urllib.request.urlopen(address, timeout=_TIMEOUT) as response:
            size = response.length or 0
            download_plan.announce({os.path.basename(path): size}, address, say)
            with (
                open(path, "wb") as file,
                tqdm.tqdm.wrapattr(
                    response, "read", total=size, disable=None, leave=False
                ) as reader,
            ):
                shutil.copyfileobj(reader, file)
    except OSError as error:
        raise ValueError(
            f"{address} cannot be fetched ({error}). Check the network; or fetch and "
            "extract it where there is one, and pass --from=tf1:DIR without --download"
        ) from error
    if size and os.path.getsize(path) != size:
        raise ValueError(
            f"{address} was cut off: {os.path.getsize(path):,} of {size:,} bytes "
            "arrived; give the command again"
        )


def _extract(archive: str, folder: str, address: str) -> None:
    """Extracts an archive that may hold anything.

    Raises:
      ValueError: it is damaged or too large, or holds something other than files and
        directories within it.
    """
    os.makedirs(folder)
    bytes_left = _MAX_BYTES
    try:
        with gzip.open(archive) as stream:
            with tarfile.open(fileobj=stream, mode="r|") as opened:
                for number, member in enumerate(opened, 1):
                    bytes_left -= member.size
                    if number > _MAX_MEMBERS:
                        raise tarfile.TarError(
                            f"it has more than {_MAX_MEMBERS} members"
                        )
                    if bytes_left < 0:
                        raise tarfile.TarError(f"{member.name!r} is too large")
                    _extract_member(opened, member, folder)
            # To the end, where the checksum is.
            while content := stream.read(_READ_BYTES):
                bytes_left -= len(content)
                if bytes_left < 0:
                    raise tarfile.TarError("it has too many bytes after its members")
    except _DAMAGE as error:
        message = failures.one_line(error)[:_MAX_MESSAGE]
        raise ValueError(
            f"{address} cannot be extracted: {message}. Nothing of it was kept"
        ) from error


def _extract_member(
    opened: tarfile.TarFile, member: tarfile.TarInfo, folder: str
) -> None:
    """Writes a file or directory of an archive, below a folder without links.

    The filters of tarfile do that too, but Python 3.11 has them only since 3.11.4.
    Files get the time of now: one of an archive may be none that systems know.

    Raises:
      tarfile.TarError: it is something else, or leads out of the folder.
    """
    root = os.path.abspath(folder)
    path = os.path.abspath(os.path.join(root, member.name))
    if os.path.commonpath([root, path]) != root:
        raise tarfile.TarError(f"{member.name!r} is outside of the archive")
    if member.isdir():
        os.makedirs(path, exist_ok=True)
        return
    content = opened.extractfile(member) if member.isfile() else None
    if content is None:
        raise tarfile.TarError(f"{member.name!r} is a link or a device")
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with content, open(path, "wb") as file:
        shutil.copyfileobj(content, file)


def _checkpoint_folder(content: str, address: str) -> str:
    """Returns the directory of an archive that has the configuration.

    Raises:
      ValueError: there is none, or several.
    """
    found = [folder for folder, _, names in os.walk(content) if _CONFIG in names]
    if len(found) != 1:
        raise ValueError(
            f"{address} must hold one {_CONFIG}, as archives of ALBERT do; it holds "
            f"{len(found)}. Nothing of it was kept"
        )
    return found[0]
