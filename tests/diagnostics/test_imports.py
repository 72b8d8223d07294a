"""Wheels that crash, hang or fail on import."""

import pytest

from albert_tf.diagnostics import child, findings, imports
from tests.repository import project_files

OK, WARNING, FAILED = findings.Status
ILLEGAL = child.Outcome(-4)


def _one(outcome: child.Outcome, instructions=("avx", "avx2")) -> findings.Finding:
    [found] = imports.judge({"tensorflow": outcome}, instructions)
    return found


def test_working_imports_are_one_line_that_names_the_slow_ones():
    outcomes = {
        "numpy": child.Outcome(0, seconds=0.2),
        "tensorflow": child.Outcome(0, seconds=3.25),
    }
    [found] = imports.judge(outcomes, ())
    assert found.status is OK
    assert found.found == (
        "2 packages with compiled code can be imported: tensorflow in 3.2 s"
    )
    assert found.values == {"seconds": {"numpy": 0.2, "tensorflow": 3.25}}


def test_each_failed_import_has_a_line():
    outcomes = {
        "numpy": child.Outcome(0),
        "numba": child.Outcome(1, errors="ImportError: libLLVM.so: no such file\n"),
        "tensorflow": ILLEGAL,
    }
    found = imports.judge(outcomes, ("sse2",))
    assert [(one.status, one.found) for one in found] == [
        (FAILED, "import numba: ImportError: libLLVM.so: no such file"),
        (FAILED, "import tensorflow: crashed with SIGILL"),
        (OK, "1 packages with compiled code can be imported"),
    ]
    assert found[1].values == {"module": "tensorflow", "code": -4, "signal": "SIGILL"}


@pytest.mark.parametrize(
    ("outcome", "instructions", "remedy"),
    [
        (ILLEGAL, ("sse2",), "which lacks AVX"),
        # TensorFlow itself notices, and aborts.
        (child.Outcome(-6), ("sse2",), "which lacks AVX"),
        (ILLEGAL, ("avx",), "though it has AVX"),
        (child.Outcome(-6), ("avx",), "libtpu as in requirements-tpu.txt"),
        (child.Outcome(-9), ("avx",), "its memory"),
        (child.Outcome(-11), ("avx",), "reinstall it"),
        (child.Outcome(None), ("avx",), "TPU_SKIP_MDS_QUERY=1"),
        (
            child.Outcome(1, errors="ModuleNotFoundError: No module named 'x'"),
            (),
            "Install the pinned packages",
        ),
        (child.Outcome(1, errors="ImportError: libz.so.1: x"), (), "newer image"),
    ],
)
def test_remedies(outcome, instructions, remedy):
    found = _one(outcome, instructions)
    assert found.status is FAILED
    assert remedy in found.remedy


def test_packages_with_compiled_code_are_those_of_the_project():
    pinned = project_files.pinned_distributions(project_files.ROOT, "constraints.txt")
    names = {"sklearn": "scikit_learn", "grpc": "grpcio"}
    assert {names.get(module, module) for module in imports.MODULES} <= pinned
