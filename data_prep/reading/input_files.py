"""Input globs to a list of files, checked against the input format by name."""

import os
from collections.abc import Iterable

from albert_tf.core import config, files

# Suffixes of compressed files, see `streams`.
COMPRESSION_SUFFIXES = (".gz", ".bz2", ".xz", ".lzma", ".zst")
_ARCHIVE_SUFFIXES = (".7z", ".rar", ".tar", ".tbz2", ".tgz", ".txz", ".zip")
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
      patterns: comma-separated globs, or several such strings. `**` matches any number
        of directories, on local disks. The path of a file is no glob, whatever its
        characters.

    Raises:
      ValueError: a pattern matches no file, there is no pattern, or a remote one has
        `**`.
    """
    if isinstance(patterns, str):
        patterns = [patterns]
    globs = [g.strip() for text in patterns for g in text.split(",") if g.strip()]
    if not globs:
        raise ValueError("the input must be one glob or more; received none")
    paths: set[str] = set()
    for pattern in globs:
        if files.is_remote(pattern) and "**" in pattern:
            raise ValueError(
                f"the input {pattern!r} must not have ** in it: of remote files it "
                "would match one level of directories. Give a glob of each level"
            )
        matches = files.glob(pattern)
        folders = files.of_each(files.is_folder, matches)
        found = [
            path
            for path, is_folder in zip(matches, folders, strict=True)
            if not is_folder
        ]
        if not files.is_remote(pattern) and os.path.isfile(pattern):
            found = [pattern]
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
    and tags. An archive of several files is no format.

    Raises:
      ValueError: names the file and the setting.
    """
    for path in paths:
        _refuse_archive(path)
        formats = _formats_named_by(path)
        if formats and text.input_format not in formats:
            raise ValueError(
                f"{path} is named as {formats[0]}, but text.input_format is "
                f"{text.input_format}; pass --set text.input_format={formats[0]}, or "
                "rename the file"
            )


def check_evaluation_format(paths: Iterable[str]) -> None:
    """Checks that no file of an evaluation set is named as another format than text.

    Raises:
      ValueError: names the file.
    """
    for path in paths:
        _refuse_archive(path)
        if formats := _formats_named_by(path):
            raise ValueError(
                f"{path} is named as {formats[0]}, but the texts of an evaluation set "
                "are read from UTF-8 text with an empty line between them; convert "
                "the file"
            )


def _formats_named_by(path: str) -> tuple[str, ...]:
    """Returns the formats that a name stands for; none if it may be any text."""
    return _FORMATS_BY_SUFFIX.get(_suffix(path), ())


def _refuse_archive(path: str) -> None:
    if _suffix(path) in _ARCHIVE_SUFFIXES:
        raise ValueError(
            f"{path} is an archive by its name; unpack it, and give the files in it"
        )


def _suffix(path: str) -> str:
    """Returns the suffix of a name in lower case, without that of a compression."""
    stem, suffix = os.path.splitext(path.lower())
    return os.path.splitext(stem)[1] if suffix in COMPRESSION_SUFFIXES else suffix
