"""Descriptions of the settings of a recipe, from the docstrings of their classes.

A setting is described by the sentences of its class's docstring that name it in
backticks. A sentence that names none continues that of the setting named first in the
sentence before.
"""

import dataclasses
import inspect
import re
import textwrap
import types
import typing
from collections.abc import Collection, Mapping
from typing import Any

from albert_tf.core import config as config_lib
from albert_tf.core import validation

_TYPES = {int: "integer", float: "number", bool: "true or false", str: "text"}
_WIDTH = 88


def render(config: config_lib.Config, path: str = "") -> str:
    """Returns all settings as text: name, value, type, default and meaning.

    Args:
      config: the values.
      path: of the recipe that they are of; empty for the defaults.
    """
    defaults = config_lib.Config()
    lines = [
        f"Settings of {path or 'a recipe'}. --set SECTION.NAME=VALUE changes one; * "
        "marks what is not the default."
    ]
    for part in dataclasses.fields(config_lib.Config):
        section: Any = part.type
        lines += ["", f"{part.name}: {summary(section)}"]
        meaning = descriptions(section)
        for field in dataclasses.fields(section):
            value = getattr(getattr(config, part.name), field.name)
            default = getattr(getattr(defaults, part.name), field.name)
            mark = " " if value == default else "*"
            lines += [
                f"{mark} {part.name}.{field.name}={shown(value)}   "
                f"({values(field)}; default {default_of(field).replace('`', '')})",
                textwrap.fill(
                    meaning[field.name].replace("`", ""),
                    _WIDTH,
                    initial_indent="    ",
                    subsequent_indent="    ",
                ),
            ]
    return "\n".join(lines).replace("`", "")


def summary(section: type) -> str:
    """Returns the first line of a section's docstring."""
    return (inspect.getdoc(section) or "").partition("\n")[0]


def descriptions(section: Any) -> dict[str, str]:
    """Returns the sentences that describe each setting of a section.

    Raises:
      ValueError: a setting is named in no sentence.
    """
    names = {field.name for field in dataclasses.fields(section)}
    return described_in(inspect.getdoc(section) or "", names)


def described_in(docstring: str, names: Collection[str]) -> dict[str, str]:
    """Returns the sentences of a docstring by the setting that they describe.

    Args:
      docstring: of a section; its first line is the summary.
      names: of the section's settings.

    Raises:
      ValueError: a setting is named in no sentence.
    """
    found: dict[str, list[str]] = {name: [] for name in names}
    text = " ".join(inspect.cleandoc(docstring).partition("\n")[2].split())
    described: list[str] = []
    for sentence in re.split(r"(?<=\.)\s+(?=[A-Z`0-9])", text):
        named = [name for name in re.findall(r"`(\w+)`", sentence) if name in names]
        described = list(dict.fromkeys(named)) or described[:1]
        for name in described:
            found[name].append(sentence)
    if missing := sorted(name for name, sentences in found.items() if not sentences):
        raise ValueError(
            f"each setting must be named, in backticks, in a sentence of the docstring "
            f"of its class; not described: {', '.join(missing)}"
        )
    return {name: " ".join(sentences) for name, sentences in found.items()}


def shown(value: Any) -> str:
    """Returns a value as it is written after `--set`."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return ",".join(map(_shown_element, value))
    if isinstance(value, Mapping):
        return ",".join(f"{name}={weight}" for name, weight in value.items())
    return str(value)


def default_of(field: dataclasses.Field) -> str:
    """Returns the default of a setting, in backticks if it is a value."""
    if field.default_factory is not dataclasses.MISSING:
        return "none"
    if field.default is dataclasses.MISSING:
        return "required"
    if field.default is None:
        return str(field.metadata.get(validation.DEFAULT_RULE, "as in the recipe"))
    return f"`{shown(field.default)}`" if field.default not in ("", ()) else "empty"


def values(field: dataclasses.Field) -> str:
    """Returns the type of a setting, and its rule, as stated after "must"."""
    type_ = _type(field.type)
    if "rule" not in field.metadata:
        return type_
    _, rule = field.metadata["rule"]
    if "one of" in rule:
        choices = rule.partition("of ")[2]
        return re.sub(r"\b(?!or empty|empty$)\w+", r"`\g<0>`", choices)
    if type_ not in _TYPES.values():
        return type_
    allowed = rule.removeprefix("must be ").removeprefix("must ")
    return f"{type_}, {allowed.replace('lie in', 'in').replace(str(2**63), '2^63')}"


def _shown_element(value: Any) -> str:
    """Returns an element of a list; of a stage only what it sets."""
    if not dataclasses.is_dataclass(value):
        return str(value)
    changed = {
        field.name: getattr(value, field.name)
        for field in dataclasses.fields(value)
        if getattr(value, field.name) not in (None, {})
    }
    return str(changed)


def _type(type_: Any) -> str:
    if isinstance(type_, types.UnionType):
        (inner,) = (arg for arg in typing.get_args(type_) if arg is not types.NoneType)
        return _type(inner)
    origin = typing.get_origin(type_)
    if origin is dict:
        return "names with weights"
    if origin is tuple:
        element = typing.get_args(type_)[0]
        return "list of texts" if element is str else "list of stages"
    return _TYPES[type_]
