"""ALBERT in TensorFlow: data preparation, training, evaluation and use.

    import albert_tf

    model = albert_tf.load("run")
    model.fill_mask("Paris is the [MASK] of France.")

The names of `albert_tf.__all__` are the Python API, described in docs/python.md and
docs/reference/api.md. They are loaded when they are first used, so that importing the
package takes no time. Everything else is private and may change.
"""

import importlib
from typing import TYPE_CHECKING, Any

from albert_tf.core import onednn

if TYPE_CHECKING:  # for editors and type checkers
    from albert_tf.api.layers import EncoderLayer as EncoderLayer
    from albert_tf.api.layers import load_encoder as load_encoder
    from albert_tf.api.models import Model as Model
    from albert_tf.api.models import load as load
    from albert_tf.api.models import load_tokenizer as load_tokenizer
    from albert_tf.api.training import build_model as build_model
    from albert_tf.api.training import compute_loss as compute_loss
    from albert_tf.api.training import load_config as load_config
    from albert_tf.api.training import read_batches as read_batches
    from albert_tf.training.trainer import Evaluation as Evaluation
    from albert_tf.training.trainer import Trainer as Trainer

__version__ = "0.1.0"

# TensorFlow reads it when it is imported, which everything here does later.
onednn.turn_on()

# The module of each name.
_MODULES = {
    "EncoderLayer": "albert_tf.api.layers",
    "Evaluation": "albert_tf.training.trainer",
    "Model": "albert_tf.api.models",
    "Trainer": "albert_tf.training.trainer",
    "build_model": "albert_tf.api.training",
    "compute_loss": "albert_tf.api.training",
    "load": "albert_tf.api.models",
    "load_config": "albert_tf.api.training",
    "load_encoder": "albert_tf.api.layers",
    "load_tokenizer": "albert_tf.api.models",
    "read_batches": "albert_tf.api.training",
}
__all__ = [*_MODULES, "__version__"]  # noqa: PLE0604


if not TYPE_CHECKING:  # for these any name would be one of the package

    def __getattr__(name: str) -> Any:
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        # Each name needs TensorFlow, whose own lines the commands hide too.
        importlib.import_module("albert_tf.core.tensorflow_console").install(False)
        value = getattr(importlib.import_module(_MODULES[name]), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted(__all__)
