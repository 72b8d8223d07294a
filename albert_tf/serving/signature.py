"""Base of the modules that answer strings with a fine-tuned model."""

import abc
import dataclasses
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from albert_tf.core import task_config
from albert_tf.model import encoder as encoder_lib
from albert_tf.model import task_model
from albert_tf.serving import packing, scaled_weights
from albert_tf.tokenization import tokenizer as tokenizer_lib

TEXTS = tf.TensorSpec([None], tf.string)

# From an encoder with its weights to the one that computes in an exported model.
MakeEncoder = Callable[[encoder_lib.Encoder], Any]


@dataclasses.dataclass(frozen=True)
class ServableTask:
    """A fine-tuned model and the settings that serving needs.

    Attributes:
      model: of the task.
      tokenizer: of the run.
      settings: the section `task` of the run's configuration.
      labels: names of the classes; empty where there are none.
      null_odds_threshold: above it a question counts as unanswerable.
      is_fixed_length: whether all rows are padded to `settings.max_seq_length` instead
        of the longest in the call.
      make_encoder: gives what computes the encoder's outputs.
    """

    model: task_model.TaskModel
    tokenizer: tokenizer_lib.Tokenizer
    settings: task_config.TaskConfig
    labels: tuple[str, ...]
    null_odds_threshold: float
    is_fixed_length: bool = False
    make_encoder: MakeEncoder = scaled_weights.ScaledEncoder


class TaskServing(tf.Module, abc.ABC):
    """Tokenizer and model of a task in one graph."""

    def __init__(self, trained: ServableTask):
        super().__init__(name="task_serving")
        model = trained.model
        encoder = trained.make_encoder(model.encoder)
        # The model is not an attribute: Keras would save a function for each layer.
        self._weights = encoder.variables_to_save(model.variables)
        self._infer_rows = lambda features: model.infer(features, encoder)
        # Here many rows are computed in portions, which bounds the memory. An encoder
        # outside the graph gets all rows at once, and divides them itself.
        self._encodes_in_graph = encoder.is_in_graph
        self._max_seq_length = trained.settings.max_seq_length
        self._fixed_length = self._max_seq_length if trained.is_fixed_length else None
        # Minimum length of a row.
        self._least_length = self._fixed_length or packing.SHORTEST
        self._special = packing.special_ids(trained.tokenizer)

    @property
    @abc.abstractmethod
    def signatures(self) -> dict:
        """The signatures of the SavedModel, by name."""

    def _infer(self, features, outputs: dict[str, tf.TensorSpec]):
        """Returns the model's outputs for rows, by the fields of the head's result."""

        def compute(portion):
            found = self._infer_rows(portion)
            return {name: getattr(found, name) for name in outputs}

        if self._fixed_length:
            features = {
                name: tf.ensure_shape(
                    value, [*value.shape.as_list()[:-1], self._fixed_length]
                )
                for name, value in features.items()
            }
        if not self._encodes_in_graph:
            return compute(features)
        return packing.in_portions(compute, features, outputs)


def describe(signatures: Mapping[str, Any]) -> str:
    """Returns the descriptions of signatures as Markdown.

    Args:
      signatures: by name, tf.functions.
    """
    lines = [
        "# Signatures",
        "",
        "T is the number of texts in a call, S that of the tokens of the longest.",
        "`tf.saved_model.load(DIR)` has a method for each. An argument with a default",
        "may be omitted there, and in requests to TensorFlow Serving.",
    ]
    for name, function in signatures.items():
        text = inspect.cleandoc(function.python_function.__doc__ or "")
        lines += ["", f"## {name}", "", "```text", text, "```"]
    return "\n".join([*lines, ""])


def specs(**shapes: Sequence[int | None]) -> dict[str, tf.TensorSpec]:
    """Returns specs of float32 tensors, given shapes without the axis of rows."""
    return {
        name: tf.TensorSpec([None, *shape], tf.float32)
        for name, shape in shapes.items()
    }
