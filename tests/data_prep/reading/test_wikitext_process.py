"""Wikitext is parsed in a process with bounds, which is replaced when it ends."""

import io
import os
import pathlib
import signal
import subprocess
import sys
import textwrap
import time

import mwparserfromhell
import pytest

from data_prep.reading import wikitext, wikitext_process


def _parser() -> subprocess.Popen:
    """The process that has answered."""
    assert wikitext_process.to_plain_text("a", 10) == "a"
    return wikitext_process._processes[os.getpid()]._process


def _end(process: subprocess.Popen) -> None:
    process.kill()
    process.wait(30)


def test_pages_share_one_process_that_is_replaced_when_it_ends():
    first = _parser()
    assert _parser() is first
    _end(first)
    assert _parser() is not first


def test_a_process_that_ends_at_a_page_is_named(monkeypatch):
    first = _parser()
    process = wikitext_process._processes[os.getpid()]
    # Killed after it was looked at, as a page may.
    monkeypatch.setattr(type(process), "has_ended", False)
    _end(first)
    with pytest.raises(wikitext_process.TooComplex, match="process with code -9"):
        wikitext_process.to_plain_text("a", 10)
    monkeypatch.undo()
    assert _parser() is not first


def test_a_page_that_is_interrupted_has_no_late_answer():
    class Interrupt(Exception):
        pass

    def interrupt(*_):
        raise Interrupt

    first = _parser()
    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    try:
        with pytest.raises(Interrupt):
            wikitext_process.to_plain_text("<a " + "b=c " * 200_000 + ">x</a>", 60)
    finally:
        signal.signal(signal.SIGALRM, before)
    assert first.poll() == -9
    assert _parser() is not first


def test_seconds_are_of_one_page():
    first = _parser()
    page = "<a " + "b=c " * 40_000 + ">x</a>"
    before = time.monotonic()
    while time.monotonic() < before + 4:
        assert wikitext_process.to_plain_text(page, 3).strip() == "x"
    assert _parser() is first


def test_memory_is_bounded():
    _parser()
    with pytest.raises(wikitext_process.TooComplex):
        wikitext_process.to_plain_text("<a " + "b=c " * 3_000_000 + ">x</a>", 600)
    _parser()


def test_it_ends_with_its_reader():
    code = """
        import os
        from data_prep.reading import wikitext_process
        wikitext_process.to_plain_text("a", 10)
        (process,) = wikitext_process._processes.values()
        print(process._process.pid, flush=True)
        os.kill(os.getpid(), 9)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True
    )
    assert done.returncode == -9
    stat = pathlib.Path(f"/proc/{int(done.stdout)}/stat")
    end = time.monotonic() + 30
    while stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z":
        assert time.monotonic() < end
        time.sleep(0.05)


def test_a_process_that_does_not_start_is_named(monkeypatch, tmp_path):
    broken = tmp_path / "broken.py"
    broken.write_text("raise SystemExit(3)")
    monkeypatch.setattr(wikitext, "__file__", str(broken))
    monkeypatch.setattr(wikitext_process, "_processes", {})
    with pytest.raises(RuntimeError, match="did not start: it ended with code 3"):
        wikitext_process.to_plain_text("a", 10)


def _answers(*pages: str) -> bytes:
    parts = [
        (600).to_bytes(8) + len(page.encode()).to_bytes(8) + page.encode()
        for page in pages
    ]
    answers = io.BytesIO()
    wikitext.serve(io.BytesIO(b"".join(parts)), answers)
    return answers.getvalue()


def test_each_answer_says_what_it_is(monkeypatch):
    def parse(page, **_):
        raise {"u": mwparserfromhell.parser.ParserError("a"), "m": MemoryError()}[page]

    monkeypatch.setattr(wikitext.resource, "setrlimit", lambda *_: None)
    text = "é".encode()
    assert _answers("[[é]]") == b"RT" + (2).to_bytes(8) + text
    assert _answers("{" * 4000 + "}" * 4000) == b"RM"
    monkeypatch.setattr(mwparserfromhell, "parse", parse)
    assert _answers("u", "m") == b"RUM"
