"""JSON from outside, with limits: any input gives a value or one ValueError.

A value that was read is nested at most `MAX_DEPTH` deep, so that code may walk through
it, and its texts can be written as UTF-8. Unless it was read leniently, its integers
have 64 bits, its numbers are finite, and a name occurs once in an object.

Types are checked by `setting_types`, as those of settings. A library that collects all
faults of a value, as pydantic does, would need memory for each of millions of them.
"""

import json
import math
import re
from collections.abc import Iterator
from typing import Any, TypeVar

from albert_tf.core import files, setting_types, short_repr

# Parsed values take up to twenty times as many bytes.
MAX_BYTES = 16 << 20  # of a file that describes something, and of a line
MAX_DATA_BYTES = 1 << 30  # of a file of examples or predictions
MAX_DEPTH = 64
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_T = TypeVar("_T")


def loads(
    text: str | bytes,
    place: str,
    lenient: bool = False,
    max_bytes: int = MAX_BYTES,
    takes_surrogates: bool = False,
) -> Any:
    """Parses JSON.

    Args:
      text: UTF-8 if it is bytes, with or without a byte order mark.
      place: where it is from, such as a path or `path:line`, for errors.
      lenient: whether to take what the standard lacks or advises against: NaN and
        infinities, integers of any size, and repeated names, of which the last counts.
        For texts and figures that other programs wrote.
      max_bytes: of the text.
      takes_surrogates: whether texts may have single surrogates, which the caller then
        handles.

    Raises:
      ValueError: it is not JSON, or exceeds a limit; names the place.
    """
    try:
        if len(text) > max_bytes:
            raise ValueError(f"it has more than {max_bytes:,} bytes")
        if isinstance(text, bytes):
            text = text.decode("utf-8-sig")
        values = (_LENIENT if lenient else _STRICT).decode(text)
        _check_depth(text, values)
        if not takes_surrogates and _SURROGATE.search(text):
            json.dumps(values, ensure_ascii=False).encode()
    # The parser raises RecursionError some hundred levels deep, wherever that is; so
    # text need not be looked through before it is parsed.
    except (ValueError, RecursionError, MemoryError) as error:
        reason = str(error) or "it does not fit into memory"
        raise ValueError(f"{place} must be JSON; it is damaged ({reason})") from error
    return values


def load(path: str, lenient: bool = False, max_bytes: int = MAX_BYTES) -> Any:
    """Reads a JSON file.

    Args:
      path: local or remote.
      lenient: as for `loads`.
      max_bytes: of the file; no more are read.

    Raises:
      ValueError: as for `loads`.
      OSError: a local file cannot be read.
      tf.errors.OpError: a remote file cannot be read.
    """
    with files.open_file(path) as file:
        return loads(file.read(max_bytes + 1), path, lenient, max_bytes)


def load_object(path: str, lenient: bool = False) -> dict[str, Any]:
    """Reads a file that holds an object; arguments and errors as for `load`."""
    return as_object(load(path, lenient), path)


def load_as(path: str, type_: type[_T]) -> _T:
    """Reads a file into a dataclass; arguments and errors as for `load` and `as_type`.

    Names that the dataclass lacks are an error too.
    """
    return as_type(load(path), path, type_)


def lines(path: str, lenient: bool = False) -> Iterator[tuple[str, Any]]:
    """Yields `path:line` and value of each line of a file that is not empty.

    Args:
      path: local or remote.
      lenient: as for `loads`.

    Raises:
      ValueError: a line is not JSON; names it.
    """
    content = files.read_bytes(path, MAX_DATA_BYTES)
    for number, line in enumerate(content.split(b"\n"), 1):
        if line.strip():
            place = f"{path}:{number}"
            yield place, loads(line, place, lenient)


def as_object(values: Any, place: str) -> dict[str, Any]:
    """Returns values that must be an object.

    Raises:
      ValueError: they are not; names the place.
    """
    if not isinstance(values, dict):
        raise ValueError(
            f"{place} must hold a JSON object; received {short_repr.shown(values)}"
        )
    return values


def as_type(values: Any, place: str, type_: Any) -> Any:
    """Returns values as a dataclass, or as another type that `setting_types` knows.

    Args:
      values: as JSON gives them.
      place: where they are from, for errors.
      type_: names and types of the values.

    Raises:
      ValueError: they have other names or types; names the place and the first one.
    """
    try:
        return setting_types.check("", values, type_)
    except ValueError as error:
        raise ValueError(f"{place}: {error}") from error


def _check_depth(text: str, values: Any) -> None:
    # Counting is cheap, and most texts have too few brackets for a deep value.
    if text.count("[") + text.count("{") <= MAX_DEPTH:
        return
    level = [values] if isinstance(values, dict | list) else []
    for _ in range(MAX_DEPTH):
        children = (
            child
            for holder in level
            for child in (holder.values() if isinstance(holder, dict) else holder)
        )
        level = [child for child in children if isinstance(child, dict | list)]
        if not level:
            return
    raise ValueError(f"it is nested more than {MAX_DEPTH} deep")


def _integer(digits: str) -> int:
    # Nineteen digits and a sign: int() of a hundred thousand is an error.
    value = int(digits) if len(digits) <= 20 else 1 << 64
    if not setting_types.has_64_bits(value):
        raise ValueError(f"integers must have 64 bits: {digits[:20]}...")
    return value


def _number(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise ValueError(f"numbers must be finite: {digits[:20]}")
    return value


def _constant(name: str) -> float:
    raise ValueError(f"numbers must be finite: {name}")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        names = set()
        for name, _ in pairs:
            if name in names:
                shown = short_repr.shown(name)
                raise ValueError(f"an object has the name {shown} twice")
            names.add(name)
    return values


_LENIENT = json.JSONDecoder()
_STRICT = json.JSONDecoder(
    object_pairs_hook=_object,
    parse_float=_number,
    parse_int=_integer,
    parse_constant=_constant,
)
