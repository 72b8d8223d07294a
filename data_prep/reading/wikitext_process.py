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


class TooComplex(Exception):
    """A page is too much for the parser; the text says of what."""


class Unparsable(Exception):
    """The parser fails on a page."""


class _Process:
    """The parser's process, ready for pages.

    Raises:
      RuntimeError: it does not start.
    """

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-P", wikitext.__file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self._process.stdin is not None and self._process.stdout is not None
        self._input, self._output = self._process.stdin, self._process.stdout
        if self._output.read(1) != wikitext.READY:
            code = self._process.wait()
            raise RuntimeError(
                f"the parser of wikitext did not start: it ended with code {code}"
            )

    def ask(self, page: str, max_seconds: int) -> str:
        """Returns the text of a page; errors as for `to_plain_text`."""
        content = page.encode()
        header = (max_seconds, len(content))
        with contextlib.suppress(BrokenPipeError):  # its end says why
            self._input.write(
                b"".join(part.to_bytes(wikitext.SIZE_BYTES) for part in header)
            )
            self._input.write(content)
            self._input.flush()
        kind = self._output.read(1)
        if kind == wikitext.TEXT:
            size = int.from_bytes(self._output.read(wikitext.SIZE_BYTES))
            return self._output.read(size).decode()
        if kind == wikitext.UNPARSABLE:
            raise Unparsable
        if kind == wikitext.TOO_MUCH:
            raise TooComplex("it is nested too deeply, or needs too much memory")
        code = self._process.wait()
        if code == -signal.SIGXCPU:
            raise TooComplex(
                f"it took more than text.max_markup_seconds={max_seconds} of a "
                "processor"
            )
        raise TooComplex(f"it ended the parser's process with code {code}")

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
        `wikitext.MAX_MEMORY` bytes, or ends the parser's process.
      Unparsable: the library fails.
    """
    with _lock:
        process = _processes.get(os.getpid())
        if process is None or process.has_ended:
            process = _processes[os.getpid()] = _Process()
        try:
            return process.ask(page, max_seconds)
        except (TooComplex, Unparsable):
            raise
        except BaseException:  # such as Ctrl-C: its answer would be the next page's
            del _processes[os.getpid()]
            process.kill()
            raise


@atexit.register
def _close() -> None:
    if process := _processes.pop(os.getpid(), None):
        process.close()
