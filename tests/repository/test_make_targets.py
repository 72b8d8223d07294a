"""The Makefile, and the script that makes its environment; nothing is installed."""

import pathlib
import re
import shutil
import subprocess
import sys

import pytest

from tests.repository import project_files

_TOOLS = ("sh", "cat", "cmp", "basename", "ls", "mkdir", "rm", "sleep")


@pytest.fixture
def machine(tmp_path: pathlib.Path) -> pathlib.Path:
    """A directory to be the whole PATH of a machine that has no Python."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for tool in _TOOLS:
        path = shutil.which(tool)
        assert path is not None, tool
        (folder / tool).symlink_to(path)
    return folder


def _command(machine: pathlib.Path, name: str, script: str) -> None:
    (machine / name).write_text(f"#!/bin/sh\n{script}\n")
    (machine / name).chmod(0o755)


def _make_venv(machine: pathlib.Path, **environment: str):
    script = project_files.ROOT / ".ci" / "make_venv"
    return subprocess.run(
        ["sh", str(script), str(machine.parent / "venv"), "requirements.txt"],
        cwd=project_files.ROOT,
        env={"PATH": str(machine), **environment},
        capture_output=True,
        text=True,
    )


# Fakes pip and venv: each `-m venv X` makes an interpreter like itself, and
# what is asked of pip is written down.
_FAKE_PYTHON = f"""\
case "$*" in
  "-m venv "*) mkdir -p "$3/bin" "$3/lib/python3.11/site-packages"
    : >"$3/pyvenv.cfg"; cat "$0" >"$3/bin/python"; chmod +x "$3/bin/python" ;;
  "-m pip "*) echo "$*" >>"${{0%/bin/python}}/asked"; exit "${{PIP_EXIT:-0}}" ;;
  *) exec {sys.executable} "$@" ;;
esac"""


@pytest.fixture
def machine_with_python(machine):
    (machine / "chmod").symlink_to(str(shutil.which("chmod")))
    _command(machine, "python3.11", _FAKE_PYTHON)
    return machine


def test_without_a_usable_python_it_says_what_it_found_and_what_to_do(machine):
    _command(machine, "python3.12", "echo 'pyenv: not found' >&2; exit 127")
    _command(machine, "python3", "case $2 in *exit*) exit 1; esac; echo 3.10.13")
    result = _make_venv(machine, PYTHON="python2")
    assert result.returncode == 1
    for line in [
        "PYTHON=python2 is not there; looking for another one.",
        "  python3.11 is not there",
        "  python3.12 is there, but does not run",
        "  python3 is Python 3.10.13",
        "apt install python3.11-venv",
    ]:
        assert line in result.stderr
    assert not (machine.parent / "venv.unfinished").exists()


def test_python_without_ensurepip_is_named(machine):
    faulty = f'case $2 in *ensurepip*) exit 1; esac; exec {sys.executable} "$@"'
    _command(machine, "python3.11", faulty)
    result = _make_venv(machine)
    assert result.returncode == 1
    assert "without its modules venv and ensurepip" in result.stderr


def test_installs_once_what_the_lock_lists_with_its_hashes(machine_with_python):
    first = _make_venv(machine_with_python)
    assert first.returncode == 0, first.stderr
    second = _make_venv(machine_with_python)
    assert (second.returncode, second.stderr) == (0, "")
    asked = (machine_with_python.parent / "venv/asked").read_text().splitlines()
    locks = project_files.ROOT / ".ci" / "locks"
    # The installer first, so that a new one installs all else.
    expected = [f"{locks}/requirements-pip.txt", f"{locks}/requirements.txt"]
    assert [line.split(" --require-hashes -r ")[1] for line in asked] == expected


def test_without_a_lock_it_installs_with_the_constraints_and_says_so(
    machine_with_python, tmp_path
):
    script = project_files.ROOT / ".ci" / "make_venv"
    (tmp_path / "constraints.txt").write_text("")
    (tmp_path / "requirements-torch.txt").write_text("torch==2.13.0\n")
    result = subprocess.run(
        ["sh", str(script), "venv", "requirements-torch.txt"],
        cwd=tmp_path,
        env={"PATH": str(machine_with_python)},
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stderr
    assert "has no requirements-torch.txt: the hashes of packages are not" in (
        result.stderr
    )
    asked = (tmp_path / "venv" / "asked").read_text()
    assert asked.endswith("--constraint constraints.txt -r ./requirements-torch.txt\n")


def test_a_failed_installation_is_tried_again(machine_with_python):
    failed = _make_venv(machine_with_python, PIP_EXIT="1")
    assert failed.returncode == 1
    assert "The next call tries again." in failed.stderr
    again = _make_venv(machine_with_python)
    assert again.returncode == 0, again.stderr
    asked = (machine_with_python.parent / "venv/asked").read_text().splitlines()
    assert len(asked) == 2


def test_an_environment_cut_off_in_the_middle_is_made_again(machine_with_python):
    assert _make_venv(machine_with_python).returncode == 0
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    (machine_with_python.parent / "venv.unfinished").write_text(f"{gone.pid}\n")
    result = _make_venv(machine_with_python)
    assert result.returncode == 0, result.stderr
    assert "making it again" in result.stderr
    assert not (machine_with_python.parent / "venv.unfinished").exists()


def test_a_folder_that_is_no_environment_is_left_alone(machine_with_python):
    precious = machine_with_python.parent / "venv" / "thesis.txt"
    precious.parent.mkdir()
    precious.write_text("years of work")
    result = _make_venv(machine_with_python)
    assert result.returncode == 1
    assert "is no virtual environment" in result.stderr
    assert precious.read_text() == "years of work"


def test_help_lists_every_target():
    makefile = (project_files.ROOT / "Makefile").read_text()
    targets = set(re.findall(r"^\.PHONY: (\S+)$", makefile, re.M))
    make = shutil.which("make")
    assert make is not None
    result = subprocess.run(
        [make, "--no-print-directory"],
        cwd=project_files.ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    listed = set(re.findall(r"^  make (\S+)", result.stdout, re.M))
    assert listed == targets | {"bench-NAME"}
