"""Binaries as processes: their exit codes, and the signals that they get."""

import os
import signal
import subprocess
import sys
import textwrap
import time

import pytest

from albert_tf.core import binaries


def test_a_failure_has_the_last_line():
    with pytest.raises(ValueError, match="albert_tf.describe failed: error: "):
        binaries.run_module("albert_tf.describe", "--config=absent.py")


@pytest.mark.parametrize(("config", "code"), [("absent.py", 1), ("configs/demo.py", 0)])
def test_the_exit_code_is_returned(config, code, capfd):
    assert binaries.run_attached("albert_tf.describe", f"--config={config}") == code
    printed = capfd.readouterr()
    assert ("error: " in printed.err) == bool(code)


# A parent that runs a child, which says when it is asked to end and then takes a while.
_PARENT = """
    import sys
    from albert_tf.core import binaries
    print("code", binaries.run_attached("child"), flush=True)
"""
_CHILD = """
    import signal, sys, time
    def end(number, frame):
        print("asked by", number, flush=True)
        time.sleep(0.5)
        print("saved", flush=True)
        sys.exit(75)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)
    print("began", flush=True)
    time.sleep(60)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_process_saves_before_the_command_ends(tmp_path, number):
    (tmp_path / "child.py").write_text(textwrap.dedent(_CHILD))
    parent = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(_PARENT)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(binaries.ROOT)},
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        assert parent.stdout.readline() == "began\n"
        time.sleep(0.2)
        if number == signal.SIGINT:  # as the terminal does
            os.killpg(parent.pid, number)
        else:
            parent.send_signal(number)
        rest = parent.stdout.read()
        assert parent.wait(20) == 0
    finally:
        parent.kill()
    assert rest.splitlines() == [f"asked by {number.value}", "saved", "code 75"]
