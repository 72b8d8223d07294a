"""Renders docs/reference/settings.md from the configuration's classes and the recipes.

A setting is described by the sentences of its class's docstring that name it in
backticks. A sentence that names none continues that of the setting named first in the
sentence before.
"""

import ast
import dataclasses
import inspect
import pathlib
import re
import types
import typing
from collections.abc import Iterator, Mapping
from typing import Any

from albert_tf.core import config as config_lib
from albert_tf.core import config_io

_TITLE = """\
# Settings

Every setting of a recipe, by section. `--set train.batch_size=64` changes one on the
command line of any binary that takes a recipe, and a recipe of your own is a Python
file like those in `configs/`. A value that breaks a rule is refused with the rule.
"""
_STAGES = """\
A stage of a run. In a recipe `train.stages` is a tuple of these, on the command line a
list of objects; `--set train.stages.2.batch_size=64` changes one setting of the second.
"""
_RECIPES = """\
## Recipes

What each recipe in `configs/` sets; all other settings have their defaults. A run saves
the settings that it used as `config.json`, which is accepted as a recipe too.
"""
_TYPES = {int: "integer", float: "number", bool: "true or false", str: "text"}
_HEAD = "| setting | default | values | meaning |\n|---|---|---|---|"


def render(root: pathlib.Path) -> str:
    """The text of the page.

    Args:
      root: of the repository, whose recipes are listed.

    Raises:
      ValueError: a docstring does not describe one of its settings.
    """
    parts = [_TITLE]
    for field in dataclasses.fields(config_lib.Config):
        section: Any = field.type
        parts.append(_section(f"## {field.name}", section, f"{field.name}."))
        if section is config_lib.TrainConfig:
            stage = config_lib.StageConfig
            parts += [_section("### train.stages", stage, "", _STAGES)]
    recipes = (path for path in sorted(root.glob("configs/*.py")))
    rows = [
        f"| `{path.name}` | {_cell(_summary(path.read_text()))} | "
        f"{_cell(', '.join(changes(config_io.load(str(path)))))} |"
        for path in recipes
        if path.name != "__init__.py"
    ]
    table = "\n".join(["| recipe | for | sets |\n|---|---|---|", *rows])
    return "\n".join([*parts, _RECIPES, table, ""])


def descriptions(docstring: str, names: set[str]) -> dict[str, str]:
    """The sentences of a docstring by the setting that they describe.

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


def changes(config: config_lib.Config) -> Iterator[str]:
    """Yields `section.name=value` of each setting that has not its default."""
    defaults = config_io.to_dict(config_lib.Config())
    for section, values in config_io.to_dict(config).items():
        for name, value in values.items():
            if name == "stages" and value:
                yield f"`{section}.{name}` ({len(value)})"
            elif value != defaults[section][name]:
                yield f"`{section}.{name}={shown(value)}`"


def shown(value: Any) -> str:
    """A value as it is written after `--set`."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return ",".join(map(str, value))
    if isinstance(value, Mapping):
        return ",".join(f"{name}={weight}" for name, weight in value.items())
    return str(value)


def _section(heading: str, section: Any, prefix: str, intro: str = "") -> str:
    """A heading, the summary of a class, and the table of its settings."""
    docstring = inspect.getdoc(section) or ""
    fields = dataclasses.fields(section)
    meaning = descriptions(docstring, {field.name for field in fields})
    rows = [
        f"| `{prefix}{field.name}` | {_default(field)} | {_values(field)} | "
        f"{_cell(meaning[field.name])} |"
        for field in fields
    ]
    summary = docstring.partition("\n")[0]
    return "\n".join([heading, "", intro or f"{summary}\n", _HEAD, *rows, ""])


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


def _default(field: dataclasses.Field) -> str:
    if field.default_factory is not dataclasses.MISSING:
        return "none"
    if field.default is dataclasses.MISSING:
        return "required"
    if field.default is None:
        return "as in the recipe"
    return f"`{shown(field.default)}`" if field.default not in ("", ()) else "empty"


def _values(field: dataclasses.Field) -> str:
    """The type of a setting, and its rule as its class states it after "must"."""
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


def _summary(source: str) -> str:
    """The first line of a module's docstring."""
    return (ast.get_docstring(ast.parse(source)) or "").partition("\n")[0]


def _cell(text: str) -> str:
    """Text for a cell of a table."""
    return text.replace("|", "\\|")
