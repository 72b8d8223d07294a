"""Renders Bazel's BUILD file from the imports of the Python files.

    python -m tests.build_file

writes it; tests/test_layout.py holds the file on disk to the rendered text. There is
one target a file, named as Python names the module (`albert_tf.layers`), so that
`bazel run :albert_tf.pretrain` and `python -m albert_tf.pretrain` are the same thing.
"""

import ast
import dataclasses
import pathlib
import re
import subprocess
import sys
from collections.abc import Iterator

ROOT = pathlib.Path(__file__).resolve().parent.parent
PACKAGES = ("albert_tf", "data_prep", "configs", "tests")
COMMAND = "make build-file"

# The distribution that provides an imported name, where the two differ.
DISTRIBUTIONS = {
    "absl": "absl-py",
    "google": "protobuf",
    "sklearn": "scikit-learn",
    "tensorflow_serving": "tensorflow-serving-api",
}

# What requirements.txt does not have, so that Bazel knows no such target, and where the
# files begin that run in an environment of their own which has it.
OPTIONAL = {
    "apache_beam": "data_prep/beam_",
    "torch": ("albert_tf/model_speed/torch_", "tests/interop/test_"),
    "transformers": ("albert_tf/model_speed/torch_", "tests/interop/test_"),
}

_HEADER = f'''\
"""One target for each Python file, with exactly the file's imports as its deps.

Written by `{COMMAND}` from those imports, and held to them by tests/test_layout.py.
"""

load("@rules_python//python:py_binary.bzl", "py_binary")
load("@rules_python//python:py_library.bzl", "py_library")
load("@rules_python//python:py_test.bzl", "py_test")

package(default_visibility = ["//visibility:private"])

# The binaries take --config=configs/NAME.py, which they read as files.
filegroup(
    name = "recipes",
    srcs = glob(["configs/*.py"]),
)

filegroup(
    name = "testdata",
    srcs = ["pyproject.toml"] + glob(
        ["tests/testdata/**"],
        allow_empty = True,
    ),
)

# For tests that start the binaries, or look at the repository itself.
filegroup(
    name = "tree",
    srcs = glob(
        ["**"],
        exclude = [
            ".git/**",
            ".venv*/**",
            "bazel-*/**",
            "build/**",
            "**/__pycache__/**",
            "**/.*_cache/**",
        ],
    ),
)
'''


@dataclasses.dataclass(frozen=True)
class Import:
    """One name that a file imports.

    Attributes:
        module: the dotted module after `import` or `from`, made absolute.
        symbol: the name after `from module import`, or None.
        line: where it stands, counted from 1.
    """

    module: str
    symbol: str | None
    line: int


def python_files(root: pathlib.Path) -> list[str]:
    """The paths of all our Python files, relative to the root, sorted."""
    return [path for path in repository_files(root) if _is_ours(path)]


def _is_ours(path: str) -> bool:
    return path.endswith(".py") and path.split("/")[0] in PACKAGES


def repository_files(root: pathlib.Path) -> list[str]:
    """All files of the project, relative to the root, sorted.

    Those that git tracks or would offer to add; in a tree without git, those outside
    of hidden folders, caches and build outputs.
    """
    if (root / ".git").exists():
        command = ["git", "ls-files", "-z", "-co", "--exclude-standard"]
        listing = subprocess.run(
            command, cwd=root, check=True, capture_output=True, text=True
        ).stdout
        paths = {path for path in listing.split("\0") if path}
    else:
        paths = {str(path.relative_to(root).as_posix()) for path in _walk(root)}
    return sorted(path for path in paths if (root / path).is_file())


def _walk(folder: pathlib.Path) -> Iterator[pathlib.Path]:
    outputs = re.compile(r"\.git$|\.venv|\..*_cache$|__pycache__$|build$|bazel-|.*egg-")
    for path in folder.iterdir():
        if outputs.match(path.name):
            continue
        if path.is_dir():
            yield from _walk(path)
        else:
            yield path


def module_of(path: str) -> str:
    """`albert_tf/layers.py` -> `albert_tf.layers`; a package is its `.__init__`."""
    return path.removesuffix(".py").replace("/", ".")


