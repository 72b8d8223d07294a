"""Settings and fixtures of all tests."""

import gc
import os
import pathlib
import signal

# Before anything imports TensorFlow: the tests hold what a CPU computes, on machines
# with a GPU too, and the runtime's information lines would bury pytest's.
os.environ["CUDA_VISIBLE_DEVICES"] = ""
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
# tensorflow-addons, the oracle of one test, takes tf.keras for Keras 2.
os.environ["TF_USE_LEGACY_KERAS"] = "1"

import pytest  # noqa: E402  (the environment comes first)

# On processors with AVX2 alone the package turns oneDNN on; not all tests were run with
# it there. So they take TensorFlow's default, in the processes that they start too, and
# `TF_ENABLE_ONEDNN_OPTS=1 make test` runs them with it.
_WITH_ONEDNN = {"avx512_vnni", "avx512_bf16", "avx_vnni", "amx_tile"}
_CPU = pathlib.Path("/proc/cpuinfo")
_INSTRUCTIONS = set(_CPU.read_text().split()) if _CPU.exists() else set()
if "avx2" in _INSTRUCTIONS and not _WITH_ONEDNN & _INSTRUCTIONS:
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")

# What XLA compiles runs a few times in a test; most of the time LLVM would optimize it.
# `XLA_FLAGS= make test` compiles as for users; in `make test` some tests always do: see
# `run_rooms`.
QUICKLY_COMPILED = "--xla_backend_optimization_level=0"
os.environ.setdefault("XLA_FLAGS", QUICKLY_COMPILED)

# A shell starts what runs in its background with Ctrl-C ignored, and processes that
# tests start and interrupt would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)

_TESTS = pathlib.Path(__file__).resolve().parent


@pytest.fixture(scope="session")
def testdata() -> pathlib.Path:
    """The small files that are checked in for tests."""
    return _TESTS / "testdata"


@pytest.fixture(scope="session")
def shared_data() -> pathlib.Path:
    """Real corpora and tasks, too large to check in; without them the test skips."""
    path = _TESTS.parent.parent / "shared" / "data"
    if not path.is_dir():
        pytest.skip("no folder ../shared/data beside the repository: real corpora")
    return path


def pytest_collection_finish() -> None:
    """Keeps collections of garbage from reading all that was imported, each time."""
    gc.collect()
    gc.freeze()
