"""Values of settings by the types of their fields: parsed, and checked.

A type is int (of 64 bits), float (finite), bool or str, a dataclass, one of them or
None, a tuple of them, an object of them (`Mapping[str, ...]`), names with weights
(`dict[str, float]`), or Any.
"""

import ast
import collections.abc
import dataclasses
import difflib
import math
import types
import typing
from collections.abc import Mapping, Sequence
from typing import Any

from albert_tf.core import short_repr

# Of a value on the command line: some hundred stages.
MAX_CHARACTERS = 100_000
# Of a name that is compared with all known ones.
_MAX_NAME_CHARACTERS = 100
_TYPE_NAMES = {int: "an integer", float: "a number", bool: "true or false", str: "text"}
_LIST_OF_OBJECTS = "a list of objects, such as [{'num_steps': 900}]"


def parse(key: str, text: str, type_: Any) -> Any:
    """Converts a command-line value to the type of its field, unchecked.

    Args:
      key: of the setting, for errors.
      text: the value.
      type_: of the field.

    Raises:
      ValueError: it cannot be converted.
    """
    if len(text) > MAX_CHARACTERS:
        raise ValueError(
            f"{key} must have at most {MAX_CHARACTERS:,} characters; received "
            f"{len(text):,}"
        )
    type_ = _without_none(type_)[0]
    if type_ is str:
        return text
    if type_ is bool:
        if text.lower() in ("true", "false"):
            return text.lower() == "true"
        raise _wrong(key, "true or false", text)
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not text.startswith(("(", "[", "{")):
        if _is_weights(type_):
            return _parse_weights(key, parts)
        if type_ == tuple[str, ...]:
            return tuple(parts)
    try:
        value = ast.literal_eval(text)
    # The last two mean that it is nested too deep for the parser.
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError) as error:
        raise _wrong(key, _type_name(type_), text) from error
    if type_ is int and isinstance(value, float) and value.is_integer():
        return int(value)  # 1e5 reads well for a number of steps
    return value


def check(key: str, value: Any, type_: Any) -> Any:
    """Returns `value` as the type of its field; floats may be integers.

    Args:
      key: of the setting, for errors; empty for a whole object.
      value: as JSON or `parse` gives it.
      type_: of the field.

    Raises:
      ValueError: it has another type, or names an unknown setting.
    """
    inner, may_be_none = _without_none(type_)
    if inner is Any or (value is None and may_be_none):
        return value
    if _is_weights(inner):
        return _check_weights(key, value)
    if typing.get_origin(inner) is tuple:
        return _check_elements(key, value, typing.get_args(inner)[0])
    if typing.get_origin(inner) is collections.abc.Mapping:
        return _check_entries(key, value, typing.get_args(inner)[1])
    if dataclasses.is_dataclass(inner):
        return _make(key, value, inner)
    return _check_scalar(key, value, inner)


def has_64_bits(value: int) -> bool:
    """Returns whether an integer is one for arrays and files, with its sign."""
    return -(1 << 63) <= value < 1 << 63


def _check_scalar(key: str, value: Any, type_: Any) -> Any:
    accepted = (int, float) if type_ is float else type_
    holds = isinstance(value, accepted)
    if type_ in (int, float):
        # True is an integer too.
        holds = holds and not isinstance(value, bool)
    if not holds:
        raise _wrong(key, _type_name(type_), value)
    if isinstance(value, int) and not has_64_bits(value):
        raise _wrong(key, f"{_type_name(type_)} of 64 bits", value)
    if isinstance(value, float) and not math.isfinite(value):
        raise _wrong(key, "a finite number", value)
    return float(value) if type_ is float else value


def unknown(key: str, known: Sequence[str]) -> str:
    """Returns the error for a setting that does not exist; names one that is near.

    Args:
      key: what was given.
      known: all keys that there are.
    """
    by_last_part = {name.rpartition(".")[2]: name for name in known}
    compared = key[:_MAX_NAME_CHARACTERS]
    close = difflib.get_close_matches(compared, known, n=1)
    if not close:
        last = compared.rpartition(".")[2]
        names = difflib.get_close_matches(last, list(by_last_part), n=1)
        close = [by_last_part[name] for name in names]
    nearest = f"the nearest valid one is {close[0]!r}" if close else "none is like it"
    return f"unknown setting {short_repr.shown(key)}; {nearest}"


