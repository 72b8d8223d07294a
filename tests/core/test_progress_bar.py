"""Progress bars on terminals and in logs."""

import io
import sys

import pytest

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


@pytest.mark.parametrize("is_terminal", [False, True])
def test_the_line_of_an_error_stands_alone(monkeypatch, is_terminal):
    stream = _stream(monkeypatch, is_terminal)
    with pytest.raises(ValueError), progress_bar.make(total=10, unit="step") as bar:
        bar.update(7)
        raise ValueError("a bad byte")
    progress_bar.say("error: a bad byte")
    shown = stream.getvalue()
    # What a terminal shows of a line is what was written last over each column.
    *before, last = shown.removesuffix("\n").split("\n")
    assert last.rpartition("\r")[2] == "error: a bad byte"
    if is_terminal:
        assert not before and not last.split("\r")[-2].strip()
    else:
        assert last == "error: a bad byte"
        assert len(before) == 1 and "| 0/10" in before[0]


def test_a_log_has_no_codes_that_move_a_cursor(monkeypatch):
    stream = _stream(monkeypatch, is_terminal=False)
    errors = []  # that hold the bars
    for _ in range(2):
        with pytest.raises(ValueError) as raised:
            with progress_bar.make(total=10) as bar:
                bar.update(7)
                raise ValueError("a bad byte")
        errors.append(raised)
    with progress_bar.make(total=10), progress_bar.make(total=10) as bar:
        bar.update(10)
    assert "\x1b" not in stream.getvalue()


def test_a_bar_that_is_interrupted_stays(monkeypatch):
    for is_terminal in (False, True):
        stream = _stream(monkeypatch, is_terminal)
        with pytest.raises(KeyboardInterrupt), progress_bar.make(total=10) as bar:
            bar.update(7)
            raise KeyboardInterrupt
        assert stream.getvalue().rstrip().split("\r")[-1].rfind("7/10") > 0


def test_bars_that_are_switched_off_are_silent(monkeypatch):
    stream = _stream(monkeypatch, is_terminal=False)
    with progress_bar.make(total=10, disable=True) as bar:
        bar.update(10)
    assert not stream.getvalue()
