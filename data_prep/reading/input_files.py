"""Input globs to a list of files, checked against the input format by name."""

import os
from collections.abc import Iterable

from albert_tf.core import config, files

# Suffixes of compressed files, see `streams`.
COMPRESSION_SUFFIXES = (".gz", ".bz2", ".xz", ".lzma", ".zst")
_FORMATS_BY_SUFFIX = {
    ".json": ("jsonl",),
    ".jsonl": ("jsonl",),
    ".ndjson": ("jsonl",),
    ".xml": ("mediawiki", "wikiextractor"),
    ".parquet": ("parquet",),
}


def expand(patterns: str | Iterable[str]) -> list[str]:
    """Expands globs to the files that they match, sorted, without repeats.

    Args:
      patterns: comma-separated globs, or several such strings.

    Raises:
      ValueError: a pattern matches no file, or there is no pattern.
    """
    if isinstance(patterns, str):
        patterns = [patterns]
    globs = [g.strip() for text in patterns for g in text.split(",") if g.strip()]
    if not globs:
        raise ValueError("the input must be one glob or more; received none")
    paths: set[str] = set()
    for pattern in globs:
        found = [path for path in files.glob(pattern) if not files.is_folder(path)]
        if not found:
            raise ValueError(
                f"the input {pattern!r} matches no file; give paths or quoted globs "
                "of text files, such as 'corpus/*.txt'"
            )
        paths.update(found)
    return sorted(paths)


def check_format(paths: Iterable[str], text: config.TextConfig) -> None:
    """Checks that no file is named as another format than `text.input_format`.

    JSON or XML that is read as text raises no error; its records are full of braces
    and tags.

    Raises:
      ValueError: names the file and the setting.
    """
    for path in paths:
        stem, suffix = os.path.splitext(path.lower())
        if suffix in COMPRESSION_SUFFIXES:
            suffix = os.path.splitext(stem)[1]
        formats = _FORMATS_BY_SUFFIX.get(suffix)
        if formats and text.input_format not in formats:
            raise ValueError(
                f"{path} is named as {formats[0]}, but text.input_format is "
                f"{text.input_format}; pass --set text.input_format={formats[0]}, or "
                "rename the file"
            )
