"""Each environment has a lock with the same pins, and the hashes of their files."""

import re

import pytest

from tests.repository import locks, project_files

_ROOT = project_files.ROOT


def _pins(name: str) -> set[str]:
    """The pins of a requirements file and of those that it includes."""
    text = (_ROOT / name).read_text()
    found = {
        locks.normalized(pin)
        for pin in re.findall(r"^[\w.\[\],-]+==[\w.]+", text, re.M)
    }
    for included in re.findall(r"^-r (\S+)", text, re.M):
        found |= _pins(included)
    return found


def test_there_is_a_lock_for_each_environment_and_nothing_else():
    names = sorted(path.name for path in locks.FOLDER.iterdir())
    assert names == locks.environments(_ROOT), "run `make locks`"
    assert {"requirements.txt", "requirements-dev.txt"} < set(names)


@pytest.mark.parametrize("name", locks.environments(_ROOT))
def test_a_lock_has_the_pins_of_its_environment_with_hashes(name):
    found = locks.parse((locks.FOLDER / name).read_text())
    assert _pins(name) <= found.keys(), "run `make locks`"
    for pin, digests in found.items():
        assert digests, pin
        assert all(re.fullmatch(r"sha256:[0-9a-f]{64}", one) for one in digests), pin


@pytest.mark.parametrize(
    ("name", "at_least"),
    [
        ("requirements.txt", 80),
        ("requirements-dev.txt", 80),
        ("requirements-serving.txt", 40),
    ],
)
def test_what_a_lock_installs_here_is_in_the_constraints(name, at_least):
    text = (locks.FOLDER / name).read_text()
    # What has a marker is for Windows and the browser.
    pins = re.findall(r"^([\w.-]+==[\w.]+) \\$", text, re.M)
    assert len(pins) > at_least
    lacking = {*map(locks.normalized, pins)} - _pins("constraints.txt")
    assert not lacking, "constraints.txt must pin them"


def test_a_lock_is_for_several_systems_and_pythons():
    found = locks.parse((locks.FOLDER / "requirements.txt").read_text())
    assert len(found["numpy==2.4.6"]) > 20


def test_hashes_belong_to_the_pin_before_them():
    text = (
        "absl-py==2.5.1 \\\n    --hash=sha256:aa \\\n    --hash=sha256:bb\n"
        "PyYAML==6.0.3 ; python_full_version < '3.12' \\\n    --hash=sha256:cc\n"
    )
    assert locks.parse(text) == {
        "absl-py==2.5.1": ["sha256:aa", "sha256:bb"],
        "pyyaml==6.0.3": ["sha256:cc"],
    }
    assert locks.normalized("Dask[array]==1.0") == "dask==1.0"
