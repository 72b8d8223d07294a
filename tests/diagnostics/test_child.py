"""Processes of checks end at their limit, and say how."""

import os

import pytest

from albert_tf.diagnostics import child


def test_output_and_arguments_are_passed():
    code = "import os, sys; print('{\"a\": 1}'); print(sys.argv[1:], os.environ['E'])"
    outcome = child.run(code, ["x", "y z"], 60.0, {"E": "set"})
    assert outcome.code == 0
    assert outcome.output == "{\"a\": 1}\n['x', 'y z'] set\n"
    assert outcome.values() == [{"a": 1}]


def test_hanging_process_is_killed_and_keeps_what_it_wrote():
    code = (
        "import os, time; print(os.getpid(), flush=True); "
        'print(\'{"step": 2}\\n{"cut\', flush=True); time.sleep(1000)'
    )
    outcome = child.run(code, [], 2.0)
    assert outcome.code is None
    assert outcome.describe() == "no end within 2 s"
    assert outcome.values() == [{"step": 2}]
    with pytest.raises(ProcessLookupError):
        os.kill(int(outcome.output.splitlines()[0]), 0)


def test_unkillable_process_is_given_up(monkeypatch):
    """As one is that waits in a driver: the signal has no effect."""
    killed = []
    monkeypatch.setattr(child, "_REAP_SECONDS", 0.1)
    with monkeypatch.context() as patch:
        patch.setattr("subprocess.Popen.kill", lambda self: killed.append(self))
        assert child.run("import time; time.sleep(1000)", [], 0.1).code is None
    [process] = killed
    process.kill()
    process.wait()


@pytest.mark.parametrize(
    ("code", "errors", "described"),
    [
        (-4, "", "crashed with SIGILL"),
        (-6, "a\nlibtpu: fatal\n\n", "crashed with SIGABRT (last line: libtpu: fatal)"),
        (-99, "", "crashed with signal 99"),
        (1, "Traceback\nImportError: libx.so\n", "ImportError: libx.so"),
        (3, "", "exit code 3"),
    ],
)
def test_ends_are_described_in_one_line(code, errors, described):
    assert child.Outcome(code, errors=errors).describe() == described


def test_crash_of_a_process_is_named():
    code = "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)"
    assert child.run(code, [], 60.0).describe() == "crashed with SIGSEGV"
