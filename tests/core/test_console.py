"""The command albert-tf, without a command to run."""

import pytest

import albert_tf
from albert_tf.core import console


def test_a_wrong_command_is_told_the_nearest(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["albert-tf", "descibe"])
    with pytest.raises(SystemExit) as stopped:
        console.main()
    assert stopped.value.code == 2
    assert capsys.readouterr().err == (
        "error: there is no command 'descibe'; the nearest is 'describe'. albert-tf "
        "--help lists them\n"
    )


def test_the_version_is_that_of_the_package(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["albert-tf", "--version"])
    console.main()
    assert capsys.readouterr().out == f"albert-tf {albert_tf.__version__}\n"
