"""Progress bars on standard error: drawn on a terminal, lines in a log."""

import sys
from collections.abc import Callable
from typing import Any

import tqdm

# Seconds from one line to the next in a log, and between two drawings on a terminal.
_LOG_SECONDS, _TERMINAL_SECONDS = 30.0, 1.0
# After which a terminal is drawn again where the pace of the updates falls.
_MAX_SECONDS = 10.0


class _Drawn(tqdm.tqdm):
    """Is wiped where an error ends it, so that the line of the error stands alone."""

    def __exit__(self, error_type: Any, error: Any, traceback: Any) -> None:
        if isinstance(error, Exception):
            self.leave = False
        super().__exit__(error_type, error, traceback)


class _Lines(tqdm.tqdm):
    """Writes lines instead of drawing over the one before; none where an error ends it.

    The line would say that something is done, just before the line of the error.
    """

    def __exit__(self, error_type: Any, error: Any, traceback: Any) -> None:
        if isinstance(error, Exception):
            self.disable = True
        super().__exit__(error_type, error, traceback)

    def moveto(self, n: int) -> None:
        """Moves nothing: other bars, also ended ones, are no lines above this one."""

    @staticmethod
    def status_printer(file: Any) -> Callable[[str], None]:
        def write(status: str) -> None:
            if status:
                file.write(f"{status}\n")
                file.flush()

        return write


def make(iterable: Any = None, **settings: Any) -> tqdm.tqdm:
    """Makes a progress bar; a call of its `update` moves it.

    Args:
      iterable: whose elements are counted, or None.
      **settings: of `tqdm.tqdm`.
    """
    is_terminal = sys.stderr.isatty()
    kind, seconds = (
        (_Drawn, _TERMINAL_SECONDS) if is_terminal else (_Lines, _LOG_SECONDS)
    )
    return kind(
        iterable,
        file=sys.stderr,
        mininterval=seconds,
        maxinterval=max(seconds, _MAX_SECONDS),
        dynamic_ncols=is_terminal,
        **settings,
    )


def say(line: str) -> None:
    """Writes a line above the bars that are drawn."""
    if sys.stderr.isatty():
        tqdm.tqdm.write(line, file=sys.stderr)
    else:
        print(line, file=sys.stderr, flush=True)
