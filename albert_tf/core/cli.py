"""Start of every binary, and one-line errors for what a user can fix."""

import contextlib
import importlib.util
import os
import select
import signal
import sys
from collections.abc import Callable, Iterator, Sequence

from absl import app, flags, logging

from albert_tf.core import (
    binaries,
    checkpoint_prefix,
    command_line,
    console,
    failures,
    files,
    other_formats,
    tensorflow_console,
)

# A flag belongs to the module that calls `define_list` or `define_data_settings`, and
# whose --help lists it.
flags.disclaim_key_flags()


def run(
    main: Callable[[Sequence[str]], None], define_flags: Callable[[], None]
) -> None:
    """Defines the flags and runs `main` with the remaining command line.

    Information lines of absl, and TensorFlow's of every checkpoint, would break up the
    progress line, so they are off; --verbosity=0 shows them.
    """
    define_flags()
    logging.set_verbosity(logging.WARNING)
    tensorflow_console.install()
    try:
        try:
            app.run(main, flags_parser=command_line.parse)
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        _end_if_nobody_reads()
        raise


def _end_if_nobody_reads() -> None:
    """Ends the process, silently, if the reader of standard output has ended.

    So do `head`, and `less` when one quits it. The exit code is the shell's, 141.
    """
    output = select.poll()
    output.register(sys.stdout, select.POLLOUT)
    if any(event & select.POLLERR for _, event in output.poll(0)):
        # Python flushes once more when it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(128 + signal.SIGPIPE)


@contextlib.contextmanager
def user_errors() -> Iterator[None]:
    """Ends the process with `error: …` on one line, exit code 1, no traceback.

    For what a user can fix: values, files, and TensorFlow's errors about files. The
    exit code is 75 (EX_TEMPFAIL) for an outage of the storage, which needs no fix. Any
    other exception is a bug and keeps its traceback. Ctrl-C ends the process with a
    line and the shell's exit code for it, 130.
    """
    try:
        yield
    except KeyboardInterrupt:
        print(
            "\ninterrupted; the same command resumes or starts again", file=sys.stderr
        )
        sys.exit(130)
    except _user_errors() as error:
        if isinstance(error, BrokenPipeError):
            _end_if_nobody_reads()
        line = f"error: {failures.one_line(error)}"
        if failures.is_outage(error):
            line += ". The storage cannot be reached; give the same command again later"
        print(line, file=sys.stderr)
        sys.exit(os.EX_TEMPFAIL if failures.is_outage(error) else 1)


def _user_errors() -> tuple[type[BaseException], ...]:
    errors: tuple[type[BaseException], ...] = (ValueError, FloatingPointError, OSError)
    # If TensorFlow was not imported, none of its errors can occur.
    tensorflow = sys.modules.get("tensorflow")
    return errors if tensorflow is None else (*errors, tensorflow.errors.OpError)


def next_command(module: str, *arguments: str) -> str:
    """Returns a sentence with the command that usually follows, as typed in a shell.

    Args:
      module: of the binary, such as albert_tf.export.
      *arguments: its flags and other arguments.

    Returns:
      The sentence; empty in a stage of another binary.
    """
    return _next(console.command_line(module, *arguments))


def print_next(module: str, *arguments: str) -> None:
    """Prints that sentence as a line, if there is one."""
    if line := next_command(module, *arguments):
        print(line)


def _next(command: str) -> str:
    return "" if binaries.is_stage() else f"Next: {command}"


def next_export(model_dir: str) -> str:
    """Returns a sentence with the command that exports a run to NAME_model.

    Args:
      model_dir: the directory of the run, whose name is NAME; local or remote.
    """
    return _next(command_line.export_command(model_dir))


def refuse_arguments(argv: Sequence[str]) -> None:
    """Raises a ValueError if the command line has an argument that is not a flag.

    Args:
      argv: the program's name and the arguments that absl did not parse.
    """
    if len(argv) > 1:
        raise ValueError(
            f"arguments must be flags; received {argv[1]!r}. Quote globs, so that the "
            "shell does not expand them, and repeat a flag for each of its values"
        )


def require_directories(flag_values: flags.FlagValues, *names: str) -> None:
    """Raises ValueError if a directory that a flag names does not exist.

    Args:
      flag_values: the parsed flags.
      *names: of flags with one path or a list of paths; an empty path is ignored.
    """
    for name in names:
        value = getattr(flag_values, name)
        for path in [value] if isinstance(value, str) else value:
            if path and not files.is_folder(path):
                raise ValueError(f"--{name}: there is no directory {path}")


def require_extra(extra: str, *packages: str) -> None:
    """Raises ValueError if packages are missing that an extra of the wheel installs.

    Args:
      extra: its name.
      *packages: names to import.
    """
    missing = [name for name in packages if importlib.util.find_spec(name) is None]
    if missing:
        raise ValueError(
            f"this command needs {', '.join(missing)}, which is not installed: pip "
            f"install 'albert-tf[{extra}]', or -r requirements.txt in a clone"
        )


def require_checkpoint(flag_values: flags.FlagValues, name: str) -> None:
    """Raises ValueError if a flag names neither a directory nor a checkpoint's prefix.

    So it does for a model of another library, and for an exported one.

    Args:
      flag_values: the parsed flags.
      name: of the flag; an empty path is ignored.
    """
    path = getattr(flag_values, name)
    if path:
        other_formats.refuse(path)
        other_formats.refuse_exported(path)
    if path and not (files.is_folder(path) or checkpoint_prefix.exists(path)):
        raise ValueError(
            f"--{name} must be the directory of a run, or the prefix of a checkpoint "
            f"such as RUN/model.ckpt-500; {checkpoint_prefix.say_missing(path)}"
        )


class _ListFlag(flags.Flag):
    """A comma-separated list, which adds to that of the same flag before it.

    With absl's own list flag the last one counts, so that `--input=a --input=b` would
    read b alone, without a word.
    """

    def parse(self, argument):
        before = self.value if self.present else []
        self.value = [*(before or []), *(self._parse(argument) or [])]
        self.present += 1


def define_list(
    name: str,
    default: Sequence[str] | None,
    help_text: str,
    flag_values: flags.FlagValues,
) -> None:
    """Defines a flag whose value is a list of strings.

    Args:
      name: without dashes.
      default: its value if it is not given; None if it has to be.
      help_text: of --help.
      flag_values: where it is defined.
    """
    value = None if default is None else list(default)
    parser, serializer = flags.ListParser(), flags.CsvListSerializer(",")
    flag = _ListFlag(parser, serializer, name, value, help_text)
    flags.DEFINE_flag(flag, flag_values)


def define_data_settings(flag_values: flags.FlagValues) -> None:
    """Defines --set for a binary that reads a task's files for a trained model."""
    flags.DEFINE_multi_string(
        "set",
        [],
        "task.on_bad_example=skip omits and counts examples that cannot be used, "
        "=error ends at the first. Default: as the run.",
        flag_values,
    )


def check_output_dir(output_dir: str, run_dirs: Sequence[str]) -> None:
    """Raises ValueError if the output directory is one of the runs' directories.

    Local paths are compared by the directory that they lead to, however they name it.
    """
    if _real_path(output_dir) in set(map(_real_path, run_dirs)):
        raise ValueError(
            "--output_dir must be another directory than that of a run, whose results "
            f"would be overwritten; received {output_dir}"
        )


def _real_path(path: str) -> str:
    return path.rstrip("/") if files.is_remote(path) else os.path.realpath(path)
