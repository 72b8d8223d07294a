"""What the console shows of TensorFlow: a line while it is loaded, and not its noise.

TensorFlow logs on every start what is no fault: how it was built, and, as an error,
that a machine without a GPU has no driver for one. What fails raises an exception too.
TF_CPP_MIN_LOG_LEVEL=0 shows all of its lines.
"""

import ctypes
import importlib.abc
import importlib.machinery
import importlib.util
import logging
import os
import sys
import types
from collections.abc import Sequence

_MODULE = "tensorflow"
_LEVEL = "TF_CPP_MIN_LOG_LEVEL"
# Of that variable: all lines, those of errors, and those before the process aborts.
_ALL, _ERRORS, _FATAL = "0", "2", "3"
# absl's C++ logging does not read the variable. The function that sets its level has
# the version of absl in its name; that of another version is not found, and its
# information lines stay.
_SET_ABSL_LEVEL = "_ZN4absl12lts_2025012714SetMinLogLevelENS0_18LogSeverityAtLeastE"
_ABSL_WARNINGS = 1
# A command that builds several models, such as those of several seeds, traces the same
# function for each. TensorFlow warns the author of the program, not its user, of that.
_RETRACING = "triggered tf.function retracing"
# There is one of these where the driver of NVIDIA, WSL's for it, or a TPU is there.
_ACCELERATORS = (
    *("/proc/driver/nvidia", "/dev/nvidiactl", "/dev/dxg"),
    *("/dev/accel0", "/dev/vfio/0"),
)


def install(is_command: bool = True) -> None:
    """Removes the noise of the first import of TensorFlow.

    Args:
      is_command: whether to print a line that it is loaded.
    """
    if _MODULE not in sys.modules:
        sys.meta_path.insert(0, _Finder(is_command))


def log_level() -> str:
    """Returns the level of the lines to show.

    Errors of accelerators and of the connections between workers are worth a line; a
    CPU alone has none that is not raised too.
    """
    has_accelerator = any(map(os.path.exists, _ACCELERATORS))
    if os.environ.get("CUDA_VISIBLE_DEVICES") in ("", "-1"):
        has_accelerator = False
    return _ERRORS if has_accelerator or os.environ.get("TF_CONFIG") else _FATAL


class _Finder(importlib.abc.MetaPathFinder):
    """Finds TensorFlow, once."""

    def __init__(self, is_command: bool):
        self._is_command = is_command

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
        loader = spec.loader if spec else None
        if spec is not None and type(loader) is importlib.machinery.SourceFileLoader:
            if self._is_command:
                print("loading TensorFlow, a few seconds", file=sys.stderr, flush=True)
            os.environ.setdefault(_LEVEL, log_level())
            spec.loader = _Loader(loader.name, loader.path)
            if self._is_command and os.environ[_LEVEL] != _ALL:
                logging.getLogger(_MODULE).addFilter(_is_for_users)
        return spec


def _is_for_users(record: logging.LogRecord) -> bool:
    return _RETRACING not in record.getMessage()


class _Loader(importlib.machinery.SourceFileLoader):
    """Loads TensorFlow, and sets the level of absl's lines."""

    def exec_module(self, module: types.ModuleType) -> None:
        """Runs the module."""
        super().exec_module(module)
        if os.environ[_LEVEL] != _ALL:
            _set_absl_level(module)


def _set_absl_level(tensorflow: types.ModuleType) -> None:
    folder = tensorflow.sysconfig.get_lib()
    path = os.path.join(folder, "libtensorflow_framework.so.2")
    if not os.path.exists(path):
        return
    # It is loaded already, so that this only finds it.
    set_level = getattr(ctypes.CDLL(path), _SET_ABSL_LEVEL, None)
    if set_level is not None:
        set_level(_ABSL_WARNINGS)