def _parse_weights(key: str, parts: Sequence[str]) -> dict[str, Any]:
    """Parses NAME=WEIGHT parts; a name alone has the weight 1."""
    weights: dict[str, Any] = {}
    for part in parts:
        name, separator, weight = part.rpartition("=")
        name, weight = (name, weight) if separator else (part, "1")
        if name in weights:
            received = short_repr.shown(part)
            rule = f"{key} must name each directory once"
            raise ValueError(f"{rule}; received {received}")
        try:
            weights[name] = float(weight)
        except ValueError as error:
            raise _wrong(key, _type_name(dict[str, float]), part) from error
    return weights


def _check_weights(key: str, value: Any) -> dict[str, float]:
    """Returns names with weights; that of a text, or of each of a list, is 1."""
    if isinstance(value, str):
        value = [value]
    if isinstance(value, list | tuple) and all(isinstance(x, str) for x in value):
        value = dict.fromkeys(value, 1.0)
    if isinstance(value, Mapping) and all(isinstance(name, str) for name in value):
        return {
            name: check(f"{key}: the weight of {short_repr.shown(name)}", weight, float)
            for name, weight in value.items()
        }
    raise _wrong(key, _type_name(dict[str, float]), value)


def _check_elements(key: str, value: Any, element: Any) -> tuple[Any, ...]:
    """Returns a tuple, such as one of texts, or of dataclasses."""
    is_list = isinstance(value, list | tuple)
    if not is_list or (element is str and not all(isinstance(x, str) for x in value)):
        raise _wrong(key, _type_name(tuple[element, ...]), value)
    return tuple(
        check(f"{key}.{number}", one, element) for number, one in enumerate(value, 1)
    )


def _check_entries(key: str, value: Any, element: Any) -> dict[str, Any]:
    """Returns an object with values of one type by name."""
    return {
        name: check(_inner(key, name), one, element)
        for name, one in _object(key, value).items()
    }


def _make(key: str, value: Any, cls: Any) -> Any:
    """Makes a dataclass, such as a stage, from its settings by name."""
    values = _object(key, value)
    fields = {field.name: field for field in dataclasses.fields(cls)}
    for name in values:
        if name not in fields:
            known = [_inner(key, field) for field in fields]
            raise ValueError(unknown(_inner(key, name), known))
    checked = {
        name: check(_inner(key, name), value, fields[name].type)
        for name, value in values.items()
    }
    for name, field in fields.items():
        defaults = (field.default, field.default_factory)
        if name not in values and set(defaults) == {dataclasses.MISSING}:
            owner = key or "the object"
            received = short_repr.shown(values)
            raise ValueError(f"{owner} must have {name}; received {received}")
    try:
        return cls(**checked)
    except ValueError as error:
        raise ValueError(f"{key}: {error}" if key else str(error)) from error


def _object(key: str, value: Any) -> dict[str, Any]:
    is_object = isinstance(value, Mapping)
    if not is_object or not all(isinstance(name, str) for name in value):
        raise _wrong(key, "an object", value)
    return dict(value)


def _inner(key: str, name: str) -> str:
    """Returns the key of a value within an object."""
    return f"{key}.{short_repr.cut(name)}" if key else short_repr.cut(name)


def _wrong(key: str, expected: str, value: Any) -> ValueError:
    name, received = key or "the value", short_repr.shown(value)
    return ValueError(f"{name} must be {expected}; received {received}")


def _without_none(type_: Any) -> tuple[Any, bool]:
    """Returns the type, and whether None is allowed too."""
    if isinstance(type_, types.UnionType):
        (inner,) = (arg for arg in typing.get_args(type_) if arg is not types.NoneType)
        return inner, True
    return type_, False


def _is_weights(type_: Any) -> bool:
    return typing.get_origin(type_) is dict


def _type_name(type_: Any) -> str:
    if _is_weights(type_):
        return "names with weights, such as wiki=3,books=1"
    if type_ == tuple[str, ...]:
        return "a list of texts, such as en,de"
    if typing.get_origin(type_) is tuple:
        is_plain = not dataclasses.is_dataclass(typing.get_args(type_)[0])
        return "a list" if is_plain else _LIST_OF_OBJECTS
    return _TYPE_NAMES[type_]
