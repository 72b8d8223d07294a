"""The wheel: what is in it, what it needs, and that it works from any directory."""

import os
import pathlib
import re
import subprocess
import sys
import tomllib
import zipfile

import pytest
from packaging import requirements, utils

import albert_tf
from tests.repository import project_files

ROOT = project_files.ROOT
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]
# The rooms and binaries that may import what an extra installs.
PLACES = {
    "serving": ("albert_tf/web/", "albert_tf/benchmarks/"),
    "interchange": ("albert_tf/interchange/", "albert_tf/benchmarks/"),
    "beam": ("data_prep/beam_pipeline", "data_prep/pipeline/beam"),
    "dask": ("data_prep/pipeline/dask_executor",),
    "openvino": ("albert_tf/inference/openvino_", "albert_tf/serving/openvino_"),
}


def _ranges(lines: list[str]) -> dict[str, requirements.Requirement]:
    found = map(requirements.Requirement, lines)
    return {utils.canonicalize_name(one.name): one for one in found}


def _pins(name: str) -> dict[str, str]:
    pins = re.findall(r"^([\w.-]+)==([\w.]+)", (ROOT / name).read_text(), re.M)
    return {utils.canonicalize_name(key): version for key, version in pins}


def test_the_pins_lie_within_the_ranges_of_the_package():
    ranges = _ranges(PROJECT["dependencies"])
    for extra in ("serving", "interchange"):
        ranges |= _ranges(EXTRAS[extra])
    pins = _pins("requirements.txt")
    assert pins.keys() == ranges.keys()
    for name, version in pins.items():
        assert ranges[name].specifier.contains(version), name


@pytest.mark.parametrize("extra", sorted(set(EXTRAS) - {"serving", "interchange"}))
def test_the_pins_of_an_extra_lie_within_its_ranges(extra):
    pins = _pins(f"requirements-{extra}.txt")
    if (
        extra == "beam"
    ):  # its environment stands alone, and is of versions of the package
        ranges = _ranges(PROJECT["dependencies"])
        for name in pins.keys() & ranges.keys():
            assert ranges[name].specifier.contains(pins[name]), name
        pins = {name: pins[name] for name in _ranges(EXTRAS[extra])}
    assert pins.keys() == _ranges(EXTRAS[extra]).keys()
    for name, one in _ranges(EXTRAS[extra]).items():
        assert one.specifier.contains(pins[name]), name


def test_what_an_extra_installs_is_imported_where_it_is_asked_for():
    found = []
    extra_of = {name: extra for extra in EXTRAS for name in _ranges(EXTRAS[extra])}
    for path in project_files.python_files(ROOT):
        if path.startswith("tests/"):
            continue
        for item in project_files.imports_of(path, (ROOT / path).read_text()):
            name = project_files.distribution_of(item, path)
            extra = extra_of.get(utils.canonicalize_name(name or ""))
            if extra and not path.startswith(PLACES[extra]):
                found.append(f"{path}:{item.line}: {item.module} is of [{extra}]")
    assert not found, "\n".join(found)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("wheel")
    words = ["-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run([sys.executable, *words], cwd=ROOT, check=True, capture_output=True)
    (path,) = folder.glob("*.whl")
    return path


@pytest.mark.slow
def test_the_wheel_has_the_product_and_nothing_else(wheel):
    assert wheel.name == f"albert_tf-{albert_tf.__version__}-py3-none-any.whl"
    names = zipfile.ZipFile(wheel).namelist()
    folder = f"albert_tf-{albert_tf.__version__}.dist-info"
    assert {name.split("/")[0] for name in names} == {"albert_tf", "data_prep", folder}
    ours = {
        path
        for path in project_files.repository_files(ROOT)
        if path.startswith(("albert_tf/", "data_prep/")) and not path.endswith("/BUILD")
    }
    recipes = {
        f"albert_tf/recipes/{path.name}" for path in (ROOT / "configs").glob("*.py")
    }
    environment = {
        f"albert_tf/environments/{name}"
        for name in (
            *("make_venv", "requirements-plan.txt"),
            *("locks/requirements-plan.txt", "locks/requirements-pip.txt"),
        )
    }
    found = {name for name in names if not name.startswith(folder)}
    assert found == ours | recipes | environment
    assert "albert_tf/py.typed" in found  # type checkers read the annotations
    assert wheel.stat().st_size < 2e6


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory) -> pathlib.Path:
    """A directory that the wheel is installed to; what it needs is in this Python."""
    folder = tmp_path_factory.mktemp("installed")
    words = ["-m", "pip", "install", "-qq", "--no-deps", "--no-index"]
    words += ["--disable-pip-version-check", f"--target={folder}", str(wheel)]
    subprocess.run([sys.executable, *words], check=True)
    return folder


