"""Runs a binary of this project within the test's process."""

import re
import types

import pytest
from absl import flags


def run(module: types.ModuleType, *arguments: object) -> None:
    """What `python -m module arguments` does, with flags of its own."""
    values = flags.FlagValues()
    module.define_flags(values)
    rest = values([module.__name__, *map(str, arguments)])
    module.main(rest, values)


def error_of(capsys, module: types.ModuleType, *arguments: object) -> str:
    """The one line `error: …` that the binary must end with, without the prefix."""
    with pytest.raises(SystemExit) as stopped:
        run(module, *arguments)
    assert stopped.value.code == 1
    last = capsys.readouterr().err.rstrip("\n").splitlines()[-1]
    assert re.match(r"error: \S", last), last
    return last.removeprefix("error: ")
