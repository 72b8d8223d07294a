"""Renders Bazel's BUILD files from the imports of the Python files.

    python -m tests.repository.build_file

writes one for each room, which tests/repository/test_layout.py compares with the
rendered text. A room is one py_library, visible to the layers above it in
import-linter's contracts in pyproject.toml; a file beside the rooms is a py_binary. A
folder of tests has one py_test a file, each with the imports of all.
"""

import functools
import pathlib
import re
import textwrap
import tomllib

from tests.repository import project_files

WITH_BINARIES = ("albert_tf", "data_prep")
COMMAND = "make build-file"

_HEADER = f'"""Written by `{COMMAND}` from the imports of the Python files."""'
_LOADS = {
    "py_binary": "@rules_python//python:py_binary.bzl",
    "py_library": "@rules_python//python:py_library.bzl",
    "pytest_tests": "//tests:defs.bzl",
}
_TESTDATA = """\
exports_files(["pytest_main.py"])

filegroup(
    name = "testdata",
    srcs = glob(["testdata/**"]),
)"""


# ---- Visibility ----


def _layers(root: pathlib.Path) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """Returns package groups by package, and visibility by room."""
    options = tomllib.loads((root / "pyproject.toml").read_text())
    contracts = options["tool"]["importlinter"]["contracts"]
    groups: dict[str, list[str]] = {}
    visible: dict[str, list[str]] = {}
    for contract in (item for item in contracts if "containers" in item):
        (package,) = contract["containers"]
        groups[package], higher = [], []
        above = [f"//{package}", "//tests/..."]
        for layer in contract["layers"][1:]:
            rooms = re.findall(r"\w+", layer)
            name = "_".join(["above", *rooms])
            groups[package].append(
                _rule("package_group", name=name, includes=higher, packages=above)
            )
            visible |= {f"{package}/{room}": [f"//{package}:{name}"] for room in rooms}
            above = [f"//{package}/{room}/..." for room in sorted(rooms)]
            higher = [f":{name}"]
    for contract in (item for item in contracts if item["id"] == "across"):
        for allowed in contract["ignore_imports"]:
            importer, room = re.findall(r"^\w+|\w+\.\w+(?=\.[^.]+$)", allowed)
            labels = visible[room.replace(".", "/")]
            labels += sorted({f"//{importer}:__subpackages__"} - {*labels})
    return groups, visible


# ---- Targets ----


def _rule(rule: str, **attributes: str | list[str]) -> str:
    """A call as buildifier formats it; a string that calls glob is an expression."""
    lines = [f"{rule}("]
    for key, value in attributes.items():
        if isinstance(value, str):
            text = value if value.startswith("glob(") else f'"{value}"'
            lines.append(f"    {key} = {text},")
        elif len(value) == 1:
            lines.append(f'    {key} = ["{value[0]}"],')
        elif value:
            items = [f'        "{item}",' for item in value]
            lines += [f"    {key} = [", *items, "    ],"]
    if len(attributes) == 1:
        argument = textwrap.dedent("\n".join(lines[1:])).removesuffix(",")
        return f"{rule}({argument})"
    return "\n".join([*lines, ")"])


def _room(path: str) -> str:
    """The folder whose BUILD file has the target of a Python file."""
    folders = path.split("/")[:-1]
    return "/".join(folders if folders[0] == "tests" else folders[:2])


def _is_test(path: str) -> bool:
    return path.startswith("tests/") and "/test_" in path


def _label(path: str) -> str:
    """The target that has a Python file: a binary's own, or the library of its room."""
    binary = path.removesuffix(".py").replace("/", ":")
    room = _room(path)
    return f"//{binary if room in WITH_BINARIES else room}"


def _deps(
    paths: list[str], root: pathlib.Path, files: frozenset[str], pinned: set[str]
) -> list[str]:
    """What files import, but tests, which start the programs that import them."""
    deps = set()
    for path in paths:
        for item in project_files.imports_of(path, (root / path).read_text()):
            file = project_files.imported_file(item, files)
            distribution = project_files.distribution_of(item, path)
            if file is not None and not file.endswith("/__init__.py"):
                deps |= set() if _is_test(file) else {_label(file)}
            elif distribution in pinned:
                deps.add(f"@pypi//{distribution}")
            elif distribution is not None:
                raise ValueError(
                    f"{path}:{item.line}: imports {item.module!r}, but constraints.txt "
                    f"pins no {distribution!r}; pin it, or give the name of its "
                    "distribution in DISTRIBUTIONS of tests/repository/project_files.py"
                )
    return sorted(deps, key=lambda label: label.replace(":", " "))


