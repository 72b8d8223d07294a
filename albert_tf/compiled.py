"""Compiles loops over tokens to machine code with Numba, and keeps what it compiled.

A kernel may call kernels of other files. Numba looks at a kernel's own file only when
it decides whether its cached code is still good, so the cache lies in a folder whose
name follows from the sources of all kernels.
"""

import contextlib
import fcntl
import functools
import hashlib
import os
import pathlib
import sys
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

import numba

_PACKAGES = ("albert_tf", "data_prep")
_MARK = b"@compiled.kernel"


def kernel(function: Callable) -> Any:
    """Decorator: compiles a function at its first call, without the GIL."""
    before = numba.config.CACHE_DIR  # type: ignore[attr-defined]
    numba.config.CACHE_DIR = _cache_folder()  # type: ignore[attr-defined]
    try:
        return numba.njit(cache=True, nogil=True)(function)
    finally:
        numba.config.CACHE_DIR = before  # type: ignore[attr-defined]


@contextlib.contextmanager
def first_use(name: str) -> Iterator[None]:
    """Lets one process at a time through where kernels may not be compiled yet.

    The first one compiles, and those that waited load what it compiled. Once it is
    through, nobody waits any more.

    Args:
      name: of what is used, good as a file's name.
    """
    path = os.path.join(_cache_folder(), f"{name}.used")
    if os.path.exists(path):
        yield
        return
    with open(f"{path}.lock", "wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if os.path.exists(path):
            fcntl.flock(lock, fcntl.LOCK_UN)
        else:
            print(f"{name}: compiling, once on this machine", file=sys.stderr)
        yield
    with open(path, "wb"):
        pass


@functools.cache
def sources_digest(mark: bytes = b"") -> str:
    """The SHA-256 of the sources of both packages, or of those that hold a mark."""
    root = pathlib.Path(__file__).resolve().parent.parent
    digest = hashlib.sha256()
    for package in _PACKAGES:
        for path in sorted((root / package).glob("*.py")):
            source = path.read_bytes()
            if mark in source:
                digest.update(source)
    return digest.hexdigest()


@functools.cache
def _cache_folder() -> str:
    name = f"kernels-{sources_digest(_MARK)[:16]}"
    caches = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    folder = os.path.join(caches, "albert_tf", name)
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        # Who could write here could have us run what they like.
        if os.stat(folder).st_uid == os.getuid() and os.access(folder, os.W_OK):
            return folder
    except OSError:
        pass
    return tempfile.mkdtemp(prefix=name)  # compiled anew in every process
