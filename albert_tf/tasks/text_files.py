"""Reading and writing of text files, with errors that name the line."""

import csv
import glob as glob_lib
import io
import os
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from albert_tf.core import files, strict_json
from albert_tf.tasks import examples as examples_lib


def join(folder: str, name: str) -> str:
    """Joins directory and name; a name that is a full path is returned unchanged."""
    return name if files.is_remote(name) else os.path.join(folder, name)


def first_existing(paths: Sequence[str]) -> str | None:
    """Returns the first path that exists, or None."""
    return next((path for path in paths if files.exists(path)), None)


def require(paths: Sequence[str], advice: str) -> str:
    """Returns the first path that exists.

    Raises:
      ValueError: none exists.
    """
    path = first_existing(paths)
    if path is None:
        raise ValueError(f"{' or '.join(paths)}: no such file. {advice}")
    return path


def names_in(folder: str, extension: str) -> list[str]:
    """Lists the files with an extension: numbers in order, then the others."""
    escaped = folder if files.is_remote(folder) else glob_lib.escape(folder)
    found = files.glob(os.path.join(escaped, f"*{extension}"))
    stems = [os.path.basename(path).removesuffix(extension) for path in found]

    def order(stem: str) -> tuple[int, int, str]:
        is_number = stem.isascii() and stem.isdigit()
        return (0, int(stem), stem) if is_number else (1, 0, stem)

    return [stem + extension for stem in sorted(stems, key=order)]


def read_text(path: str) -> str:
    """Reads a UTF-8 file, without its byte order mark.

    Raises:
      ValueError: it is not UTF-8; names path and line.
    """
    content = files.read_bytes(path)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        byte = content[error.start : error.start + 1]
        raise ValueError(
            f"{path}:{line}: text files must be UTF-8; received the byte {byte!r}. "
            "Convert the file, for example with iconv"
        ) from error


def lines(path: str) -> list[str]:
    """Returns the lines of a file, without empty lines at its end.

    Only line feeds, with or without a carriage return, end a line: Unicode's other line
    breaks may be part of a text.
    """
    found = [line.removesuffix("\r") for line in read_text(path).split("\n")]
    while found and not found[-1]:
        found.pop()
    return found


def tsv(path: str) -> Iterator[tuple[int, list[str]]]:
    """Yields the number of each line, from 1, and its cells; no quoting."""
    for number, line in enumerate(lines(path), 1):
        yield number, line.split("\t")


def csv_rows(path: str) -> Iterator[tuple[int, list[str]]]:
    """Yields the number of the line at which each row begins, and its cells.

    Cells in double quotes may contain commas and line breaks.

    Raises:
      ValueError: a quote is not closed, or followed by text.
    """
    # The module's limit, which is global, is too low for long texts.
    csv.field_size_limit(min(sys.maxsize, 2**31 - 1))
    text = read_text(path).rstrip("\r\n")
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    begin = 1
    try:
        for cells in reader:
            yield begin, cells
            begin = reader.line_num + 1
    except csv.Error as error:
        raise ValueError(
            f"{path}:{begin}: rows must be CSV, with quotes inside quoted cells "
            f"doubled; received a row that is not ({error}). Fix the row, or use .tsv"
        ) from error


def table_rows(path: str) -> tuple[list[str], Iterator[tuple[int, list[str]]]]:
    """Returns the columns of a .csv or .tsv file, and what yields its other rows.

    Raises:
      ValueError: the file has no first line, or an empty one.
    """
    rows = csv_rows(path) if path.endswith(".csv") else tsv(path)
    first = next(rows, None)
    if first is None or not any(first[1]):
        empty = "the first line" if first else "the file"
        raise ValueError(
            f"{path}: {empty} is empty; the first line must name the columns"
        )
    return first[1], rows


def json_objects(
    path: str, problems: examples_lib.Problems
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yields the number of each line, from 1, and the JSON object in it."""
    for number, line in enumerate(lines(path), 1):
        place = f"{path}:{number}"
        value, reason = None, ""
        try:
            value = strict_json.loads(line, place)
        except ValueError as error:
            reason = str(error.__cause__)
        if isinstance(value, dict):
            yield number, value
        else:
            rule = "a line must be a JSON object"
            problems.add(place, rule, line, reason=reason)


def cell(text: str) -> str:
    """Text for a cell of a table: tabs and line breaks are replaced by spaces."""
    return " ".join(text.replace("\t", " ").splitlines())


def write_lines(path: str, rows: Sequence[str]) -> None:
    """Writes lines as UTF-8, each followed by a line feed."""
    text = "".join(f"{row}\n" for row in rows)
    files.write_bytes(path, text.encode("utf-8", "replace"))
