"""Values of settings by the types of their fields: parsed, and checked.

A type is int, float, bool or str, one of them or None, a tuple of str, names with
weights (`dict[str, float]`), or a tuple of dataclasses, such as the stages of a run.
"""

import ast
import dataclasses
import difflib
import types
import typing
from collections.abc import Mapping, Sequence
from typing import Any

_TYPE_NAMES = {int: "an integer", float: "a number", bool: "true or false", str: "text"}


def parse(key: str, text: str, type_: Any) -> Any:
    """Converts a command-line value to the type of its field, unchecked.

    Args:
      key: of the setting, for errors.
      text: the value.
      type_: of the field.

    Raises:
      ValueError: it cannot be converted.
    """
    type_ = _without_none(type_)[0]
    if type_ is str:
        return text
    if type_ is bool:
        if text.lower() in ("true", "false"):
            return text.lower() == "true"
        raise ValueError(f"{key} must be true or false; received {text!r}")
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not text.startswith(("(", "[", "{")):
        if _is_weights(type_):
            return _parse_weights(key, parts)
        if type_ == tuple[str, ...]:
            return tuple(parts)
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError) as error:
        raise ValueError(
            f"{key} must be {_type_name(type_)}; received {text!r}"
        ) from error
    if type_ is int and isinstance(value, float) and value.is_integer():
        return int(value)  # 1e5 reads well for a number of steps
    return value


def check(key: str, value: Any, type_: Any) -> Any:
    """Returns `value` as the type of its field; floats may be integers.

    Args:
      key: of the setting, for errors.
      value: as JSON or `parse` gives it.
      type_: of the field.

    Raises:
      ValueError: it has another type, or names an unknown setting.
    """
    inner, may_be_none = _without_none(type_)
    if value is None and may_be_none:
        return None
    if inner is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if _is_weights(inner):
        return _check_weights(key, value)
    if typing.get_origin(inner) is tuple:
        return _check_elements(key, value, typing.get_args(inner)[0])
    if isinstance(value, inner) and not (inner is int and isinstance(value, bool)):
        return value
    raise ValueError(f"{key} must be {_type_name(inner)}; received {value!r}")


def unknown(key: str, known: Sequence[str]) -> str:
    """Returns the error for a setting that does not exist, with the nearest that does.

    Args:
      key: what was given.
      known: all keys that there are.
    """
    by_last_part = {name.rpartition(".")[2]: name for name in known}
    close = difflib.get_close_matches(key, known, n=1, cutoff=0.5)
    if not close:
        last = difflib.get_close_matches(
            key.rpartition(".")[2], list(by_last_part), n=1, cutoff=0.0
        )
        close = [by_last_part[last[0]]]
    return f"unknown setting {key!r}; the nearest valid one is {close[0]!r}"


def _parse_weights(key: str, parts: Sequence[str]) -> dict[str, Any]:
    """Parses NAME=WEIGHT parts; a name alone has the weight 1."""
    weights: dict[str, Any] = {}
    for part in parts:
        name, separator, weight = part.rpartition("=")
        name, weight = (name, weight) if separator else (part, "1")
        if name in weights:
            raise ValueError(f"{key} must name each directory once; received {part!r}")
        try:
            weights[name] = float(weight)
        except ValueError as error:
            raise ValueError(
                f"{key} must be {_type_name(dict[str, float])}; received {part!r}"
            ) from error
    return weights


def _check_weights(key: str, value: Any) -> dict[str, float]:
    """Returns names with weights; that of a text, or of each of a list, is 1."""
    if isinstance(value, str):
        value = [value]
    if isinstance(value, list | tuple):
        value = dict.fromkeys(value, 1.0)
    if isinstance(value, Mapping) and all(isinstance(name, str) for name in value):
        return {
            name: check(f"{key}: the weight of {name!r}", weight, float)
            for name, weight in value.items()
        }
    raise ValueError(
        f"{key} must be {_type_name(dict[str, float])}; received {value!r}"
    )


def _check_elements(key: str, value: Any, element: Any) -> tuple[Any, ...]:
    """Returns a tuple of texts, or of dataclasses made of dictionaries."""
    if isinstance(value, list | tuple):
        if dataclasses.is_dataclass(element):
            return tuple(
                _make(f"{key}.{number}", one, element)
                for number, one in enumerate(value, 1)
            )
        if all(isinstance(one, element) for one in value):
            return tuple(value)
    raise ValueError(
        f"{key} must be {_type_name(tuple[element, ...])}; received {value!r}"
    )


def _make(key: str, values: Any, cls: Any) -> Any:
    """Makes a dataclass of a list, such as a stage, from its settings by name."""
    if not isinstance(values, Mapping):
        raise ValueError(f"{key} must be an object; received {values!r}")
    fields = {field.name: field for field in dataclasses.fields(cls)}
    for name in values:
        if name not in fields:
            raise ValueError(unknown(f"{key}.{name}", [f"{key}.{n}" for n in fields]))
    checked = {
        name: check(f"{key}.{name}", value, fields[name].type)
        for name, value in values.items()
    }
    for name, field in fields.items():
        defaults = (field.default, field.default_factory)
        if name not in values and set(defaults) == {dataclasses.MISSING}:
            raise ValueError(f"{key} must have {name}; received {dict(values)!r}")
    try:
        return cls(**checked)
    except ValueError as error:
        raise ValueError(f"{key}: {error}") from error


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
    return _TYPE_NAMES.get(type_, "a list of objects, such as [{'num_steps': 900}]")