def _run(installed, folder, *words: str) -> subprocess.CompletedProcess:
    variables = {**os.environ, "PYTHONPATH": str(installed)}
    return subprocess.run(
        words, cwd=folder, env=variables, capture_output=True, text=True
    )


@pytest.mark.slow
def test_the_command_lists_and_runs_the_binaries_anywhere(installed, tmp_path):
    command = str(installed / "bin" / "albert-tf")
    listed = _run(installed, tmp_path, sys.executable, command, "--help").stdout
    for name in ("pretrain", "create-pretraining-data", "train-vocab", "serve"):
        assert re.search(rf"^  {name}  +\w", listed, re.M), name
    assert "bench-" not in listed
    described = _run(
        installed, tmp_path, sys.executable, command, "describe", "--config=small"
    )
    assert described.returncode == 0, described.stderr
    by_module = _run(
        installed,
        tmp_path,
        sys.executable,
        *("-m", "albert_tf.describe", "--config=configs/small.py"),
    )
    ours, theirs = (
        one.stdout.partition(": L 4, H 256")[2] for one in (described, by_module)
    )
    assert ours == theirs != ""
    wrong = _run(installed, tmp_path, sys.executable, command, "pretran")
    assert wrong.returncode == 2
    assert "there is no command 'pretran'; the nearest is 'pretrain'" in wrong.stderr


@pytest.mark.slow
def test_the_installed_recipes_are_those_of_the_project(installed, tmp_path):
    code = "from albert_tf.core import recipes; print(recipes.FOLDER, *recipes.names())"
    folder, *names = _run(
        installed, tmp_path, sys.executable, "-c", code
    ).stdout.split()
    assert folder == str(installed / "albert_tf" / "recipes")
    ours = (ROOT / "configs").glob("[!_]*.py")
    assert names == sorted(path.stem for path in ours)


@pytest.mark.slow
def test_the_installed_package_makes_the_environment_of_the_tpu_compiler(
    installed, tmp_path
):
    pins = (ROOT / "requirements-plan.txt").read_bytes()
    # It is there already, so nothing is downloaded.
    python = tmp_path / "tools" / "venv" / "bin" / "python"
    subprocess.run(
        [sys.executable, "-m", "venv", python.parents[1], "--without-pip"], check=True
    )
    site = next((python.parents[1] / "lib").glob("python3*")) / "site-packages"
    (site / "pip.py").write_text("")
    (python.parents[1] / "installed-requirements-plan.txt").write_bytes(pins)
    code = (
        "import pathlib; from albert_tf.core import tool_environment as made; "
        f"print(made.make(pathlib.Path({str(tmp_path / 'tools')!r}), "
        "'requirements-plan.txt')); "
        "made.make(pathlib.Path('other'), 'requirements-bench-torch.txt')"
    )
    done = _run(installed, tmp_path, sys.executable, "-c", code)
    assert done.stdout.strip() == str(python), done.stderr
    assert (tmp_path / "tools" / "requirements-plan.txt").read_bytes() == pins
    assert "can be installed in a clone of the project only" in done.stderr


@pytest.mark.slow
def test_an_environment_of_the_installed_package_is_made_from_its_locks(
    installed, tmp_path, monkeypatch
):
    """All the way to what pip downloads, which is refused here."""
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    code = (
        "import pathlib; from albert_tf.core import tool_environment; "
        "tool_environment.make(pathlib.Path('tools'), 'requirements-plan.txt')"
    )
    done = _run(installed, tmp_path, sys.executable, "-c", code)
    assert done.returncode
    assert "No matching distribution found for pip==" in done.stderr