def _library(room: str, deps: list[str], has_pages: bool, has_tests: bool) -> str:
    tests = 'glob(\n        ["*.py"],\n        exclude = ["test_*.py"],\n    )'
    return _rule(
        "py_library",
        name=room.rpartition("/")[2],
        srcs=tests if has_tests else 'glob(["**/*.py"])',
        data='glob(["*.html"])' if has_pages else [],
        deps=[dep for dep in deps if dep != f"//{room}"],
    )


def _binary(path: str, deps: list[str]) -> str:
    file = path.rpartition("/")[2]
    name = file.removesuffix(".py")
    return _rule("py_binary", name=name, srcs=[file], data=["//:recipes"], deps=deps)


def _tree(inner: list[str]) -> str:
    srcs = 'glob(["**"])'
    if inner:
        lines = [f'        "//{room}:tree",' for room in inner]
        srcs = "\n".join([f"{srcs} + [", *lines, "    ]"])
    return _rule("filegroup", name="tree", srcs=srcs)


def _tests(sources: dict[str, str], deps: list[str]) -> str:
    # Tests that start our binaries, or read the repository.
    reads = re.compile(r"^import subprocess|^from tests.repository import", re.M)
    return _rule(
        "pytest_tests",
        srcs='glob(["test_*.py"])',
        large=[name for name, text in sources.items() if "pytest.mark.slow" in text],
        whole_tree=[name for name, text in sources.items() if reads.search(text)],
        deps=[dep for dep in deps if dep != "@pypi//pytest"],
    )


def render(root: pathlib.Path) -> dict[str, str]:
    """The text of each BUILD file by its path."""
    files = frozenset(project_files.python_files(root))
    pinned = project_files.pinned_distributions(root, "constraints.txt")
    deps = functools.partial(_deps, root=root, files=files, pinned=pinned)
    groups, visible = _layers(root)
    paths = sorted(path for path in files if not path.endswith("/__init__.py"))
    rooms = sorted({_room(path) for path in paths})
    texts = {}
    for room in rooms:
        own = [path for path in paths if _room(path) == room]
        tests = {path: (root / path).read_text() for path in own if _is_test(path)}
        targets = []
        if room in WITH_BINARIES:
            targets = [_binary(path, deps([path])) for path in own]
        elif library := [path for path in own if path not in tests]:
            has_pages = any((root / room).glob("*.html"))
            targets = [_library(room, deps(library), has_pages, bool(tests))]
        if tests:
            sources = {path.rpartition("/")[2]: text for path, text in tests.items()}
            targets.append(_tests(sources, deps([*tests])))
        rules = sorted({target.split("(")[0] for target in targets})
        outermost = [] if "/" in room else ["//:__pkg__"]
        visibility = outermost + visible.get(room, ["//tests:__subpackages__"])
        parts = [
            _HEADER,
            "\n".join(f'load("{_LOADS[rule]}", "{rule}")' for rule in rules),
            _rule("package", default_visibility=visibility),
            *groups.get(room, []),
            _TESTDATA if room == "tests" else "",
            "" if tests else _tree([r for r in rooms if r.startswith(f"{room}/")]),
            *targets,
        ]
        texts[f"{room}/BUILD"] = "\n\n".join(filter(None, parts)) + "\n"
    return texts


def differences(root: pathlib.Path) -> list[str]:
    """The BUILD files that are not as rendered."""
    expected = render(root)
    actual = {path: (root / path).read_text() for path in _on_disk(root)}
    return [
        f"{path}: run `{COMMAND}`"
        for path in sorted({*expected, *actual})
        if expected.get(path) != actual.get(path)
    ]


def _on_disk(root: pathlib.Path) -> list[str]:
    return [
        path for path in project_files.repository_files(root) if path.endswith("/BUILD")
    ]


def main() -> None:
    """Writes the BUILD files, and removes those of folders without Python files."""
    texts = render(project_files.ROOT)
    for path in {*_on_disk(project_files.ROOT)} - texts.keys():
        (project_files.ROOT / path).unlink()
    for path, text in texts.items():
        (project_files.ROOT / path).write_text(text)
    num_lines = sum(text.count("\n") for text in texts.values())
    print(f"wrote {len(texts)} BUILD files with {num_lines} lines")


if __name__ == "__main__":
    main()
