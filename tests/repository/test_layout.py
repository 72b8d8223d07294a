"""Holds the tree, its imports and BUILD to the layout of docs/architecture.md."""

import pathlib
import re

import pytest

from tests.repository import build_file, import_rules, project_files

TOP_LEVEL = {
    ".bazelversion",
    ".ci",
    ".dockerignore",
    ".gitattributes",
    ".gitignore",
    "BUILD",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "LICENSE",
    "MODULE.bazel",
    "Makefile",
    "README.md",
    "SECURITY.md",
    "albert_tf",
    "configs",
    "constraints.txt",
    "data_prep",
    "docker",
    "docs",
    "mkdocs.yml",
    "pyproject.toml",
    "requirements-beam.txt",
    "requirements-bench-keras.txt",
    "requirements-bench-torch.txt",
    "requirements-dask.txt",
    "requirements-dev.txt",
    "requirements-docs.txt",
    "requirements-interop.txt",
    "requirements-jax.txt",
    "requirements-openvino.txt",
    "requirements-pip.txt",
    "requirements-plan.txt",
    "requirements-serving.txt",
    "requirements-tpu.txt",
    "requirements.txt",
    "tests",
}


def _product_files() -> list[str]:
    paths = project_files.python_files(project_files.ROOT)
    return [path for path in paths if not path.startswith("tests/")]


def _read(path: str) -> str:
    return (project_files.ROOT / path).read_text()


# The tree as it is.


def test_every_file_keeps_the_import_rules():
    paths = _product_files()
    files = frozenset(paths)
    found = [
        line
        for path in paths
        for line in import_rules.violations(path, _read(path), files)
    ]
    assert not found, "\n" + "\n".join(found)


def test_only_binaries_stand_beside_the_rooms():
    for path in filter(import_rules.is_binary, _product_files()):
        assert "\nif __name__ == " in _read(path), f"{path} is no binary"


def test_product_code_imports_only_what_requirements_txt_pins():
    pinned = project_files.pinned_distributions(project_files.ROOT, "requirements.txt")
    found = [
        f"{path}:{item.line}: requirements.txt does not pin {item.module}"
        for path in _product_files()
        for item in project_files.imports_of(path, _read(path))
        if (name := project_files.distribution_of(item, path)) is not None
        and name not in pinned
    ]
    assert not found, "\n" + "\n".join(found)


@pytest.mark.parametrize(
    "name",
    [
        "requirements.txt",
        "requirements-dask.txt",
        "requirements-dev.txt",
        "requirements-openvino.txt",
    ],
)
def test_constraints_hold_the_same_pins(name):
    locked = _pins("constraints.txt")
    for requirement, version in _pins(name).items():
        assert locked.get(requirement) == version, f"{name}: {requirement}"


def _pins(name: str) -> dict[str, str]:
    pins = re.findall(r"^([\w.-]+)==([\w.]+)", _read(name), re.M)
    return {re.sub(r"[-_.]+", "_", key).lower(): version for key, version in pins}


def test_top_level_holds_nothing_new():
    paths = project_files.repository_files(project_files.ROOT)
    unknown = {path.split("/")[0] for path in paths} - TOP_LEVEL
    assert not unknown, (
        f"the top level is fixed, and these are new: {sorted(unknown)}; move them into "
        "one of its folders, or into .gitignore if they are written by a tool"
    )


def test_build_file_of_the_root_has_all_binaries():
    binaries = filter(import_rules.is_binary, _product_files())
    listed = re.findall(
        r'^        "((?:albert_tf|data_prep)\.\w+)",$', _read("BUILD"), re.M
    )
    assert listed == [project_files.module_of(path) for path in binaries]


def test_build_files_are_as_rendered():
    found = build_file.differences(project_files.ROOT)
    assert not found, "\n" + "\n".join(found)


# The checker, on synthetic sources.

_FILES = frozenset(
    [
        "albert_tf/__init__.py",
        "albert_tf/core/__init__.py",
        "albert_tf/core/config.py",
        "albert_tf/pretrain.py",
        "albert_tf/tasks/__init__.py",
        "albert_tf/tasks/glue.py",
    ]
)
_LAYERS = "albert_tf/model/layers.py"
_LOOPS = "albert_tf/training/loops.py"


@pytest.mark.parametrize(
    ("path", "line", "rule"),
    [
        (_LAYERS, "from albert_tf.core.config import Model", "not symbols"),
        (_LAYERS, "from albert_tf import absent", "not symbols"),
        (_LAYERS, "from . import absent", "no file for albert_tf.model"),
        (_LAYERS, "import albert_tf.absent", "no file for albert_tf.absent"),
        (_LAYERS, "from absl import flags", "only binaries"),
        (_LAYERS, "import absl.flags", "only binaries"),
        (_LAYERS, "x = absl.flags.DEFINE_bool", "only binaries"),
        ("data_prep/records/shards.py", "from absl import flags", "only binaries"),
        (_LOOPS, "s = tf.distribute.TPUStrategy()", "albert_tf/devices/"),
        (_LOOPS, "c: tf.distribute.InputContext", "albert_tf/devices/"),
        (_LOOPS, "tf.tpu.experimental.x()", "albert_tf/devices/"),
        (_LOOPS, "tensorflow.config.list_physical_devices()", "devices/"),
        ("data_prep/text/cleaning.py", "text = open(path)", "no input or output"),
        ("albert_tf/tasks/__init__.py", "import re", "a docstring and nothing else"),
    ],
)
def test_checker_names_file_line_and_rule(path, line, rule):
    source = f'"""Says what it is for."""\n\n{line}\n'
    found = import_rules.violations(path, source, _FILES)
    assert len(found) == 1, found
    assert found[0].startswith(f"{path}:3: ")
    assert rule in found[0]


