"""The project's files, and what the Python files among them import."""

import ast
import pathlib
import re
import subprocess
import sys
from typing import NamedTuple

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PACKAGES = ("albert_tf", "configs", "data_prep", "tests")

# The distribution that provides an imported name, where the two differ.
DISTRIBUTIONS = {
    "absl": "absl-py",
    "google": "protobuf",
    "importlinter": "import-linter",
    "sklearn": "scikit-learn",
    "tensorflow_serving": "tensorflow-serving-api",
    "yaml": "PyYAML",
}

# Not in requirements.txt, so that Bazel has no such target; and prefixes of the files
# that run in another environment, which has it.
OPTIONAL = {
    "apache_beam": ("data_prep/beam_pipeline", "data_prep/pipeline/beam_"),
    "distributed": ("data_prep/pipeline/dask_executor",),
    "nncf": ("albert_tf/serving/openvino_export",),
    "onnxruntime": ("albert_tf/benchmarks/transformers_",),
    "openvino": ("albert_tf/inference/openvino_model",),
    "jax": ("albert_tf/planning/run_exported", "albert_tf/planning/tpu_compile"),
    "jaxlib": ("albert_tf/planning/run_exported",),
    "torch": ("albert_tf/benchmarks/transformers_", "tests/interop/test_"),
    "transformers": ("albert_tf/benchmarks/transformers_", "tests/interop/test_"),
}


class Import(NamedTuple):
    """`import module` or `from module import symbol`, the module made absolute."""

    line: int
    module: str
    symbol: str | None


def python_files(root: pathlib.Path) -> list[str]:
    """The paths of all our Python files, relative to the root, sorted."""
    return [
        path
        for path in repository_files(root)
        if path.endswith(".py") and path.split("/")[0] in PACKAGES
    ]


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
        outputs = re.compile(r"(^|/)(\.(git|venv|\w+_cache)|__pycache__|build|bazel-)")
        found = (path.relative_to(root).as_posix() for path in root.rglob("*"))
        paths = {path for path in found if not outputs.search(path)}
    return sorted(path for path in paths if (root / path).is_file())


def module_of(path: str) -> str:
    """`albert_tf/core/config.py` -> `albert_tf.core.config`."""
    return path.removesuffix(".py").replace("/", ".")


def imports_of(path: str, source: str) -> list[Import]:
    """All imports of a file, those inside functions too, in the order of lines."""
    found = []
    for node in ast.walk(ast.parse(source, path)):
        if isinstance(node, ast.Import):
            found += [Import(node.lineno, alias.name, None) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = path.split("/")[: -node.level] if node.level else []
            module = ".".join([*base, *filter(None, [node.module])])
            found += [Import(node.lineno, module, alias.name) for alias in node.names]
    return sorted(found, key=lambda item: (item.line, item.module, item.symbol or ""))


def imported_file(item: Import, files: frozenset[str]) -> str | None:
    """The one of our files that an import names, or None."""
    stem = item.module.replace(".", "/")
    stems = [stem] if item.symbol is None else [f"{stem}/{item.symbol}", stem]
    names = (f"{stem}{suffix}" for stem in stems for suffix in (".py", "/__init__.py"))
    return next((name for name in names if name in files), None)


def pinned_distributions(root: pathlib.Path, name: str) -> set[str]:
    """The normalized names that a requirements file pins, without files it includes."""
    lines = (root / name).read_text().splitlines()
    return {_normalized(line.split("==")[0]) for line in lines if "==" in line}


def _normalized(distribution: str) -> str:
    return re.sub(r"[-_.]+", "_", distribution.strip()).lower()


def distribution_of(item: Import, path: str) -> str | None:
    """The normalized distribution of an import of the file `path`.

    None for Python's own modules, ours, and those of another environment.
    """
    top = item.module.split(".")[0]
    if top in sys.stdlib_module_names or top in PACKAGES:
        return None
    if top in OPTIONAL and path.startswith(OPTIONAL[top]):
        return None
    return _normalized(DISTRIBUTIONS.get(top, top))
