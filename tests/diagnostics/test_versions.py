"""Versions that differ from the pins, or are missing."""

import dataclasses
import tomllib
import types

import pytest

from albert_tf.diagnostics import findings, versions
from tests.repository import project_files

OK, WARNING, FAILED = findings.Status
PINS = {"tensorflow": "2.20.0", "numba": "0.68.1"}
FITTING = versions.Observed(
    python=(3, 12, 4),
    installed={**PINS, "grpcio": "1.85.1", "unrelated": "1.0"},
    required=PINS,
    constrained={**PINS, "grpcio": "1.85.1", "pytest": "9.2.0"},
    source="requirements.txt",
)


def _lines(**changes) -> list[tuple[findings.Status, str]]:
    found = versions.judge(dataclasses.replace(FITTING, **changes))
    assert all(one.remedy for one in found if one.status is not OK)
    return [(one.status, one.found) for one in found]


def test_fitting_versions():
    assert _lines() == [
        (OK, "Python 3.12.4"),
        (OK, "3 packages as pinned: tensorflow 2.20.0"),
    ]


def test_missing_package_fails_and_other_version_is_a_warning():
    installed = {"tensorflow": "2.20.0", "grpcio": "1.80.0"}
    assert _lines(installed=installed)[1:] == [
        (FAILED, "missing: numba"),
        (WARNING, "not as pinned: grpcio 1.80.0 (pinned: 1.85.1)"),
    ]


def test_long_lists_are_shortened():
    pins = {f"p{number}": "1" for number in range(8)}
    assert _lines(required=pins, constrained={}, installed={})[1:] == [
        (FAILED, "missing: p0, p1, p2, p3, p4, p5 and 2 more")
    ]


def test_python_without_wheels_fails():
    assert _lines(python=(3, 14, 0))[0] == (FAILED, "Python 3.14.0")


def test_tensorflow_text_of_another_tensorflow_fails():
    installed = {**FITTING.installed, "tensorflow-text": "2.19.0"}
    assert _lines(installed=installed)[1] == (
        FAILED,
        "these do not fit each other: tensorflow 2.20.0, tensorflow-text 2.19.0",
    )


def test_both_builds_of_tensorflow_fail():
    installed = {**FITTING.installed, "tensorflow-tpu": "2.20.0"}
    status, text = _lines(installed=installed)[1]
    assert status is FAILED
    assert text.startswith("both tensorflow and tensorflow-tpu")


def test_an_installed_package_has_no_pins_to_compare_with():
    line = (OK, "no pins to compare with: tensorflow 2.20.0")
    assert _lines(source="", required={}, constrained={})[1:] == [line]


def test_pins_are_read_from_the_projects_files(tmp_path, monkeypatch):
    (tmp_path / "requirements.txt").write_text(
        "# Why==not\nFoo_Bar==1.2  # a reason\nold==3; python_version < '3.12'\n"
    )
    (tmp_path / "requirements-tpu.txt").write_text("libtpu==0.0.31\n")
    observed = versions.observe(tmp_path)
    assert observed.required == {"foo-bar": "1.2", "old": "3"}
    assert (observed.source, observed.constrained) == ("requirements.txt", {})
    assert "numpy" in observed.installed
    build = {"Name": "tensorflow_tpu", "Version": "2.20.0"}
    distributions = [types.SimpleNamespace(metadata=found) for found in (build, {})]
    monkeypatch.setattr("importlib.metadata.distributions", lambda: distributions)
    observed = versions.observe(tmp_path)
    assert observed.required == {"libtpu": "0.0.31"}
    assert observed.installed == {"tensorflow-tpu": "2.20.0"}


def test_this_environment_is_as_pinned():
    found = versions.judge(versions.observe())
    assert [one.status for one in found] == [OK, OK], found


@pytest.mark.parametrize("version", versions.PYTHONS)
def test_pythons_are_those_of_the_project(version):
    text = (project_files.ROOT / "pyproject.toml").read_text()
    assert tomllib.loads(text)["project"]["requires-python"] == ">=3.11,<3.14"
    assert (3, 11) <= version < (3, 14)
