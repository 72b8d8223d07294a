"""Commands of the binaries as the documentation writes them, and what is wrong in one.

A command is what follows `python -m albert_tf.NAME` in a block of code or in a span of
code; in a span `albert_tf.NAME --flag` is one too. It is read as a shell reads it, but
nothing is run: its flags and settings are parsed, by the binary's own definitions.
"""

import dataclasses
import inspect
import pathlib
import re
import shlex
from collections.abc import Iterator
from typing import Any, NamedTuple

from absl import flags

from albert_tf.core import config as config_lib
from albert_tf.core import config_io, setting_types
from tests.repository import binary_flags

# A block within three backticks, one indented by four spaces, and a span.
_FENCED = re.compile(r"^```.*?^```$", re.M | re.S)
_INDENTED = re.compile(r"(?:^    .*\n?)+", re.M)
_SPAN = re.compile(r"`([^`]+)`")
_MODULE = r"(?:albert_tf|data_prep)\.[a-z_]+"
_COMMAND = re.compile(rf"python -m ({_MODULE})(?![\w.])")
# In a block a command begins a line, perhaps after a prompt or variables.
_LINE = re.compile(rf"^(?:[ $]|\w+=\S+ )*(?:[\w./-]+/)?{_COMMAND.pattern}", re.M)
_SHORT = re.compile(rf"({_MODULE}) (?=--)")
# What ends a command; within quotes none of them does.
_ENDS = "\n;&|<>"
# Stands for what the reader adds.
_ELISIONS = ("...", "MORE")
# What is replaced before a command is split into words.
_REPLACED = (
    (re.compile(r"\\\n\s*"), " "),
    (re.compile(r"(?<=\S) {3,}[a-z].*"), ""),  # an explanation
    (re.compile(r"\[(--[^\]]*)\]"), r"\1"),  # flags that may be omitted
    (re.compile(r"(?<= )\$\w+(?=\s)"), _ELISIONS[0]),
    # Values that are right for a length and for a number of sequences.
    (re.compile(r"\$\(\([^)]*\)\)"), "1"),
    (re.compile(r"\$\w+"), "32"),
)
# A value that the reader chooses.
_PLACEHOLDER = re.compile(r"[A-Z]+(/\d+)?")
_UNSET = "must have a value other than None"


class Command(NamedTuple):
    """A command, the line that it starts in, and whether parts of it are left out."""

    line: int
    module: str
    arguments: tuple[str, ...]
    is_elided: bool


def find(text: str) -> Iterator[Command]:
    """Yields the commands of a page in Markdown: those in blocks, then in spans."""
    prose = text
    for block in (_FENCED, _INDENTED):
        for match in block.finditer(prose):
            yield from _in_code(text, match.start(), match.group(), _LINE, False)
        # Blanked, so that lines keep their numbers.
        prose = block.sub(lambda match: re.sub(r"[^\n]", " ", match.group()), prose)
    for span in _SPAN.finditer(prose):
        code = span.group(1).replace("\n", " ")
        pattern = _COMMAND if "python -m " in code else _SHORT
        yield from _in_code(text, span.start(), code, pattern, True)


def fault(command: Command, root: pathlib.Path) -> str | None:
    """What is wrong with a command, or None.

    Args:
      command: the command.
      root: of the repository, whose recipes it may name.
    """
    if command.module not in binary_flags.names(root):
        return f"there is no binary {command.module}"
    binary = binary_flags.load(command.module)
    values = binary_flags.flags_of(command.module)
    argv = [command.module, *command.arguments]
    try:
        if hasattr(binary, "parse_flags"):  # others are another program's
            binary.parse_flags(argv, values)
            rest = []
        else:
            rest = values(argv)[1:]
    except flags.Error as error:
        if not (command.is_elided and _UNSET in str(error)):
            return str(error)
        rest = []
    if rest and "refuse_arguments" in inspect.getsource(binary.main):
        return f"it takes flags only; received {rest[0]!r}"
    try:
        _check_settings(values, root, command.is_elided)
    except ValueError as error:
        return str(error)
    return None


def _in_code(
    text: str, start: int, code: str, pattern: re.Pattern, is_span: bool
) -> Iterator[Command]:
    for match in pattern.finditer(code):
        line = text.count("\n", 0, start + (0 if is_span else match.start())) + 1
        words = _words(code[match.end() :])
        kept = tuple(word for word in words if word not in _ELISIONS)
        is_elided = is_span or len(kept) < len(words)
        yield Command(line, match.group(1), kept, is_elided)


def _words(code: str) -> list[str]:
    """The words of a shell command up to its end."""
    for pattern, replacement in _REPLACED:
        code = pattern.sub(replacement, code)
    lexer = shlex.shlex(code, posix=True, punctuation_chars=_ENDS)
    lexer.whitespace, lexer.whitespace_split, lexer.commenters = " \t", True, ""
    words: list[str] = []
    for word in lexer:
        if word[0] in _ENDS or word == "#":
            break
        words.append(word)
    return words


def _check_settings(
    values: flags.FlagValues, root: pathlib.Path, is_elided: bool
) -> None:
    """Raises ValueError for a setting that does not exist, or breaks a rule.

    Rules are checked if the whole command is there, and the recipe is one of ours.
    """
    found: dict[str, Any] = {"config": "", "set": [], **values.flag_values_dict()}
    types, given = types_of_settings(), []
    for override in found["set"]:
        key, _, value = override.partition("=")
        name = re.sub(r"^train\.stages\.\d+\.", "train.stages.N.", key)
        if name not in types:
            raise ValueError(setting_types.unknown(key, list(types)))
        if not _PLACEHOLDER.fullmatch(value):
            parsed = setting_types.parse(key, value, types[name])
            setting_types.check(key, parsed, types[name])
            given.append(override)
    recipe = found["config"]
    if recipe.startswith("configs/") and not re.search("[A-Z]", recipe):
        config_io.load(str(root / recipe), [] if is_elided else given)


def types_of_settings() -> dict[str, Any]:
    """The type of each setting by its name."""
    sections: dict[str, Any] = {
        field.name: field.type for field in dataclasses.fields(config_lib.Config)
    } | {"train.stages.N": config_lib.StageConfig}
    return {
        f"{section}.{field.name}": field.type
        for section, cls in sections.items()
        for field in dataclasses.fields(cls)
    }
