"""A real Bazel loads the BUILD files and refuses an upward dependency.

Debian's bazel-bootstrap is 4.2.3, which knows no MODULE.bazel: a WORKSPACE gives it
fake rules_python and pypi repositories, so that nothing is downloaded.
"""

import pathlib
import shutil
import subprocess

import pytest

from tests.repository import project_files

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        shutil.which("bazel") is None,
        reason="no bazel on PATH (Debian: apt install bazel-bootstrap)",
    ),
]

# Analysis of the native py_binary and py_test would download a C++ toolchain.
_NATIVE = "def {0}(**kwargs):\n    native.{0}(**kwargs)\n"
_AS_LIBRARY = """\
def {0}(name, srcs, data = [], deps = [], size = None, args = None, main = None):
    native.py_library(name = name, srcs = srcs, data = data, deps = deps)
"""


def _workspace(root: pathlib.Path, rule: str) -> pathlib.Path:
    """Copies what Bazel reads into `root`; `rule` is the fake binary and test rule."""
    paths = project_files.repository_files(project_files.ROOT)
    for path in paths:
        if path.split("/")[0] in (*project_files.PACKAGES, "BUILD", "pyproject.toml"):
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(project_files.ROOT / path, root / path)
    rules = root / "build" / "rules_python" / "python"
    rules.mkdir(parents=True)
    (rules / "BUILD").touch()
    for name in ("py_binary", "py_library", "py_test"):
        text = _NATIVE if name == "py_library" else rule
        (rules / f"{name}.bzl").write_text(text.format(name))
    pypi = root / "build" / "pypi"
    for name in project_files.pinned_distributions(
        project_files.ROOT, "constraints.txt"
    ):
        (pypi / name).mkdir(parents=True)
        (pypi / name / "BUILD").write_text(
            f'py_library(name = "{name}", visibility = ["//visibility:public"])\n'
        )
    repositories = []
    for name in ("rules_python", "pypi"):
        (root / "build" / name / "WORKSPACE").touch()
        path = f"build/{name}"
        repositories.append(f'local_repository(name = "{name}", path = "{path}")\n')
    (root / "WORKSPACE").write_text("".join(repositories))
    return root


def _bazel(root: pathlib.Path, *arguments: str) -> subprocess.CompletedProcess:
    command = ["bazel", "--batch", f"--output_user_root={root.parent / 'output'}"]
    return subprocess.run(
        [*command, *arguments], cwd=root, capture_output=True, text=True, timeout=600
    )


def test_every_target_loads(tmp_path):
    done = _bazel(_workspace(tmp_path / "tree", _NATIVE), "query", "//...")
    assert done.returncode == 0, done.stderr[-3000:]
    labels = set(done.stdout.split())
    for path in project_files.python_files(project_files.ROOT):
        folder, _, name = path.removesuffix(".py").rpartition("/")
        is_target = folder in ("albert_tf", "data_prep") or name.startswith("test_")
        room = "/".join(folder.split("/")[:2])
        library = f"//{room}:{room.rpartition('/')[2]}"
        expected = f"//{folder}:{name}" if is_target else library
        is_product = not folder.startswith("tests")
        if name != "__init__" and (is_target or is_product):
            assert expected in labels, path
    assert {"//:albert_tf.pretrain", "//:data_prep.verify", "//:tree"} <= labels


def test_visibility_allows_all_imports_and_refuses_an_upward_one(tmp_path):
    root = _workspace(tmp_path / "tree", _AS_LIBRARY)
    # Depends on a room above its own, and is not imported by it.
    with (root / "albert_tf" / "core" / "BUILD").open("a") as file:
        upward = '["//albert_tf/web:web"]'
        file.write(f'\npy_library(name = "planted", deps = {upward})\n')
    done = _bazel(root, "build", "--nobuild", "--keep_going", "//...")
    errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR: /")]
    assert len(errors) == 1, done.stderr[-3000:]
    assert (
        "target '//albert_tf/web:web' is not visible from target "
        "'//albert_tf/core:planted'"
    ) in errors[0]
