"""Holds the tree, its imports and BUILD to the layout that README describes."""

import pathlib
import re

import pytest

from tests import build_file, import_rules

TOP_LEVEL = {
    ".bazelversion",
    ".ci",
    ".gitattributes",
    ".gitignore",
    "BUILD",
    "LICENSE",
    "MODULE.bazel",
    "Makefile",
    "README.md",
    "albert_tf",
    "configs",
    "constraints.txt",
    "data_prep",
    "docs",
    "pyproject.toml",
    "requirements-beam.txt",
    "requirements-bench-keras.txt",
    "requirements-bench-torch.txt",
    "requirements-dev.txt",
    "requirements-interop.txt",
    "requirements-tpu.txt",
    "requirements.txt",
    "tests",
}


def _product_files() -> list[str]:
    paths = build_file.python_files(build_file.ROOT)
    return [path for path in paths if not path.startswith("tests/")]


def _read(path: str) -> str:
    return (build_file.ROOT / path).read_text()


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


def test_no_import_goes_in_a_circle():
    paths = frozenset(build_file.python_files(build_file.ROOT))
    graph = {
        path: [
            target
            for item in build_file.imports_of(path, _read(path))
            for target in build_file.imported_files(item, paths)
            if target != path and not target.endswith("/__init__.py")
        ]
        for path in paths
    }
    found = import_rules.cycles(graph)
    assert not found, "\n" + "\n".join(found)


def test_product_code_imports_only_what_requirements_txt_pins():
    pinned = build_file.pinned_distributions(build_file.ROOT, "requirements.txt")
    found = [
        f"{path}:{item.line}: requirements.txt does not pin {item.module}"
        for path in _product_files()
        for item in build_file.imports_of(path, _read(path))
        if (name := build_file.distribution_of(item, path)) is not None
        and name not in pinned
        and item.module.split(".")[0] not in import_rules.FORBIDDEN
    ]
    assert not found, "\n" + "\n".join(found)


@pytest.mark.parametrize("name", ["requirements.txt", "requirements-dev.txt"])
def test_constraints_hold_the_same_pins(name):
    locked = _pins("constraints.txt")
    for requirement, version in _pins(name).items():
        assert locked.get(requirement) == version, f"{name}: {requirement}"


def _pins(name: str) -> dict[str, str]:
    pins = re.findall(r"^([\w.-]+)==([\w.]+)", _read(name), re.M)
    return {re.sub(r"[-_.]+", "_", key).lower(): version for key, version in pins}


def test_top_level_holds_nothing_new():
    paths = build_file.repository_files(build_file.ROOT)
    unknown = {path.split("/")[0] for path in paths} - TOP_LEVEL
    assert not unknown, (
        f"the top level is fixed, and these are new: {sorted(unknown)}; move them into "
        "one of its folders, or into .gitignore if they are written by a tool"
    )


def test_build_file_has_exactly_the_imports_as_deps():
    difference = build_file.first_difference(build_file.ROOT)
    assert difference is None, difference


# The checker itself, on made-up sources.

_FILES = frozenset(
    [
        "albert_tf/__init__.py",
        "albert_tf/config.py",
        "albert_tf/distribution.py",
        "albert_tf/input_pipeline.py",
        "albert_tf/interchange/__init__.py",
        "albert_tf/interchange/tf1.py",
        "albert_tf/layers.py",
        "albert_tf/losses.py",
        "albert_tf/pretrain.py",
        "albert_tf/schema.py",
        "albert_tf/tasks/__init__.py",
        "albert_tf/tasks/glue.py",
        "albert_tf/tasks/metrics.py",
        "albert_tf/train_loop.py",
        "configs/__init__.py",
        "configs/albert_base.py",
        "configs/tiny.py",
        "data_prep/__init__.py",
        "data_prep/sentence_order.py",
        "data_prep/records.py",
        "data_prep/train_vocab.py",
    ]
)


