"""The Dockerfiles: what hadolint does not check, and their commands, run here.

Nothing here builds an image.
"""

import json
import os
import pathlib
import re
import shlex
import signal
import socket
import subprocess
import sys
import tomllib
from importlib import metadata

import pytest
from packaging import specifiers

from albert_tf.cluster import host_scripts, jobset, source
from tests.repository import locks, project_files
from tests.support import small_serving

ROOT = project_files.ROOT
NAMES = ("serving", "training")
# What `pip` reads in the images: in each file the same options.
_PIP = re.compile(
    r"python -m pip install --no-cache-dir --disable-pip-version-check (.*)"
)


def _instructions(name: str) -> list[tuple[str, str]]:
    """The instructions of a Dockerfile, each on one line, without comments."""
    text = (ROOT / "docker" / f"{name}.Dockerfile").read_text()
    lines = [one for one in text.splitlines() if not one.lstrip().startswith("#")]
    joined = re.sub(r"\s*\\\n\s*", " ", "\n".join(lines))
    return [
        (line.split(" ", 1)[0], line.split(" ", 1)[1])
        for line in joined.split("\n")
        if line
    ]


def _values(name: str, kind: str) -> list[str]:
    return [text for given, text in _instructions(name) if given == kind]


def _pip_arguments(name: str) -> list[str]:
    runs = _values(name, "RUN")
    return [found[1] for run in runs if (found := _PIP.search(run))]


# ---- Rules ----


@pytest.mark.parametrize("name", NAMES)
def test_base_images_are_of_one_version_and_python(name):
    stages = [text.split() for text in _values(name, "FROM")]
    own = {words[2] for words in stages if len(words) == 3}
    bases = {words[0] for words in stages} - own - {"packages-${ACCELERATOR}"}
    (base,) = bases
    found = re.fullmatch(r"python:(\d+\.\d+)\.\d+-slim-bookworm", base)
    assert found
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert found[1] in specifiers.SpecifierSet(project["requires-python"])
    # The machines that submit creates have the same.
    assert f"--python={found[1]} " in host_scripts.install(
        "a", host_scripts.TPU_PACKAGES
    )


@pytest.mark.parametrize("name", NAMES)
def test_the_image_runs_as_a_user_that_is_not_root(name):
    last = [kind for kind, _ in _instructions(name)]
    last = _instructions(name)[len(last) - last[::-1].index("FROM") :]
    assert [text for kind, text in last if kind == "USER"] == ["10001:10001"]
    (added,) = [text for kind, text in last if "useradd" in text]
    assert "--uid=10001 " in added
    assert jobset.USER_ID == 10001


@pytest.mark.parametrize("name", NAMES)
def test_no_secret_and_nothing_from_elsewhere_gets_into_the_image(name):
    kinds = {kind for kind, _ in _instructions(name)}
    assert kinds <= {
        *("ARG", "CMD", "COPY", "ENTRYPOINT", "ENV", "EXPOSE", "FROM", "HEALTHCHECK"),
        *("RUN", "USER", "WORKDIR"),
    }
    named = " ".join(_values(name, "ARG") + _values(name, "ENV"))
    assert not re.search(r"(?i)token|secret|passw|key|credential", named)
    assert not re.search(r"curl|wget|apt-get|https?:", " ".join(_values(name, "RUN")))


def _copied(name: str) -> set[str]:
    return {
        path
        for text in _values(name, "COPY")
        if not text.startswith("--from=")
        for path in text.split()[:-1]
    }


def test_the_training_image_has_what_submit_sends_to_machines():
    lock = ".ci/locks/requirements.txt"
    assert _copied("training") == {*source.PRODUCT, lock}
    assert set(_values("training", "WORKDIR")) == {jobset.CODE_DIR}


def test_only_what_is_copied_is_sent_to_the_builder():
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    rules = [line for line in lines if not line.startswith("#")]
    assert rules[0] == "*"
    allowed = {line.removeprefix("!") for line in rules if line.startswith("!")}
    assert allowed == _copied("training") | _copied("serving")
    assert set(rules[1 + len(allowed) :]) == {"**/BUILD", "**/__pycache__"}


# ---- Packages ----


def test_both_images_install_what_a_lock_lists_and_check_its_hashes():
    for name in NAMES:
        first, *_ = _pip_arguments(name)
        options, lock = first.split(" -r ")
        assert options == "--require-hashes"
        assert locks.parse((ROOT / lock).read_text())


