"""What the servings of all kinds share."""

import abc
import dataclasses
from collections.abc import Sequence

import tensorflow as tf

from albert_tf import task_config, task_models, tokenization
from albert_tf.task_serving import packing

TEXTS = tf.TensorSpec([None], tf.string)


@dataclasses.dataclass(frozen=True)
class FineTuned:
    """A fine-tuned model and what it was trained with.

    Attributes:
      model: of the task.
      tokenizer: of the run.
      settings: the section `task` of the run's configuration.
      labels: names of the classes; empty where there are none.
      null_odds_threshold: above it a question counts as one without an answer.
      is_fixed_length: whether all rows are padded to `settings.max_seq_length`, and not
        to the longest in the call.
    """

    model: task_models.TaskModel
    tokenizer: tokenization.Tokenizer
    settings: task_config.TaskConfig
    labels: tuple[str, ...]
    null_odds_threshold: float
    is_fixed_length: bool = False


class TaskServing(tf.Module, abc.ABC):
    """Tokenizer and model of a task in one graph."""

    def __init__(self, trained: FineTuned):
        super().__init__(name="task_serving")
        model, cast = trained.model, trained.model.encoder.cast_blocks()
        # The model is no attribute: Keras would then save a function for each layer.
        self._weights = cast.weights_to_save(model.variables)
        self._infer_rows = lambda features: model.infer(features, cast.copy())
        self._max_seq_length = trained.settings.max_seq_length
        self._fixed_length = self._max_seq_length if trained.is_fixed_length else None
        # Of a row, however short its text is.
        self._least_length = self._fixed_length or packing.SHORTEST
        self._special = packing.special_ids(trained.tokenizer)

    @property
    @abc.abstractmethod
    def signatures(self) -> dict:
        """The signatures of the SavedModel, by name."""

    def _infer(self, features, outputs: dict[str, tf.TensorSpec]):
        """What the model finds in rows, by the fields of the head's outputs."""

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
        return packing.in_portions(compute, features, outputs)


def specs(**shapes: Sequence[int | None]) -> dict[str, tf.TensorSpec]:
    """Specs of float32 tensors by name, without the leading axis of rows."""
    return {
        name: tf.TensorSpec([None, *shape], tf.float32)
        for name, shape in shapes.items()
    }
