"""Renders docs/reference/settings.md from the settings and the recipes."""

import ast
import dataclasses
import pathlib
import re
from collections.abc import Iterator, Mapping
from typing import Any

from albert_tf.core import config as config_lib
from albert_tf.core import config_io, settings_help

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
_SENTENCE_END = re.compile(r"(?<=\.)(?<!e\.g\.) (?=[A-Z0-9`])")
# Shorter sentences, such as "0 is off.", are read faster than a reference to them.
_LEAST_CHARACTERS = 60
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


def changes(config: config_lib.Config) -> Iterator[str]:
    """Yields `section.name=value` of each setting that has not its default."""
    defaults = config_io.to_dict(config_lib.Config())
    for section, values in config_io.to_dict(config).items():
        for name, value in values.items():
            if name == "stages" and value:
                yield f"`{section}.{name}` ({len(value)})"
            elif value != defaults[section][name]:
                yield f"`{section}.{name}={settings_help.shown(value)}`"


def _section(heading: str, section: Any, prefix: str, intro: str = "") -> str:
    """A heading, the summary of a class, and the table of its settings."""
    fields = dataclasses.fields(section)
    described = settings_help.descriptions(section)
    in_order = {field.name: described[field.name] for field in fields}
    meaning = without_repetition(in_order, prefix)
    rows = [
        f"| `{prefix}{field.name}` | {settings_help.default_of(field)} | "
        f"{settings_help.values(field)} | "
        f"{_cell(meaning[field.name])} |"
        for field in fields
    ]
    summary = settings_help.summary(section)
    return "\n".join([heading, "", intro or f"{summary}\n", _HEAD, *rows, ""])


def without_repetition(meanings: Mapping[str, str], prefix: str) -> dict[str, str]:
    """Replaces long sentences that an earlier setting has by a reference to it.

    Args:
      meanings: of the settings of one section, by name.
      prefix: of the names of the section.
    """
    first: dict[str, str] = {}
    shown = {}
    for name, meaning in meanings.items():
        sentences = []
        for sentence in _SENTENCE_END.split(meaning):
            earlier = first.setdefault(sentence, name)
            is_repeated = earlier != name and len(sentence) >= _LEAST_CHARACTERS
            sentences.append(f"See `{prefix}{earlier}`." if is_repeated else sentence)
        shown[name] = " ".join(dict.fromkeys(sentences))
    return shown


def _summary(source: str) -> str:
    """The first line of a module's docstring."""
    return (ast.get_docstring(ast.parse(source)) or "").partition("\n")[0]


def _cell(text: str) -> str:
    """Text for a cell of a table."""
    return text.replace("|", "\\|")
