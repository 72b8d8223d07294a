"""The command albert-tf: `albert-tf COMMAND --flags` runs a binary of the project.

The same as `python -m albert_tf.COMMAND --flags`, or data_prep.COMMAND.
"""

import ast
import importlib.util
import pathlib
import runpy
import sys

PACKAGES = ("albert_tf", "data_prep")


def find_commands() -> dict[str, str]:
    """Returns the modules of all commands by their names, such as "train-vocab"."""
    found = {}
    for package in PACKAGES:
        spec = importlib.util.find_spec(package)
        folders = spec.submodule_search_locations if spec else None
        for folder in folders or ():
            for path in sorted(pathlib.Path(folder).glob("[!_]*.py")):
                name = path.stem.replace("_", "-")
                found[name] = f"{package}.{path.stem}"
    return found


def _summary(module: str) -> str:
    """Returns the first line of a module's docstring, without importing it."""
    spec = importlib.util.find_spec(module)
    source = pathlib.Path(spec.origin or "").read_text() if spec else ""
    return (ast.get_docstring(ast.parse(source)) or "").partition("\n")[0]


def usage() -> str:
    """Returns the list of all commands."""
    commands = find_commands()
    width = max(map(len, commands))
    lines = [
        f"  {name:{width}}  {_summary(module)}"
        for name, module in sorted(commands.items())
        if not name.startswith("bench-")
    ]
    return "\n".join(
        [
            "usage: albert-tf COMMAND --flags",
            "       albert-tf COMMAND --help",
            "",
            *lines,
        ]
    )


def main() -> None:
    """Runs the command that the first argument names."""
    arguments = sys.argv[1:]
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(usage())
        return
    name = arguments[0].replace("_", "-")
    module = find_commands().get(name)
    if module is None:
        print(
            f"error: there is no command {arguments[0]!r}; albert-tf --help lists them",
            file=sys.stderr,
        )
        sys.exit(2)
    sys.argv = [f"albert-tf {name}", *arguments[1:]]
    runpy.run_module(module, run_name="__main__", alter_sys=True)
