"""SIGTERM and Ctrl-C, handled while a loop runs on the devices."""

import os
import signal
import socket
import sys
import threading
from typing import Any, NoReturn

import tensorflow as tf

# EX_TEMPFAIL of sysexits.h: try again. The exit code after SIGTERM, once saved.
PREEMPTED = 75
INTERRUPTED = 130

_EXIT_CODES = {int(signal.SIGTERM): PREEMPTED, int(signal.SIGINT): INTERRUPTED}


class Stopped(Exception):
    """A run was asked to end and has saved; `exit_code` is that of the process."""

    def __init__(self, exit_code: int | None, step: int):
        super().__init__(
            f"asked to end: saved at step {step}; the same command resumes"
        )
        # Another worker of the run may have received the signal.
        self.exit_code = exit_code or PREEMPTED


def exit_now(code: int) -> NoReturn:
    """Exits at once; everything must be saved.

    TensorFlow would first wait for its own threads, sometimes for most of a minute:
    longer than a preempted machine has.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def exit_lost(line: str) -> NoReturn:
    """Prints a line and exits: another process has taken what this one worked on."""
    print(line, file=sys.stderr)
    exit_now(PREEMPTED)


class StopRequest:
    """Within its `with`, the first signal sets `stop`; a second Ctrl-C exits at once.

    Python runs signal handlers in the main thread only, which a loop on the devices
    keeps busy for many steps. So Python's C handler writes the signal's number to a
    socket at once, and a thread that reads it sets the variable.
    """

    def __init__(self, stop: tf.Variable):
        """Takes the float32 scalar to set to 1."""
        self._stop = stop
        self._received: int | None = None
        self._before: dict[int, Any] = {}

    @property
    def exit_code(self) -> int | None:
        """The exit code once everything is saved; None without a signal."""
        return None if self._received is None else _EXIT_CODES[self._received]

    def __enter__(self) -> "StopRequest":
        if threading.current_thread() is not threading.main_thread():
            return self  # Python lets no other thread handle signals
        self._reader, self._writer = socket.socketpair()
        self._writer.setblocking(False)
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()
        # The socket is ready before the default handlers go, so that no signal is lost.
        self._wakeup = signal.set_wakeup_fd(self._writer.fileno())
        self._before = {
            number: signal.signal(number, self._handle) for number in _EXIT_CODES
        }
        return self

    def __exit__(self, *_) -> None:
        if not self._before:
            return
        for number, handler in self._before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._wakeup)
        self._before = {}
        self._writer.close()  # which ends the thread
        self._thread.join()
        self._reader.close()

    def _listen(self) -> None:
        while numbers := self._reader.recv(16):
            for number in numbers:
                if number in _EXIT_CODES and self._received is None:
                    self._received = number
                    self._stop.assign(1.0)
                elif number == signal.SIGINT:
                    # The main thread may be deep in a loop for minutes.
                    os._exit(INTERRUPTED)

    def _handle(self, number: int, frame) -> None:
        """Replaces the default handler, which would end the process."""