def imports_of(path: str, source: str) -> list[Import]:
    """All imports of a file, those inside functions too, in the order of lines."""
    found = []
    for node in ast.walk(ast.parse(source, path)):
        if isinstance(node, ast.Import):
            found += [Import(alias.name, None, node.lineno) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = path.split("/")[: -node.level] if node.level else []
            module = ".".join([*base, *filter(None, [node.module])])
            found += [Import(module, alias.name, node.lineno) for alias in node.names]
    return sorted(found, key=lambda item: (item.line, item.module, item.symbol or ""))


def imported_files(item: Import, files: frozenset[str]) -> list[str]:
    """Those of our files that Python runs for one import, outermost package first.

    An import of `a.b` runs `a/__init__.py` and `a/b.py`. Returns nothing for modules
    of others.
    """
    parts = item.module.split(".")
    if item.symbol is not None and _file_of([*parts, item.symbol], files):
        parts.append(item.symbol)
    prefixes = (parts[:length] for length in range(1, len(parts) + 1))
    return [path for prefix in prefixes if (path := _file_of(prefix, files))]


def _file_of(parts: list[str], files: frozenset[str]) -> str | None:
    stem = "/".join(parts)
    for path in (f"{stem}.py", f"{stem}/__init__.py"):
        if path in files:
            return path
    return None


def pinned_distributions(root: pathlib.Path, name: str) -> set[str]:
    """The normalized names that a requirements file pins, without files it includes."""
    lines = (root / name).read_text().splitlines()
    return {_normalized(line.split("==")[0]) for line in lines if "==" in line}


def _normalized(distribution: str) -> str:
    return re.sub(r"[-_.]+", "_", distribution.strip()).lower()


def distribution_of(item: Import, path: str) -> str | None:
    """The normalized distribution of an import of the file `path`.

    None if Python itself has it, or the environment that the file runs in.
    """
    top = item.module.split(".")[0]
    if top in sys.stdlib_module_names or top in PACKAGES:
        return None
    if top in OPTIONAL and path.startswith(OPTIONAL[top]):
        return None
    return _normalized(DISTRIBUTIONS.get(top, top))


def is_binary(source: str) -> bool:
    """Whether a file may be run: it asks at its end whether it is `__main__`."""
    return any(
        isinstance(node, ast.If) and "__name__" in ast.unparse(node.test)
        for node in ast.parse(source).body
    )


def _deps(
    path: str, source: str, root: pathlib.Path, files: frozenset[str]
) -> set[str]:
    pinned = pinned_distributions(root, "constraints.txt")
    deps = set()
    for item in imports_of(path, source):
        deps |= {f":{module_of(file)}" for file in imported_files(item, files)}
        distribution = distribution_of(item, path)
        if distribution is None:
            continue
        if distribution not in pinned:
            raise ValueError(
                f"{path}:{item.line}: imports {item.module!r}, but constraints.txt "
                f"pins no {distribution!r}; pin it, or give the name of its "
                "distribution in DISTRIBUTIONS of tests/build_file.py"
            )
        deps.add(f"@pypi//{distribution}")
    return deps - {f":{module_of(path)}"}


def _has_slow_tests(source: str) -> bool:
    return any(
        isinstance(node, ast.Attribute) and ast.unparse(node) == "pytest.mark.slow"
        for node in ast.walk(ast.parse(source))
    )


def _looks_around(path: str, source: str, files: frozenset[str]) -> bool:
    """Whether a test starts our binaries, or this module, which reads the tree."""
    return any(
        item.module == "subprocess"
        or "tests/build_file.py" in imported_files(item, files)
        for item in imports_of(path, source)
    )


def _is_test(path: str) -> bool:
    return path.startswith("tests/") and path.split("/")[-1].startswith("test_")


def _files_beside(path: str, root: pathlib.Path) -> list[str]:
    """What a module reads: files beside it under its name, as report.html."""
    beside = (root / path).parent.glob(pathlib.Path(path).stem + ".*")
    found = (file.relative_to(root).as_posix() for file in beside)
    return sorted(file for file in found if not file.endswith((".py", ".pyi")))


def _list(name: str, values: list[str]) -> list[str]:
    if not values:
        return []
    if len(values) == 1:
        return [f'    {name} = ["{values[0]}"],']
    return [f"    {name} = [", *(f'        "{value}",' for value in values), "    ],"]


def render_target(
    path: str, source: str, root: pathlib.Path, files: frozenset[str]
) -> str:
    """The BUILD rule of one file, its attributes in buildifier's order."""
    rule, srcs, size, args, data, main = "py_library", [path], None, [], [], None
    deps = _deps(path, source, root, files)
    if _is_test(path):
        rule, main = "py_test", "tests/pytest_main.py"
        srcs = sorted([path, main])
        args = [f"$(rootpath {path})"]
        size = "large" if _has_slow_tests(source) else "medium"
        data = [":tree" if _looks_around(path, source, files) else ":testdata"]
        # pytest imports these two by itself.
        deps |= {":tests.__init__", ":tests.conftest", "@pypi//pytest"}
    elif is_binary(source):
        rule, main = "py_binary", path
        data = [] if path.startswith("tests/") else [":recipes"]
    data = [*_files_beside(path, root), *data]
    # Our own first, as buildifier sorts them.
    ordered = sorted(deps, key=lambda dep: (dep.startswith("@"), dep))
    return "\n".join(
        [
            f"{rule}(",
            f'    name = "{module_of(path)}",',
            *([f'    size = "{size}",'] if size else []),
            *_list("srcs", srcs),
            *_list("args", args),
            *_list("data", data),
            *([f'    main = "{main}",'] if main else []),
            *_list("deps", ordered),
            ")",
        ]
    )


def render_targets(root: pathlib.Path) -> dict[str, str]:
    """The rule of each file, by the name of its target, in the order of paths."""
    paths = python_files(root)
    files = frozenset(paths)
    return {
        module_of(path): render_target(path, (root / path).read_text(), root, files)
        for path in paths
    }


def render(root: pathlib.Path) -> str:
    """The whole text of BUILD."""
    return "\n".join([_HEADER, "\n\n".join(render_targets(root).values()), ""])


def first_difference(root: pathlib.Path) -> str | None:
    """Says which target of BUILD is not what the imports ask for, or None."""
    path = root / "BUILD"
    actual = path.read_text() if path.exists() else ""
    if actual == render(root):
        return None
    rules = re.findall(
        r'^py_\w+\(\n    name = "([^"]+)",\n.*?^\)$', actual, re.M | re.S
    )
    expected = render_targets(root)
    for name, text in expected.items():
        if f"\n{text}\n" not in actual:
            return f"BUILD: the target {name} differs or is missing; run `{COMMAND}`"
    for name in rules:
        if name not in expected:
            return f"BUILD: the target {name} has no file; run `{COMMAND}`"
    return f"BUILD: its head or the order of its targets differs; run `{COMMAND}`"


def main() -> None:
    """Writes BUILD."""
    (ROOT / "BUILD").write_text(render(ROOT))
    print(f"wrote BUILD with {len(render_targets(ROOT))} targets")


if __name__ == "__main__":
    main()
