"""Compilation of loops over tokens with Numba, and the cache of compiled code.

A kernel may call kernels of other files. To decide whether cached code is still valid,
Numba only checks the kernel's own file, so the name of the cache directory is made from
the sources of all kernels, and from their path, which Numba's cache depends on.
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
_MARK = b"@numba_cache.kernel"


def kernel(function: Callable) -> Any:
    """Decorator that compiles a function at its first call and releases the GIL."""
    before = numba.config.CACHE_DIR  # type: ignore[attr-defined]
    numba.config.CACHE_DIR = _cache_folder()  # type: ignore[attr-defined]
    try:
        return numba.njit(cache=True, nogil=True)(function)
    finally:
        numba.config.CACHE_DIR = before  # type: ignore[attr-defined]


@contextlib.contextmanager
def first_use(name: str) -> Iterator[None]:
    """Admits one process at a time until the kernels used in the block are compiled.

    The first process compiles them, and those that waited load its code. Later ones do
    not wait.

    Args:
      name: of the kernels, for messages and as a file name.
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
            print(f"{name}: compiling, once for this copy", file=sys.stderr)
        yield
    with open(path, "wb"):
        pass


def _kernels_digest() -> str:
    """Returns the SHA-256 of all files that define kernels, and of their path."""
    root = pathlib.Path(__file__).resolve().parent.parent.parent
    digest = hashlib.sha256(os.fsencode(root))
    for package in _PACKAGES:
        for path in sorted((root / package).rglob("*.py")):
            source = path.read_bytes()
            if _MARK in source:
                digest.update(source)
    return digest.hexdigest()


@functools.cache
def _cache_folder() -> str:
    name = f"kernels-{_kernels_digest()[:16]}"
    caches = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    folder = os.path.join(caches, "albert_tf", name)
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        # Compiled code of a directory that others own could be theirs.
        if os.stat(folder).st_uid == os.getuid() and os.access(folder, os.W_OK):
            return folder
    except OSError:
        pass
    return tempfile.mkdtemp(prefix=name)  # then every process compiles again
