"""The program that makes records: its code and the packages that decide them."""

import functools
import platform
import zlib
from importlib import metadata
from typing import Any

from albert_tf.core import source_digest
from data_prep.pipeline import worker

# Other versions of these may read, clean, split, tokenize or compute differently.
DECIDING_PACKAGES = (
    "datasketch",
    "mwparserfromhell",
    "numba",
    "numpy",
    "py3langid",
    "pyarrow",
    "sentencepiece",
    "sentencex",
    "xxhash",
)


@functools.cache
def digest() -> str:
    """Returns the digest of the code that decides records: what a worker imports.

    All else, such as the manifest, is made at the end, and by one program. The modules
    of the configuration do not count: the settings that decide are part of the plan by
    their values.
    """
    names = ("config", "config_io", "task_config", "validation")
    settings = [f"albert_tf/core/{name}.py" for name in names]
    return source_digest.imports_digest(worker.__file__, omit=settings)


def describe() -> dict[str, Any]:
    """Returns the digest of the code and the versions of what decides records."""
    return {
        "program": digest(),
        "versions": {
            "Python": platform.python_version(),
            "zlib": zlib.ZLIB_RUNTIME_VERSION,  # the bytes of gzip
            **{name: metadata.version(name) for name in DECIDING_PACKAGES},
        },
    }
