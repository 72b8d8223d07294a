"""JSON that was made to break a reader, and what each reader has to do with it."""

import copy
from collections.abc import Callable, Iterator
from typing import Any

import pytest

# Of a message, beside the path that it names.
MAX_MESSAGE = 500

# Nothing that reads JSON takes any of these, alone or as a line.
CONTENTS = {
    "deep arrays": b"[" * 100_000,
    "deep objects": b'{"a":' * 100_000,
    "deep and whole": b'{"a":' + b"[" * 500 + b"]" * 500 + b"}",
    "a large integer": b'{"model": ' + b"9" * 100_000 + b"}",
    "a long text": b'"' + b"x" * 300_000 + b'"',
    "a long name": b'{"' + b"x" * 300_000 + b'": 1}',
    "no UTF-8": b'{"a": "\xff"}',
    "another encoding": "{}".encode("utf-16"),
    "cut off": b'{"model": {"num_layers": 1',
    "an array": b"[]",
    "arrays": b"[[1], [2]]",
    "a number": b"3",
    "null": b"null",
    "true": b"true",
    "not a number": b"NaN",
    "null bytes": b"\0" * 9,
}
# Values of another type, size or form than a field has.
VALUES = (
    None,
    True,
    -1,
    0.5,
    2**31,
    2**63 - 1,
    10**90,
    float("nan"),
    float("inf"),
    "",
    "x" * 300_000,
    "\ud800",
    [],
    [[]],
    [None] * 1000,
    {},
    {"": {}},
    {"x" * 300_000: "y" * 300_000},
)


def variants(values: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yields objects that differ from one in one place each.

    A field is missing, has one of `VALUES`, or there is one more.
    """
    for path in _paths(values):
        for value in (..., *VALUES):
            changed = copy.deepcopy(values)
            holder: Any = changed
            for step in path[:-1]:
                holder = holder[step]
            if value is not ...:
                holder[path[-1]] = value
            elif isinstance(holder, dict):
                del holder[path[-1]]
            yield changed
    yield values | {"x" * 300_000: 1}


def _paths(value: Any) -> Iterator[tuple[Any, ...]]:
    """Yields the paths to all values; of an array only the first, which is like all."""
    items: Any = ()
    if isinstance(value, dict):
        items = list(value.items())
    elif isinstance(value, list):
        items = list(enumerate(value))[:1]
    for step, inner in items:
        yield (step,)
        for path in _paths(inner):
            yield (step, *path)


def assert_refused(read: Callable[[], object], path: str) -> None:
    """Asserts that a reader raises a ValueError as `assert_message` wants it."""
    with pytest.raises(ValueError) as info:
        read()
    assert_message(info.value, path)


def assert_read_or_refused(read: Callable[[], object], path: str) -> None:
    """Asserts that a reader returns, or raises as `assert_refused` wants it."""
    try:
        read()
    except ValueError as error:
        assert_message(error, path)


def assert_message(error: ValueError, path: str) -> None:
    """Asserts that an error is a plain ValueError in a short line with a path."""
    message = str(error)
    assert type(error) is ValueError, repr(error)[:300]
    assert path in message
    assert len(message) - len(path) < MAX_MESSAGE, len(message)
    assert "\n" not in message
