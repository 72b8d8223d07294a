"""Parses wikitext in a process that ends if a page takes too long or too much memory.

The parser is a native library, which nothing in its own process can stop. Each process
that reads dumps has one, which is started with the first page and ends with it.
"""

import atexit
import contextlib
import os
import signal
import subprocess
import sys
import threading

from data_prep.reading import wikitext

_SECONDS_TO_END = 30
# Signals of a process whose stack or memory ends within the library.
_OWN_FAULTS = (signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT)


class TooComplex(Exception):
    """A page is too much for the parser; the text says of what."""


class _TooLarge(TooComplex):
    """It may be so only because of what the process has kept of other pages."""


class Unparsable(Exception):
    """The parser fails on a page."""


class _Process:
    """The parser's process, ready for pages.

    Raises:
      ChildProcessError: it does not start.
    """

    def __init__(self) -> None:
        self.num_pages = 0
        self._process = subprocess.Popen(
            [sys.executable, "-P", wikitext.__file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self._process.stdin is not None and self._process.stdout is not None
        self._input, self._output = self._process.stdin, self._process.stdout
        if self._output.read(1) != wikitext.READY:
            code = self._process.wait()
            raise ChildProcessError(
                f"the parser of wikitext did not start: it ended with code {code}"
            )

    def ask(self, page: str, max_seconds: int) -> str:
        """Returns the text of a page; errors as for `to_plain_text`."""
        self.num_pages += 1
        content = page.encode()
        header = (max_seconds, len(content))
        with contextlib.suppress(BrokenPipeError):  # its end says why
            self._input.write(
                b"".join(part.to_bytes(wikitext.SIZE_BYTES) for part in header)
            )
            self._input.write(content)
            self._input.flush()
        kind = self._output.read(1)
        if kind == wikitext.UNPARSABLE:
            raise Unparsable
        if kind == wikitext.TOO_MUCH:
            raise _TooLarge("it is nested too deeply, or needs too much memory")
        if kind == wikitext.TEXT:
            size = self._output.read(wikitext.SIZE_BYTES)
            text = self._output.read(int.from_bytes(size))
            if len(size) == wikitext.SIZE_BYTES and len(text) == int.from_bytes(size):
                return text.decode()
        code = self._process.wait()
        if code == -signal.SIGXCPU:
            raise TooComplex(
                f"it took more than text.max_markup_seconds={max_seconds} of a "
                "processor"
            )
        if code > 0 or -code in _OWN_FAULTS:
            raise _TooLarge(f"it ended the parser with code {code}")
        # Not the page's doing: without it the records would be other ones.
        raise ChildProcessError(
            f"the parser of wikitext was ended from outside (code {code}). Give the "
            "same command again"
        )

    @property
    def has_ended(self) -> bool:
        """Whether it takes no more pages."""
        return self._process.poll() is not None

    def close(self) -> None:
        """Ends it."""
        with contextlib.suppress(BrokenPipeError):
            self._input.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_SECONDS_TO_END)
        self.kill()

    def kill(self) -> None:
        """Ends it at once."""
        self._process.kill()
        self._process.wait()
        with contextlib.suppress(BrokenPipeError):
            self._input.close()
        self._output.close()


_lock = threading.Lock()
# The parser's process of this process: a fork has its own.
_processes: dict[int, _Process] = {}


def to_plain_text(page: str, max_seconds: int) -> str:
    """Extracts the running text of wikitext, as `wikitext.to_plain_text` does.

    Args:
      page: the wikitext.
      max_seconds: of a processor.

    Raises:
      TooComplex: it takes longer, is nested too deeply, needs more than
        `wikitext.MAX_MEMORY` bytes, or ends the parser.
      Unparsable: the library fails.
      ChildProcessError: the parser does not start, or something else ends it.
    """
    with _lock:
        process = _processes.get(os.getpid())
        if process is not None and not process.has_ended:
            try:
                return _ask(process, page, max_seconds)
            except _TooLarge:
                if process.num_pages == 1:
                    raise
                # What is dropped must not depend on the pages before.
                process.kill()
        process = _processes[os.getpid()] = _Process()
        return _ask(process, page, max_seconds)


def _ask(process: _Process, page: str, max_seconds: int) -> str:
    try:
        return process.ask(page, max_seconds)
    except (TooComplex, Unparsable):
        raise
    except BaseException:  # such as Ctrl-C: its answer would be the next page's
        process.kill()
        raise


@atexit.register
def _close() -> None:
    if process := _processes.pop(os.getpid(), None):
        process.close()