@pytest.mark.parametrize(
    ("path", "line", "rule"),
    [
        (
            "albert_tf/layers.py",
            "from albert_tf import pretrain",
            "level 5b, but stand",
        ),
        ("albert_tf/layers.py", "from albert_tf import losses", "level 1c, but stands"),
        ("albert_tf/layers.py", "import albert_tf.train_loop", "a lower level only"),
        ("albert_tf/layers.py", "from . import losses", "level 1c, but stands"),
        ("albert_tf/layers.py", "from albert_tf.config import Model", "not symbols"),
        ("albert_tf/layers.py", "from albert_tf import absent", "not symbols"),
        ("albert_tf/layers.py", "import albert_tf.absent", "no file for"),
        ("albert_tf/layers.py", "from data_prep import records", "may import nothing"),
        ("albert_tf/layers.py", "from absl import flags", "only the binaries"),
        ("albert_tf/layers.py", "import absl.flags", "only the binaries"),
        ("albert_tf/layers.py", "x = absl.flags.DEFINE_bool", "only the binaries"),
        ("albert_tf/layers.py", "import pickle", "runs whatever a file says"),
        ("albert_tf/layers.py", "import tensorflow_addons as tfa", "end-of-life"),
        (
            "albert_tf/train_loop.py",
            "s = tf.distribute.TPUStrategy()",
            "distribution.p",
        ),
        ("albert_tf/train_loop.py", "c: tf.distribute.InputContext", "distribution.py"),
        ("albert_tf/train_loop.py", "tf.tpu.experimental.x()", "distribution.py"),
        ("albert_tf/config.py", "import tensorflow as tf", "without TensorFlow"),
        (
            "albert_tf/interchange/tf1.py",
            "from albert_tf import pretrain",
            "level 5b",
        ),
        ("albert_tf/newcomer.py", "import re", "add it there at its level"),
        ("albert_tf/tasks/__init__.py", "import re", "a docstring and nothing else"),
        (
            "data_prep/sentence_order.py",
            "import tensorflow as tf",
            "without TensorFlow",
        ),
        ("data_prep/sentence_order.py", "import os", "no input or output"),
        ("data_prep/sentence_order.py", "text = open(path)", "no input or output"),
        (
            "data_prep/sentence_order.py",
            "from data_prep import records",
            "level 0, but stand",
        ),
        ("data_prep/records.py", "from albert_tf import layers", "may import only alb"),
        ("data_prep/records.py", "from absl import flags", "only the binaries"),
        ("data_prep/newcomer.py", "import re", "no row of DATA_PREP"),
        ("configs/tiny.py", "from albert_tf import layers", "only albert_tf/config.py"),
        ("configs/tiny.py", "from configs import albert_base", "a recipe imports only"),
    ],
)
def test_checker_names_file_line_and_rule(path, line, rule):
    source = f'"""Says what it is for."""\n\n{line}\n'
    found = import_rules.violations(path, source, _FILES)
    assert len(found) == 1, found
    expected_line = 1 if path.endswith("newcomer.py") else 3
    assert found[0].startswith(f"{path}:{expected_line}: ")
    assert rule in found[0]


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("albert_tf/layers.py", "from albert_tf import config as config_lib"),
        ("albert_tf/layers.py", "import tensorflow as tf"),
        ("albert_tf/tasks/glue.py", "from albert_tf.tasks import metrics"),
        ("albert_tf/pretrain.py", "from albert_tf.tasks import glue"),
        ("albert_tf/pretrain.py", "from absl import app, flags, logging"),
        ("albert_tf/distribution.py", "s = tf.distribute.TPUStrategy()"),
        ("albert_tf/input_pipeline.py", "c: tf.distribute.InputContext"),
        ("albert_tf/train_loop.py", "s: tf.distribute.Strategy"),
        ("data_prep/train_vocab.py", "from data_prep import records"),
        ("data_prep/records.py", "from albert_tf import config, schema"),
        ("data_prep/train_vocab.py", "from absl import flags"),
        ("configs/tiny.py", "from albert_tf import config"),
    ],
)
def test_checker_lets_pass_what_is_allowed(path, line):
    assert (
        import_rules.violations(path, f'"""Says what it is for."""\n\n{line}\n', _FILES)
        == []
    )


