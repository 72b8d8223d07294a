"""Holds docs/departures.md to the departures marked in the code, and to the tests."""

import ast
import re

import pytest

from tests.repository import project_files

DOCUMENT = "docs/departures.md"
# What marks a departure in a comment or docstring; this pattern does not match itself.
TAG = re.compile(r"Differs from the original[:,]")
# `path.py::Class.method` or `path.py`, as the table names places and tests.
REFERENCE = re.compile(r"`([\w/]+\.py(?:::[\w.]+)?)`")
NUM_FAULTS = 8

DEFINITIONS = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def definitions(source: str) -> dict[str, range]:
    """The lines of each class and function, by its dotted name."""
    found = {}

    def visit(node: ast.AST, prefix: str) -> None:
        for child in ast.iter_child_nodes(node):
            inner = prefix
            if isinstance(child, DEFINITIONS):
                found[prefix + child.name] = range(child.lineno, child.end_lineno + 1)
                inner = f"{prefix}{child.name}."
            visit(child, inner)

    visit(ast.parse(source), "")
    return found


def tagged(path: str, source: str) -> set[str]:
    """The places of a file's tags: the innermost class or function, or the file."""
    lines = definitions(source)
    places = set()
    for number, line in enumerate(source.splitlines(), 1):
        if TAG.search(line):
            around = [name for name, of_it in lines.items() if number in of_it]
            places.add("::".join([path, *sorted(around, key=len)[-1:]]))
    return places


def rows() -> list[list[str]]:
    """The cells of the table, without its head."""
    lines = (project_files.ROOT / DOCUMENT).read_text().splitlines()
    table = [line.strip("|").split("|") for line in lines if line.startswith("|")]
    return [[cell.strip() for cell in cells] for cells in table[2:]]


def references() -> set[str]:
    """All places and tests that the table names."""
    return {name for row in rows() for cell in row for name in REFERENCE.findall(cell)}


@pytest.fixture(scope="module")
def sources() -> dict[str, str]:
    paths = project_files.python_files(project_files.ROOT)
    return {path: (project_files.ROOT / path).read_text() for path in paths}


def test_every_tag_stands_in_the_table(sources):
    places = set().union(*(tagged(*item) for item in sources.items()))
    # Known ones, so that a parser which finds nothing fails.
    assert {
        "albert_tf/optim/schedule.py::WarmupDecay.__call__",
        "albert_tf/tokenization/tokenizer.py::normalize",
        "albert_tf/training/train_step.py::make_train_step.train_step",
        "albert_tf/data/masking.py::mask_sequence",
        "data_prep/records/segment_pairs.py::next_segments",
    } <= places
    missing = sorted(places - references())
    assert not missing, f"marked in the code, but not in {DOCUMENT}: {missing}"


def test_every_place_and_test_in_the_table_exists(sources):
    names = references()
    assert len(names) > 40
    for name in sorted(names):
        path, _, inside = name.partition("::")
        assert path in sources, f"{DOCUMENT} names {path}, which is no file"
        known = definitions(sources[path])
        assert not inside or inside in known, f"{DOCUMENT} names {name}: not there"
        if "/test_" in path:
            assert re.fullmatch(r"test_\w+", inside), f"{name} is no test"


def test_every_row_is_whole_and_names_a_test():
    for original, *cells, test in rows():
        assert len(cells) == 3, f"a row has five cells: {original}"
        named = REFERENCE.findall(test)
        assert all("/test_" in name for name in named), original
        assert named or test == "not built yet", f"names no test: {original}"


def test_every_known_fault_has_a_row():
    faults = {n for row in rows() for n in re.findall(r"^Fault (\d+)\.", row[0])}
    assert faults == {str(n) for n in range(1, NUM_FAULTS + 1)}


def test_tags_are_found_where_they_stand():
    tag = "Differs from the original"
    source = "\n".join(
        [
            f"# {tag}: of the file",
            "class A:",
            "    def f(self):",
            f"        '''{tag}: of f.'''",
            f"        return 1  # {tag}, which is the same place",
            f"    x = 2  # {tag}: of A",
            "def g():",
            f"    # {tag} without a colon is prose.",
            "    return 3",
        ]
    )
    assert tagged("a.py", source) == {"a.py", "a.py::A.f", "a.py::A"}
