"""The command albert-tf: `albert-tf COMMAND --flags` runs a binary of the project.

The same as `python -m albert_tf COMMAND --flags`, and as `python -m albert_tf.COMMAND
--flags`, or data_prep.COMMAND.
"""

import ast
import difflib
import importlib
import importlib.util
import pathlib
import runpy
import shlex
import sys

PACKAGES = ("albert_tf", "data_prep")
# The words that run a command of this process by its name, such as "albert-tf"; empty
# if a module was run.
_program = ""


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


def command_line(module: str, *arguments: str) -> str:
    """Returns a command as typed in a shell, in the form in which this one was called.

    Args:
      module: of the binary, such as albert_tf.export.
      *arguments: its flags and other arguments.
    """
    if not _program:
        return shlex.join(["python", "-m", module, *arguments])
    name = module.rpartition(".")[2].replace("_", "-")
    return shlex.join([*_program.split(), name, *arguments])


def _summary(module: str) -> str:
    """Returns the first line of a module's docstring, without importing it."""
    spec = importlib.util.find_spec(module)
    source = pathlib.Path(spec.origin or "").read_text() if spec else ""
    return (ast.get_docstring(ast.parse(source)) or "").partition("\n")[0]


def usage(program: str = "albert-tf") -> str:
    """Returns the list of all commands.

    Args:
      program: the words before the name of a command.
    """
    commands = find_commands()
    width = max(map(len, commands))
    lines = [
        f"  {name:{width}}  {_summary(module)}"
        for name, module in sorted(commands.items())
        if not name.startswith("bench-")
    ]
    return "\n".join(
        [
            f"usage: {program} COMMAND --flags",
            f"       {program} COMMAND --help",
            f"       {program} --version",
            "",
            *lines,
        ]
    )


def main(program: str = "albert-tf") -> None:
    """Runs the command that the first argument names.

    Args:
      program: the words before the name of a command.
    """
    arguments = sys.argv[1:]
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(usage(program))
        return
    if arguments[0] == "--version":
        # By its name: the package names the modules of its API, which rank above.
        print(f"albert-tf {importlib.import_module('albert_tf').__version__}")
        return
    name = arguments[0].replace("_", "-")
    commands = find_commands()
    module = commands.get(name)
    if module is None:
        close = difflib.get_close_matches(name, commands, n=1, cutoff=0.5)
        nearest = f"the nearest is {close[0]!r}. " if close else ""
        print(
            f"error: there is no command {arguments[0]!r}; {nearest}{program} --help "
            "lists them",
            file=sys.stderr,
        )
        sys.exit(2)
    global _program
    _program = program
    sys.argv = [f"{program} {name}", *arguments[1:]]
    runpy.run_module(module, run_name="__main__", alter_sys=True)
