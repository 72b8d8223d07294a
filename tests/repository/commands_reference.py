"""Renders docs/reference/commands.md from the flags and docstrings of the binaries."""

import inspect
import pathlib
import re
from typing import Any

from absl import flags

from albert_tf.core import command_line
from tests.repository import binary_flags, project_files

_TITLE = """\
# Commands

Every binary and its flags. A flag is given as `--name=value`, one that is true or false
as `--name` or `--noname`. `--help` prints the same; `--help_settings`, of the binaries
with `--set`, prints the settings of a recipe and their values.
"""
_BENCHMARKS = """\
## Benchmarks

`make bench-NAME BENCH_ARGS='...'` runs one in the project's environment.
"""
_HEAD = "| flag | default | values | meaning |\n|---|---|---|---|"
# A default of more characters is broken where its values are separated.
_MOST_CHARACTERS = 30
# What absl adds to the help of a flag with choices, and of one that is repeated.
_ADDED = re.compile(r"^<[^>]*>: |;\s+repeat this option to specify a list of values$")
_VALUES = {
    "bool": "true or false",
    "comma separated list of strings": "texts separated by commas",
    "float": "number",
    "int": "integer",
    "multi string": "text, repeatable",
    "string": "text",
}


def render(root: pathlib.Path) -> str:
    """The text of the page.

    Args:
      root: of the repository.
    """
    names = binary_flags.names(root)
    benchmarks = [name for name in names if ".bench_" in name]
    parts = [_TITLE]
    parts += [_binary(name) for name in names if name not in benchmarks]
    parts += [_BENCHMARKS, *(_binary(name, "###") for name in benchmarks)]
    return "\n".join(parts)


def _binary(name: str, level: str = "##") -> str:
    """A heading, the docstring, and the table of the flags of one binary."""
    docstring = inspect.getdoc(binary_flags.load(name)) or ""
    # A docstring that is no raw string has no line end after a backslash.
    docstring = re.sub(r"(?<=\S) {5,}--", " \\\\\n    --", docstring)
    parts = [f"{level} {name}", "", "```text", docstring, "```", ""]
    values = binary_flags.flags_of(name)
    rows = [row(values[flag]) for flag in values]
    return "\n".join([*parts, *([_HEAD, *rows, ""] if rows else [])])


def row(flag: flags.Flag) -> str:
    """The row of a flag in the table of its binary."""
    default = "required" if command_line.is_required(flag) else _default(flag.default)
    meaning = " ".join(_ADDED.sub("", flag.help or "").split()).replace("|", "\\|")
    return f"| `--{flag.name}` | {default} | {_values(flag)} | {meaning} |"


def _default(value: Any) -> str:
    if value is None or value in ("", []):
        return "none"
    if value == binary_flags.NUM_CPUS:
        return "number of CPUs"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    text = ",".join(value) if isinstance(value, list) else str(value)
    if isinstance(value, list) and len(text) > _MOST_CHARACTERS:
        return ", ".join(f"`{one}`" for one in value)
    root = str(project_files.ROOT)
    return f"`{text.replace(f'{root}/', '')}`" if text != root else "the checkout"


def _values(flag: flags.Flag) -> str:
    """What a flag accepts: its choices, or its type with bounds."""
    parser: Any = flag.parser
    if isinstance(flag, flags.EnumFlag):
        return ", ".join(f"`{value}`" for value in parser.enum_values if value)
    if flag.flag_type() not in ("int", "float"):
        return _VALUES[flag.flag_type()]
    low, high = parser.lower_bound, parser.upper_bound
    if flag.flag_type() == "float" and low is not None:
        # absl shares the parsers of equal bounds, 0 and 0.0: the first one's is kept.
        low = float(low)
    bounds = [f"at least {low}"] * (low is not None)
    bounds += [f"at most {high}".replace(str(2**63 - 1), "2^63 - 1")] * (
        high is not None
    )
    return ", ".join([_VALUES[flag.flag_type()], *bounds])
