"""The project's binaries, and the flags that each defines; TensorFlow is not needed."""

import importlib
import pathlib
import types
from unittest import mock

from absl import flags

from albert_tf.core import machine
from tests.repository import import_rules, project_files

# The number of CPUs in a default; no flag has this number otherwise.
NUM_CPUS = 987_654_321


def names(root: pathlib.Path) -> list[str]:
    """The modules that are run with `python -m`, sorted."""
    paths = filter(import_rules.is_binary, project_files.python_files(root))
    return [project_files.module_of(path) for path in paths]


def load(name: str) -> types.ModuleType:
    """Imports a binary."""
    return importlib.import_module(name)


def flags_of(name: str) -> flags.FlagValues:
    """The flags of a binary, with the same defaults on every machine."""
    values = flags.FlagValues()
    with mock.patch.object(machine, "num_cores", return_value=NUM_CPUS):
        load(name).define_flags(values)
    return values
