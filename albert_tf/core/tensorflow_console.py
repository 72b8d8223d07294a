"""What the console shows of TensorFlow: a line while it is loaded, and not its noise.

TensorFlow logs on every start what is no fault: how it was built, and that a machine
without a GPU has no driver for one. Errors stay, and so does all with
TF_CPP_MIN_LOG_LEVEL=0.
"""

import contextlib
import ctypes
import importlib.abc
import importlib.machinery
import importlib.util
import os
import re
import sys
import tempfile
import types
from collections.abc import Iterator, Sequence

_MODULE = "tensorflow"
_LEVEL = "TF_CPP_MIN_LOG_LEVEL"
# Of that variable: all, and errors only.
_ALL, _ERRORS = "0", "2"
# absl's C++ logging does not read the variable. The function that sets its level has
# the version of absl in its name; that of another version is not found, and its
# information lines stay.
_SET_ABSL_LEVEL = "_ZN4absl12lts_2025012714SetMinLogLevelENS0_18LogSeverityAtLeastE"
_ABSL_WARNINGS = 1
# There is one of these where NVIDIA's driver, or WSL's for it, is installed.
_GPU_FILES = ("/proc/driver/nvidia", "/dev/nvidiactl", "/dev/dxg")
_NO_GPU = re.compile(rb"failed call to cuInit|Could not find cuda drivers")


def install() -> None:
    """Lets the first import of TensorFlow print a line, and removes its noise."""
    if _MODULE not in sys.modules:
        sys.meta_path.insert(0, _Finder())


class _Finder(importlib.abc.MetaPathFinder):
    """Finds TensorFlow, once."""

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: types.ModuleType | None = None,
    ) -> importlib.machinery.ModuleSpec | None:
        """Returns where TensorFlow is; None for all other modules."""
        if fullname != _MODULE:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is not None and type(spec.loader) is importlib.machinery.SourceFileLoader:
            print("loading TensorFlow, a few seconds", file=sys.stderr, flush=True)
            os.environ.setdefault(_LEVEL, _ERRORS)
            spec.loader = _Loader(spec.loader.name, spec.loader.path)
        return spec


class _Loader(importlib.machinery.SourceFileLoader):
    """Loads TensorFlow, and finds its devices."""

    def exec_module(self, module: types.ModuleType) -> None:
        """Runs the module; what this logs is shown, because it may fail."""
        super().exec_module(module)
        if os.environ[_LEVEL] == _ALL:
            return
        _set_absl_level(module)
        if not _has_gpu_driver():
            with _without(_NO_GPU):
                module.config.list_physical_devices()


def _set_absl_level(tensorflow: types.ModuleType) -> None:
    folder = tensorflow.sysconfig.get_lib()
    path = os.path.join(folder, "libtensorflow_framework.so.2")
    if not os.path.exists(path):
        return
    # It is loaded already, so that this only finds it.
    set_level = getattr(ctypes.CDLL(path), _SET_ABSL_LEVEL, None)
    if set_level is not None:
        set_level(_ABSL_WARNINGS)


def _has_gpu_driver() -> bool:
    """Returns whether a GPU that cannot be used would be worth a line."""
    hidden = os.environ.get("CUDA_VISIBLE_DEVICES") in ("", "-1")
    return not hidden and any(map(os.path.exists, _GPU_FILES))


@contextlib.contextmanager
def _without(noise: re.Pattern[bytes]) -> Iterator[None]:
    """Drops matching lines of what C++ code within writes to standard error."""
    sys.stderr.flush()
    with tempfile.TemporaryFile() as kept:
        before = os.dup(2)
        os.dup2(kept.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(before, 2)
            os.close(before)
            kept.seek(0)
            for line in kept:
                if not noise.search(line):
                    os.write(2, line)