@pytest.mark.parametrize(
    ("path", "line"),
    [
        (_LAYERS, "from albert_tf.core import config as config_lib"),
        (_LAYERS, "import tensorflow as tf"),
        ("albert_tf/tasks/base.py", "from . import glue"),
        ("albert_tf/pretrain.py", "from albert_tf import tasks"),
        ("albert_tf/pretrain.py", "from absl import app, flags, logging"),
        ("albert_tf/training/flags.py", "from absl import flags"),
        ("data_prep/train_vocab.py", "from absl import flags"),
        ("albert_tf/devices/strategies.py", "s = tf.distribute.TPUStrategy()"),
        ("albert_tf/data/input_pipeline.py", "c: tf.distribute.InputContext"),
        (_LOOPS, "s: tf.distribute.Strategy"),
        ("data_prep/text/cleaning.py", "text = path.open()"),
    ],
)
def test_checker_lets_pass_what_is_allowed(path, line):
    source = f'"""Says what it is for."""\n\n{line}\n'
    assert import_rules.violations(path, source, _FILES) == []


def test_checker_sees_an_import_inside_a_function():
    source = '"""Doc."""\n\n\ndef late():\n    from absl import flags\n'
    (found,) = import_rules.violations(_LAYERS, source, _FILES)
    assert found.startswith(f"{_LAYERS}:5: ")


def test_package_without_a_docstring_is_refused():
    (found,) = import_rules.violations("albert_tf/tasks/__init__.py", "", _FILES)
    assert found.startswith("albert_tf/tasks/__init__.py:1: ")


# The rendering of BUILD, on a synthetic tree.


@pytest.fixture
def tree(tmp_path: pathlib.Path) -> pathlib.Path:
    sources = {
        "albert_tf/__init__.py": '"""Doc."""\n',
        "albert_tf/core/__init__.py": '"""Doc."""\n',
        "albert_tf/core/config.py": "import json\n",
        "albert_tf/model/__init__.py": '"""Doc."""\n',
        "albert_tf/model/layers.py": (
            "import tensorflow as tf\nimport tf_keras\nfrom absl import logging\n"
            "from albert_tf.core import config as config_lib\n"
            "from albert_tf.model import page\n"
        ),
        "albert_tf/model/page.py": 'PAGE = "page.html"\n',
        "albert_tf/model/page.html": "<p>",
        "albert_tf/model/heads/__init__.py": '"""Doc."""\n',
        "albert_tf/model/heads/squad.py": (
            "from albert_tf.model import layers\ndef late():\n    import numpy\n"
        ),
        "albert_tf/pretrain.py": (
            "from albert_tf.model.heads import squad\n"
            "if __name__ == '__main__':\n    pass\n"
        ),
        "data_prep/verify.py": "from albert_tf.core import config\n",
        "data_prep/text/cleaning.py": "from albert_tf.core import config\n",
        "tests/__init__.py": "",
        "tests/conftest.py": "import pytest\n",
        "tests/data_prep/__init__.py": "",
        "tests/data_prep/text/test_cleaning.py": "",
        "tests/model/__init__.py": "",
        "tests/model/drawn.py": (
            "import pytest\nfrom albert_tf.core import config\n"
            "def late():\n    from tests.model import test_layers\n"
        ),
        "tests/model/test_layers.py": (
            "import subprocess\nimport pytest\nimport albert_tf.model.layers\n"
            "from tests.model import drawn\nmark = pytest.mark.slow\n"
        ),
        "tests/model/test_pretrain.py": "import albert_tf.pretrain\n",
        "constraints.txt": (
            "absl-py==1\nnumpy==1\npytest==1\ntensorflow==1\ntf_keras==1\n"
        ),
        "pyproject.toml": """
            [[tool.importlinter.contracts]]
            id = "albert_tf"
            type = "layers"
            containers = ["albert_tf"]
            layers = ["pretrain", "web | report", "model", "core | cluster"]
            [[tool.importlinter.contracts]]
            id = "data_prep"
            type = "layers"
            containers = ["data_prep"]
            layers = ["verify", "text"]
            [[tool.importlinter.contracts]]
            id = "across"
            type = "forbidden"
            ignore_imports = [
                "data_prep.** -> albert_tf.core.*",
                "data_prep.** -> albert_tf.core.config",
            ]
        """,
        ".venv/lib/albert_tf/stray.py": "import nothing\n",
    }
    for path, source in sources.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(source)
    return tmp_path


