"""Progress bars on terminals and in logs."""

import io
import sys

from albert_tf.core import progress_bar


class _Stream(io.StringIO):
    def __init__(self, is_terminal: bool):
        super().__init__()
        self._is_terminal = is_terminal

    def isatty(self) -> bool:
        return self._is_terminal


def _stream(monkeypatch, is_terminal: bool) -> _Stream:
    # Not in a fixture: pytest sets sys.stderr between the setup of a test and its call.
    stream = _Stream(is_terminal)
    monkeypatch.setattr(sys, "stderr", stream)
    return stream


def test_a_log_has_lines_and_few_of_them(monkeypatch):
    stream = _stream(monkeypatch, is_terminal=False)
    with progress_bar.make(total=1000, unit="step") as bar:
        for number in range(1000):
            bar.update()
            if number == 500:
                progress_bar.say("saved")
    lines = stream.getvalue().replace("\r", "").strip().split("\n")
    assert "| 0/1000" in lines[0]
    assert lines[1] == "saved"
    assert "1000/1000" in lines[2] and len(lines) == 3


def test_a_terminal_is_drawn_over(monkeypatch):
    stream = _stream(monkeypatch, is_terminal=True)
    with progress_bar.make(total=10, unit="step") as bar:
        bar.update(10)
    assert stream.getvalue().count("\n") == 1
    assert "\r" in stream.getvalue() and "10/10" in stream.getvalue()


def test_bars_that_are_switched_off_are_silent(monkeypatch):
    stream = _stream(monkeypatch, is_terminal=False)
    with progress_bar.make(total=10, disable=True) as bar:
        bar.update(10)
    assert not stream.getvalue()
