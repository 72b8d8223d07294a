"""Holds docs/departures.md to the departures marked in the code, and to the tests."""

import ast
import re

import pytest

from tests.repository import project_files

DOCUMENT = "docs/departures.md"
# What marks a departure in a comment or docstring; this pattern does not match itself.
TAG = re.compile(r"Differs from the original[:,]")
# An entry starts with the first of these, and has each once, in this order.
LABELS = ("**The original.**", "**Here.**", "**Why.**", "Code:", "Tests:")
ENTRY = re.compile(
    r"\n {4}- ".join(rf"{re.escape(label)}\s+(\S.*?)" for label in LABELS), re.DOTALL
)
# `path.py` `::Class.method` or `path.py`, as the entries name places and tests; what
# follows in the same file has no path.
PATH, INSIDE = r"`([\w/]+\.py)`(?! `::)", r"(?:`([\w/]+\.py)` )?`(::[\w.]+)`"
REFERENCE = re.compile(rf"{PATH}|{INSIDE}")
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


def cells(entry: str) -> list[str]:
    """The text after each label of an entry."""
    found = ENTRY.fullmatch(entry.rstrip())
    assert found, f"an entry has {', '.join(LABELS)}: {entry}"
    return [" ".join(text.split()) for text in found.groups()]


def entries() -> list[list[str]]:
    """The original, this project, the reason, the code and the tests of each entry."""
    _, *found = (project_files.ROOT / DOCUMENT).read_text().split("\n- ")
    return [cells(entry.partition("\n\n")[0]) for entry in found]


def named_in(cell: str) -> list[str]:
    """The places and tests that a cell names, as `path.py::Class.method`."""
    found, path = [], ""
    for whole, given, inside in REFERENCE.findall(cell):
        path = whole or given or path
        found.append(f"{path}{inside}")
    return found


def references() -> set[str]:
    """All places and tests that the entries name."""
    return {name for entry in entries() for cell in entry for name in named_in(cell)}


@pytest.fixture(scope="module")
def sources() -> dict[str, str]:
    paths = project_files.python_files(project_files.ROOT)
    return {path: (project_files.ROOT / path).read_text() for path in paths}


def test_every_tag_has_an_entry(sources):
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


def test_every_place_and_test_that_is_named_exists(sources):
    names = references()
    assert len(names) > 40
    for name in sorted(names):
        path, _, inside = name.partition("::")
        assert path in sources, f"{DOCUMENT} names {path}, which is no file"
        known = definitions(sources[path])
        assert not inside or inside in known, f"{DOCUMENT} names {name}: not there"
        if "/test_" in path:
            assert re.fullmatch(r"test_\w+", inside), f"{name} is no test"


def test_every_entry_is_whole_and_names_a_test():
    for entry in entries():
        original, *_, test = entry
        named = named_in(test)
        assert all("/test_" in name for name in named), original
        assert named or test == "Not built yet.", f"names no test: {original}"


@pytest.mark.parametrize("number", range(len(LABELS)))
def test_an_entry_that_lacks_a_part_is_an_error(number):
    parts = [f"{label} Text `a.py`." for label in LABELS]
    assert cells("\n    - ".join(parts)) == ["Text `a.py`."] * len(LABELS)
    del parts[number]
    with pytest.raises(AssertionError):
        cells("\n    - ".join(parts))


def test_names_of_one_file_follow_its_path():
    assert named_in("`a/b.py` `::f`, `::C.g`; `c.py`, and `d.py` `::h`.") == [
        *("a/b.py::f", "a/b.py::C.g", "c.py", "d.py::h")
    ]


def test_every_known_fault_has_an_entry():
    originals = [entry[0] for entry in entries()]
    faults = {n for text in originals for n in re.findall(r"^Fault (\d+)\.", text)}
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