def test_the_training_image_installs_as_make_and_submit_do():
    cpu, gpu, tpu = _pip_arguments("training")
    assert cpu == "--require-hashes -r .ci/locks/requirements.txt"
    assert (
        "folder=$locks arguments=--require-hashes"
        in (ROOT / ".ci" / "make_venv").read_text()
    )
    assert gpu == host_scripts.GPU_PACKAGES.arguments
    assert tpu == host_scripts.TPU_PACKAGES.arguments
    (with_cuda,) = [run for run in _values("training", "RUN") if run.startswith("sed")]
    assert with_cuda.startswith(host_scripts.GPU_PACKAGES.prepare.strip())


@pytest.mark.parametrize("name", NAMES)
def test_pip_takes_the_arguments_and_finds_all_at_the_locked_versions(name):
    """Without an index: all of it is in this environment, so nothing is missing."""
    arguments = shlex.split(_pip_arguments(name)[0])
    done = subprocess.run(
        [sys.executable, "-m", "pip", "install", "--dry-run", "--no-index", "--quiet"]
        + ["--no-cache-dir", "--disable-pip-version-check", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert "Would install" not in done.stdout


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


# ---- Commands ----

# As where a package is absent: nothing finds its modules, and nothing is raised.
_HIDING = """
import sys


class Hiding:
    def __init__(self, finder):
        self._finder = finder

    def __getattr__(self, name):
        return getattr(self._finder, name)

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in NAMES:
            return None
        return self._finder.find_spec(name, path, target)


sys.meta_path[:] = map(Hiding, sys.meta_path)
"""


def _without_other_packages(folder: pathlib.Path, packages: set[str]) -> dict[str, str]:
    """An environment in which Python has these distributions only."""
    hidden = [
        module
        for module, owners in metadata.packages_distributions().items()
        if not packages & set(map(_normal, owners))
    ]
    assert {"scipy", "matplotlib", "keras_hub"} <= set(hidden)
    names = [one for one in hidden if one not in sys.stdlib_module_names]
    text = f"NAMES = frozenset({names!r})\n{_HIDING}"
    (folder / "sitecustomize.py").write_text(text)
    # conftest.py sets the name of a Keras that the image has not.
    kept = {k: v for k, v in os.environ.items() if k != "TF_USE_LEGACY_KERAS"}
    return {**kept, "PYTHONPATH": str(folder), "CUDA_VISIBLE_DEVICES": ""}


def test_the_server_starts_with_the_images_packages_and_is_healthy(tmp_path):
    """ENTRYPOINT with CMD serves, and HEALTHCHECK passes once the model is loaded."""
    small_serving.save(small_serving.pretrained(), str(tmp_path / "model"))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]

    def here(command: list[str]) -> list[str]:
        local = {
            "/model": f"{tmp_path}/model",
            "0.0.0.0": "127.0.0.1",
            "8000": str(port),
        }
        for name, value in local.items():
            command = [one.replace(name, value) for one in command]
        assert command[0] == "python"
        return [sys.executable, *command[1:]]

    (entry,), (arguments,) = (_values("serving", one) for one in ("ENTRYPOINT", "CMD"))
    (health,) = _values("serving", "HEALTHCHECK")
    assert _values("serving", "EXPOSE") == ["8000"]
    options, _, check = health.partition(" CMD ")
    assert "--start-period=300s" in options
    *_, lock = _pip_arguments("serving")[0].split()
    names = re.findall(r"^([\w.-]+)==", (ROOT / lock).read_text(), re.M)
    environment = _without_other_packages(tmp_path, {_normal(name) for name in names})
    command = here(json.loads(entry) + json.loads(arguments)) + [f"--port={port}"]
    probe = here(json.loads(check))

    def is_healthy() -> bool:
        return subprocess.run(probe, capture_output=True, timeout=30).returncode == 0

    assert not is_healthy()  # nothing listens
    server = subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    try:
        said = ""
        for line in server.stdout:
            said += line
            if "ready at" in line:
                break
        else:
            raise AssertionError(said)
        assert is_healthy()
    finally:
        server.send_signal(signal.SIGTERM)
        server.communicate(timeout=60)
    assert server.returncode == 0


def test_the_training_image_checks_its_machine_by_default():
    (entry,) = _values("training", "ENTRYPOINT")
    (arguments,) = _values("training", "CMD")
    python, *rest = json.loads(entry) + json.loads(arguments)
    assert (python, rest) == ("python", ["-u", "-m", "albert_tf.doctor"])
    done = subprocess.run(
        [sys.executable, *rest, "--checks=cpu"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stdout.splitlines()[0].split()[1] == "cpu"


def test_hadolint_is_part_of_make_check():
    rules = (ROOT / "Makefile").read_text()
    check = rules[rules.index("\ncheck:") : rules.index(".PHONY: format")]
    assert "$(VENV)/bin/hadolint --no-color docker/*.Dockerfile\n" in check
