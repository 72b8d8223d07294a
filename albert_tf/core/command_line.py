"""Reads the command line: help, settings of the recipe, and errors of flags."""

import difflib
import shlex
import sys
from collections.abc import Callable, Iterable, Sequence

from absl import app, flags

from albert_tf.core import config as config_lib
from albert_tf.core import config_io, console, failures, provenance, settings_help

_SETTINGS = "help_settings"


class _HelpFlag(app.HelpFlag):
    """-h, as --help."""

    NAME = "h"
    SHORT_NAME = None


def is_required(flag: flags.Flag) -> bool:
    """Returns whether a binary refuses to start without the flag."""
    return any("other than None" in item.message for item in flag.validators)


def parse(
    argv: Sequence[str],
    flag_values: flags.FlagValues = flags.FLAGS,
    parse_flags: Callable[[list[str]], list[str]] | None = None,
) -> list[str]:
    """Parses the flags, and returns the program's name and the other arguments.

    Prints what is asked for and ends the process with exit code 0 if that is help or
    the settings, and with 1 after a line about a wrong flag.

    Args:
      argv: the program's name, flags and arguments.
      flag_values: the flags.
      parse_flags: parses `argv`, as `flag_values` does by default.
    """
    _define_help(argv[0], flag_values)
    arguments, wrong = [argv[0]], None
    try:
        arguments = (parse_flags or flag_values)(list(argv))
    except SystemExit:
        sys.exit(0)  # a flag of absl printed help, after which absl's code is 1
    except flags.Error as error:
        wrong = error
    if _SETTINGS in flag_values and flag_values[_SETTINGS].value:
        _print_settings(flag_values)
    if wrong is not None:
        print(_complaint(wrong, flag_values), file=sys.stderr)
        sys.exit(1)
    return arguments


def _define_help(program: str, flag_values: flags.FlagValues) -> None:
    if _HelpFlag.NAME not in flag_values:
        flags.DEFINE_flag(_HelpFlag(), flag_values)
    if _takes_settings(flag_values) and _SETTINGS not in flag_values:
        flags.DEFINE_bool(
            _SETTINGS,
            False,
            "Lists the settings that --set changes, with the values of --config.",
            flag_values,
        )
        # absl's help has the flags that are registered for the program.
        flag_values.register_key_flag_for_module(program, flag_values[_SETTINGS])


def _takes_settings(flag_values: flags.FlagValues) -> bool:
    """Returns whether a binary takes any setting; evaluate's --set takes one alone."""
    return "set" in flag_values and "config" in flag_values


def _print_settings(flag_values: flags.FlagValues) -> None:
    """Prints the settings of the recipe, and ends the process."""
    path = flag_values["config"].value if "config" in flag_values else ""
    try:
        config = config_io.load(path or "", flag_values["set"].value or ())
    except ValueError as error:
        print(f"error: {failures.one_line(error)}", file=sys.stderr)
        sys.exit(1)
    print(settings_help.render(config, path or ""))
    sys.exit(0)


def joined(names: Iterable[str]) -> str:
    """Returns names as in a sentence: "a, b and c"."""
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last


def export_command(model_dir: str) -> str:
    """Returns the command that exports a run to NAME_model, as typed in a shell.

    Args:
      model_dir: the directory of the run, whose name is NAME; local or remote.
    """
    output_dir = f"{provenance.name_of(model_dir)}_model"
    return console.command_line(
        "albert_tf.export", f"--model_dir={model_dir}", f"--output_dir={output_dir}"
    )


def _with_own_flags(
    error: flags.UnrecognizedFlagError, flag_values: flags.FlagValues
) -> flags.UnrecognizedFlagError:
    """Returns the error with the nearest of the binary's flags, without absl's own."""
    name = error.flagname
    own = [
        one
        for one in flag_values
        if not (flag_values.find_module_defining_flag(one) or "").startswith("absl.")
    ]
    close = difflib.get_close_matches(name[:100], own, n=1)
    return flags.UnrecognizedFlagError(name, error.flagvalue, close)


def _settings_named(name: str) -> list[str]:
    """Returns the keys of the settings with a name, such as "train.batch_size"."""
    sections = config_io.to_dict(config_lib.Config())
    return [f"{section}.{name}" for section in sections if name in sections[section]]


def _complaint(error: flags.Error, flag_values: flags.FlagValues) -> str:
    """Returns lines about the flags that are missing, or else about a wrong one."""
    if isinstance(error, flags.UnrecognizedFlagError):
        if error.flagname == "model_dir" and "saved_model" in flag_values:
            command = export_command(error.flagvalue.partition("=")[2] or "RUN")
            return (
                "error: there is no flag --model_dir; this command takes an exported "
                f"model, as --saved_model. Export the run first: {command}"
            )
        # Of settings of two sections a binary may read only one.
        if (
            _takes_settings(flag_values)
            and len(keys := _settings_named(error.flagname)) == 1
        ):
            value = error.flagvalue.partition("=")[2] or "VALUE"
            return (
                f"error: there is no flag --{error.flagname}. A setting is given as "
                f"{shlex.join(['--set', f'{keys[0]}={value}'])}"
            )
        error = _with_own_flags(error, flag_values)
    missing = {}
    for name in flag_values:
        flag = flag_values[name]
        if flag.value is None and is_required(flag):
            missing[f"--{flag.name}"] = " ".join((flag.help or "").split())
    is_missing = isinstance(error, flags.IllegalFlagValueError) and missing
    if not is_missing or "other than None" not in str(error):
        message = failures.one_line(error).rstrip(".").replace(" ?", "?")
        end = "" if message.endswith("?") else "."
        return f"error: {message}{end} --help lists the flags"
    lines = [f"  {name}: {text}" for name, text in missing.items()]
    first = f"error: {joined(missing)} must be given; --help lists the flags"
    return "\n".join([first, *lines])
