"""Wikitext is parsed in a process with bounds, which is replaced when it ends."""

import io
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

import mwparserfromhell
import pytest

from data_prep.reading import wikitext, wikitext_process
from tests.support import process_end


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


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_process_that_is_ended_from_outside_drops_no_page(number):
    """Without the page the records would be other ones: the command has to end."""
    first = _parser()
    killer = threading.Timer(0.3, first.send_signal, [number])
    killer.start()
    with pytest.raises(ChildProcessError, match=rf"from outside \(code -{int(number)}"):
        wikitext_process.to_plain_text("<a " + "b=c " * 200_000 + ">x</a>", 60)
    killer.join()
    assert _parser() is not first


def test_what_is_too_large_after_other_pages_is_tried_in_a_new_process(monkeypatch):
    """Which pages are dropped must not depend on the pages before."""
    asked, ask = [], wikitext_process._Process.ask

    def fail_at_first(process, page, max_seconds):
        asked.append(page)
        if len(asked) == 1:
            process.num_pages += 1
            raise wikitext_process._TooLarge("it needs too much memory")
        return ask(process, page, max_seconds)

    first = _parser()
    monkeypatch.setattr(wikitext_process._Process, "ask", fail_at_first)
    assert wikitext_process.to_plain_text("[[a]]", 10) == "a"
    assert asked == ["[[a]]", "[[a]]"]
    assert first.poll() is not None
    monkeypatch.undo()
    fresh = wikitext_process._processes[os.getpid()] = wikitext_process._Process()
    with pytest.raises(wikitext_process.TooComplex, match="nested too deeply"):
        wikitext_process.to_plain_text("{" * 4000 + "}" * 4000, 10)
    # It was not tried twice, and the next page has the same process.
    assert _parser() is fresh._process


@pytest.mark.parametrize("ending", ["", "short", "no size"])
def test_a_part_of_an_answer_is_none(monkeypatch, tmp_path, ending):
    answer = {
        "": b"T" + (2).to_bytes(8) + b"ab",
        "short": b"T" + (2).to_bytes(8) + b"a",
        "no size": b"T\0\0",
    }[ending]
    program = tmp_path / "program.py"
    program.write_text(
        "import sys\n"
        f"sys.stdout.buffer.write(b'R' + {answer!r})\n"
        "sys.stdout.buffer.flush()\nsys.stdin.buffer.read(17)\nsys.exit(3)\n"
    )
    monkeypatch.setattr(wikitext, "__file__", str(program))
    monkeypatch.setattr(wikitext_process, "_processes", {})
    if not ending:
        assert wikitext_process.to_plain_text("a", 10) == "ab"
        return
    with pytest.raises(wikitext_process.TooComplex, match="ended the parser with code"):
        wikitext_process.to_plain_text("a", 10)


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
    process_end.wait_for_end(int(done.stdout), 30)


def test_a_process_that_does_not_start_is_named(monkeypatch, tmp_path):
    broken = tmp_path / "broken.py"
    broken.write_text("raise SystemExit(3)")
    monkeypatch.setattr(wikitext, "__file__", str(broken))
    monkeypatch.setattr(wikitext_process, "_processes", {})
    with pytest.raises(ChildProcessError, match="did not start: it ended with code 3"):
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

    monkeypatch.setattr(wikitext, "_limit", lambda *_: None)
    text = "é".encode()
    assert _answers("[[é]]") == b"RT" + (2).to_bytes(8) + text
    assert _answers("{" * 4000 + "}" * 4000) == b"RM"
    monkeypatch.setattr(mwparserfromhell, "parse", parse)
    assert _answers("u", "m") == b"RUM"


def test_a_lower_limit_of_the_machine_is_kept():
    code = (
        "import resource\n"
        "resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))\n"
        "from data_prep.reading import wikitext\n"
        "wikitext._limit(resource.RLIMIT_AS, 2 << 30)\n"
        "print(resource.getrlimit(resource.RLIMIT_AS)[0] >> 20)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout == "1024\n"
