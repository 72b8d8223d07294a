"""Import rules that import-linter cannot express; its contracts are in pyproject.toml.

A binary is a file beside the rooms, such as albert_tf/pretrain.py. Only binaries and
files called flags.py define flags, only albert_tf/devices/ names devices, files
import modules instead of symbols, and pure modules open no file.
"""

import ast
import functools
import re
import tomllib
from collections.abc import Iterator

from tests.repository import project_files

_READ_FLAGS = ("/flags.py", "core/cli.py", "core/command_line.py")
_FLAGS_RULE = "only binaries, flags.py and two files of core define and read flags"
# The Python API: it names what is public, and imports it when it is used.
PUBLIC_NAMES = "albert_tf/__init__.py"
DEVICES = "albert_tf/devices/"
DEVICE_NAMES = re.compile(
    r"tf\.(compat\.v1\.)?(distribute|tpu)\.\w+|"
    r"tf\.config\.(experimental\.)?(\w+_physical_devices|\w+_connect\w*)"
)
# Types in signatures, which construct nothing, and the rooms that may name them.
DISTRIBUTE_TYPES = {
    "tf.distribute.Strategy": ("albert_tf/",),
    "tf.distribute.InputContext": ("albert_tf/data/", "albert_tf/finetuning/"),
}


@functools.cache
def contracts() -> dict[str, dict]:
    """The contracts of import-linter by their ids."""
    options = tomllib.loads((project_files.ROOT / "pyproject.toml").read_text())
    return {item["id"]: item for item in options["tool"]["importlinter"]["contracts"]}


def is_binary(path: str) -> bool:
    """Returns whether a product file is a binary, by its place."""
    return re.fullmatch(r"(albert_tf|data_prep)/(?!__)\w+\.py", path) is not None


def violations(path: str, source: str, files: frozenset[str]) -> list[str]:
    """Each way in which one product file breaks the rules, as `path:line: rule`."""
    tree = ast.parse(source, path)
    if path == PUBLIC_NAMES:
        found = []
    elif path.endswith("/__init__.py"):
        found = _package_rules(tree)
    else:
        found = [*_import_rules(path, source, files), *_expression_rules(path, tree)]
    return [f"{path}:{line}: {rule}" for line, rule in sorted(set(found))]


def _package_rules(tree: ast.Module) -> list[tuple[int, str]]:
    rule = "an __init__.py holds a docstring and nothing else"
    if ast.get_docstring(tree) is None:
        return [(1, rule)]
    return [(node.lineno, rule) for node in tree.body[1:]]


def _import_rules(
    path: str, source: str, files: frozenset[str]
) -> Iterator[tuple[int, str]]:
    for item in project_files.imports_of(path, source):
        if item.module.split(".")[0] in project_files.PACKAGES:
            target = project_files.imported_file(item, files)
            name = f"{item.module}.{item.symbol}".replace(".", "/")
            if target is None:
                yield item.line, f"there is no file for {item.module}"
            elif item.symbol and target not in (f"{name}.py", f"{name}/__init__.py"):
                yield (
                    item.line,
                    f"imports the symbol {item.symbol} from {item.module}; import "
                    "modules, not symbols",
                )
        name = f"{item.module}.{item.symbol}"
        if name.startswith("absl.flags") and not _may_define_flags(path):
            yield (
                item.line,
                _FLAGS_RULE,
            )


def _expression_rules(path: str, tree: ast.Module) -> Iterator[tuple[int, str]]:
    is_pure = project_files.module_of(path) in contracts()["pure"]["source_modules"]
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            name = ast.unparse(node)
            if (device := _device_named(path, name)) is not None:
                yield node.lineno, f"names {device}, which only {DEVICES} may"
            if ".flags.DEFINE_" in f".{name}" and not _may_define_flags(path):
                yield (
                    node.lineno,
                    _FLAGS_RULE,
                )
        if is_pure and isinstance(node, ast.Call) and ast.unparse(node.func) == "open":
            yield node.lineno, "calls open, but this module is pure: no input or output"


def _may_define_flags(path: str) -> bool:
    return is_binary(path) or path.endswith(_READ_FLAGS)


def _device_named(path: str, name: str) -> str | None:
    match = DEVICE_NAMES.match(name.replace("tensorflow.", "tf.", 1))
    if match is None or path.startswith(DEVICES):
        return None
    allowed = DISTRIBUTE_TYPES.get(match.group())
    return None if allowed and path.startswith(allowed) else match.group()