_HEADER = '"""Written by `make build-file` from the imports of the Python files."""\n\n'


def test_room_is_one_library_with_the_imports_of_its_folders(tree):
    texts = build_file.render(tree)
    assert list(texts) == [
        "albert_tf/BUILD",
        "albert_tf/core/BUILD",
        "albert_tf/model/BUILD",
        "data_prep/BUILD",
        "data_prep/text/BUILD",
        "tests/BUILD",
        "tests/data_prep/text/BUILD",
        "tests/model/BUILD",
    ]
    assert texts["albert_tf/model/BUILD"] == _HEADER + (
        'load("@rules_python//python:py_library.bzl", "py_library")\n\n'
        'package(default_visibility = ["//albert_tf:above_model"])\n\n'
        'filegroup(\n    name = "tree",\n    srcs = glob(["**"]),\n)\n\n'
        'py_library(\n    name = "model",\n    srcs = glob(["**/*.py"]),\n'
        '    data = glob(["*.html"]),\n    deps = [\n'
        '        "//albert_tf/core",\n        "@pypi//absl_py",\n'
        '        "@pypi//numpy",\n        "@pypi//tensorflow",\n'
        '        "@pypi//tf_keras",\n    ],\n)\n'
    )


def test_file_beside_the_rooms_is_a_binary(tree):
    text = build_file.render(tree)["albert_tf/BUILD"]
    assert 'load("@rules_python//python:py_binary.bzl", "py_binary")\n' in text
    assert (
        'py_binary(\n    name = "pretrain",\n    srcs = ["pretrain.py"],\n'
        '    data = ["//:recipes"],\n    deps = ["//albert_tf/model"],\n)\n'
    ) in text
    assert '"//albert_tf/model:tree",\n    ],\n' in text


def test_folder_of_tests_has_what_any_of_them_imports(tree):
    text = build_file.render(tree)["tests/model/BUILD"]
    assert text == _HEADER + (
        'load("@rules_python//python:py_library.bzl", "py_library")\n'
        'load("//tests:defs.bzl", "pytest_tests")\n\n'
        'package(default_visibility = ["//tests:__subpackages__"])\n\n'
        'py_library(\n    name = "model",\n    srcs = glob(\n        ["*.py"],\n'
        '        exclude = ["test_*.py"],\n    ),\n    deps = [\n'
        '        "//albert_tf/core",\n        "@pypi//pytest",\n    ],\n)\n\n'
        'pytest_tests(\n    srcs = glob(["test_*.py"]),\n'
        '    large = ["test_layers.py"],\n    whole_tree = ["test_layers.py"],\n'
        '    deps = [\n        "//albert_tf:pretrain",\n'
        '        "//albert_tf/model",\n        "//tests/model",\n    ],\n)\n'
    )


def test_room_is_visible_to_higher_layers_only(tree):
    texts = build_file.render(tree)
    assert (
        'package_group(\n    name = "above_web_report",\n    packages = [\n'
        '        "//albert_tf",\n        "//tests/...",\n    ],\n)\n\n'
        'package_group(\n    name = "above_model",\n'
        '    includes = [":above_web_report"],\n    packages = [\n'
        '        "//albert_tf/report/...",\n        "//albert_tf/web/...",\n'
        "    ],\n)\n\n"
        'package_group(\n    name = "above_core_cluster",\n'
        '    includes = [":above_model"],\n'
        '    packages = ["//albert_tf/model/..."],\n)\n'
    ) in texts["albert_tf/BUILD"]
    assert (
        "package(default_visibility = [\n"
        '    "//albert_tf:above_core_cluster",\n'
        '    "//data_prep:__subpackages__",\n])\n'
    ) in texts["albert_tf/core/BUILD"]
    visibility = 'package(default_visibility = ["//data_prep:above_text"])\n'
    assert visibility in texts["data_prep/text/BUILD"]
    assert (
        'package(default_visibility = [\n    "//:__pkg__",\n'
        '    "//tests:__subpackages__",\n])\n'
    ) in texts["albert_tf/BUILD"]


def test_differences_name_the_file_and_the_command(tree):
    for path, text in build_file.render(tree).items():
        (tree / path).write_text(text)
    assert build_file.differences(tree) == []
    (tree / "albert_tf/model/layers.py").write_text("import json\n")
    (tree / "albert_tf/core/BUILD").unlink()
    (tree / "tests/data").mkdir()
    (tree / "tests/data/BUILD").write_text("# of a folder that is gone\n")
    assert build_file.differences(tree) == [
        "albert_tf/core/BUILD: run `make build-file`",
        "albert_tf/model/BUILD: run `make build-file`",
        "tests/data/BUILD: run `make build-file`",
    ]


def test_an_unpinned_import_is_refused_with_its_place(tree):
    (tree / "albert_tf/model/layers.py").write_text("import re\nimport torch\n")
    with pytest.raises(
        ValueError, match=r"albert_tf/model/layers.py:2: imports 'torch'"
    ):
        build_file.render(tree)