def test_checker_sees_an_import_inside_a_function():
    source = '"""Doc."""\n\n\ndef late():\n    import pickle\n'
    (found,) = import_rules.violations("albert_tf/layers.py", source, _FILES)
    assert found.startswith("albert_tf/layers.py:5: ")


def test_checker_sees_a_circle():
    graph = {"a.py": ["b.py"], "b.py": ["c.py"], "c.py": ["b.py"], "d.py": ["a.py"]}
    assert import_rules.cycles(graph) == ["b.py -> c.py -> b.py"]


# The rendering of BUILD, on a made-up tree.


@pytest.fixture
def tree(tmp_path: pathlib.Path) -> pathlib.Path:
    sources = {
        "albert_tf/__init__.py": '"""Doc."""\n',
        "albert_tf/config.py": "import json\n",
        "albert_tf/layers.py": (
            "import tensorflow as tf\nimport tf_keras\nfrom absl import logging\n"
            "from albert_tf import config as config_lib\n"
        ),
        "albert_tf/pretrain.py": (
            "from albert_tf import layers\nif __name__ == '__main__':\n    pass\n"
        ),
        "albert_tf/pretrain.html": "<p>",
        "tests/test_layers.py": "import albert_tf.layers\nmark = pytest.mark.slow\n",
        "constraints.txt": "absl-py==1\npytest==1\ntensorflow==1\ntf_keras==1\n",
        ".venv/lib/albert_tf/stray.py": "import nothing\n",
    }
    for path, source in sources.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(source)
    return tmp_path


def test_rendered_targets_are_one_a_file_with_its_imports(tree):
    targets = build_file.render_targets(tree)
    assert list(targets) == [
        "albert_tf.__init__",
        "albert_tf.config",
        "albert_tf.layers",
        "albert_tf.pretrain",
        "tests.test_layers",
    ]
    assert targets["albert_tf.config"] == (
        'py_library(\n    name = "albert_tf.config",\n'
        '    srcs = ["albert_tf/config.py"],\n)'
    )
    assert targets["albert_tf.layers"] == (
        'py_library(\n    name = "albert_tf.layers",\n'
        '    srcs = ["albert_tf/layers.py"],\n    deps = [\n'
        '        ":albert_tf.__init__",\n        ":albert_tf.config",\n'
        '        "@pypi//absl_py",\n        "@pypi//tensorflow",\n'
        '        "@pypi//tf_keras",\n    ],\n)'
    )
    assert targets["albert_tf.pretrain"].startswith("py_binary(\n")
    assert (
        '"albert_tf/pretrain.html",\n        ":recipes",'
        in (targets["albert_tf.pretrain"])
    )
    assert '    main = "albert_tf/pretrain.py",\n' in targets["albert_tf.pretrain"]
    assert targets["tests.test_layers"].startswith(
        'py_test(\n    name = "tests.test_layers",\n    size = "large",\n'
    )
    assert '        ":albert_tf.layers",\n' in targets["tests.test_layers"]


def test_first_difference_names_the_target_and_the_command(tree):
    (tree / "BUILD").write_text(build_file.render(tree))
    assert build_file.first_difference(tree) is None
    (tree / "albert_tf/layers.py").write_text("import json\n")
    assert build_file.first_difference(tree) == (
        "BUILD: the target albert_tf.layers differs or is missing; "
        "run `make build-file`"
    )
    (tree / "albert_tf/layers.py").unlink()
    (tree / "albert_tf/pretrain.py").write_text("if __name__ == '__main__': pass\n")
    (tree / "tests/test_layers.py").unlink()
    (tree / "BUILD").write_text(
        build_file.render(tree) + '\npy_library(\n    name = "gone",\n)\n'
    )
    assert build_file.first_difference(tree) == (
        "BUILD: the target gone has no file; run `make build-file`"
    )


def test_an_unpinned_import_is_refused_with_its_place(tree):
    (tree / "albert_tf/layers.py").write_text("import re\nimport torch\n")
    with pytest.raises(ValueError, match=r"albert_tf/layers.py:2: imports 'torch'"):
        build_file.render(tree)
