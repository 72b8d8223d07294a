"""Interface of a fine-tuning task.

`read` returns the examples of a split, `encode` turns them into features for the model,
and `postprocess` turns the model's outputs for these features into predictions, one per
example. `compute_metrics`, `answers` and `write_predictions` take the predictions.
"""

import abc
import collections
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from albert_tf.core import task_config
from albert_tf.tasks import examples as examples_lib
from albert_tf.tasks import features as features_lib
from albert_tf.tasks import predictions as predictions_lib
from albert_tf.tokenization import tokenizer as tokenizer_lib

TRAIN = "train"
# The settings that name the file of a split.
FILE_SETTINGS = {TRAIN: "train_file", "dev": "dev_file", "test": "test_file"}


def is_labelled(example: Any) -> bool:
    """Returns whether the correct answer of an example is known."""
    if isinstance(example, examples_lib.SpanExample):
        return bool(example.answers) or example.is_impossible
    if isinstance(example, examples_lib.TokenExample):
        return example.labels is not None
    return example.label is not None


def majority_share(examples: Sequence[Any]) -> float | None:
    """Returns the accuracy of always answering the most frequent label, in [0, 1].

    Args:
      examples: of one split; of words with labels, each word counts.

    Returns:
      It, or None if labels are numbers or spans, or there are none.
    """
    labels: list[Any] = []
    for example in examples:
        if isinstance(example, examples_lib.TokenExample):
            labels += example.labels or ()
        elif isinstance(example, examples_lib.TextExample | examples_lib.ChoiceExample):
            labels += [] if example.label is None else [example.label]
    if not labels or isinstance(labels[0], float):
        return None
    return collections.Counter(labels).most_common(1)[0][1] / len(labels)


class Task(abc.ABC):
    """A task and its settings.

    Attributes:
      settings: the section `task` of the configuration.
      labels: names of the classes, in the order of their ids; empty if there are no
        classes, or if the training examples that define them were not read yet.
      kind: a key of `task_model.HEADS`.
      metric_names: the metrics that `compute_metrics` returns for every labelled split.
        The first selects the best checkpoint. Higher is better.
      notes: lines for the log, about what the labels prevent.
      dev_splits, test_splits: the splits other than "train"; test examples need no
        labels. The first of `dev_splits` selects the checkpoint.
    """

    kind: str
    notes: tuple[str, ...] = ()

    def __init__(
        self,
        settings: task_config.TaskConfig,
        labels: Sequence[str],
        metric_names: Sequence[str],
        dev_splits: Sequence[str] = ("dev",),
        test_splits: Sequence[str] = ("test",),
    ):
        self.settings = settings
        self.labels = tuple(labels)
        self.metric_names = tuple(metric_names)
        self.dev_splits = tuple(dev_splits)
        self.test_splits = tuple(test_splits)

    def learn_labels(self, data_dir: str) -> None:
        """Reads the training examples now if the metrics depend on their labels.

        Raises:
          ValueError: as for `read`.
        """
        del data_dir

    @abc.abstractmethod
    def read(
        self, data_dir: str, split: str, problems: examples_lib.Problems
    ) -> list[Any]:
        """Reads the examples of a split, in the order of the file.

        Args:
          data_dir: the directory as downloaded, local or gs://.
          split: "train", or one of `dev_splits` and `test_splits`.
          problems: receives the examples that cannot be used.

        Raises:
          ValueError: the file is missing or malformed; names file and line.
        """

    @abc.abstractmethod
    def has_split(self, data_dir: str, split: str) -> bool:
        """Returns whether the files of a split exist."""

    @abc.abstractmethod
    def head_settings(self) -> dict[str, Any]:
        """Arguments of the head, for `task_model.build_task_model`."""

    @abc.abstractmethod
    def encode(
        self,
        examples: Sequence[Any],
        tokenizer: tokenizer_lib.Tokenizer,
        is_training: bool,
    ) -> features_lib.Features:
        """Encodes examples, each independently of the others.

        Args:
          examples: from `read`.
          tokenizer: of the model.
          is_training: whether to include the labels.
        """

    @abc.abstractmethod
    def postprocess(
        self,
        examples: Sequence[Any],
        features: features_lib.Features,
        model_outputs: Mapping[str, np.ndarray],
    ) -> predictions_lib.Predictions:
        """Turns the model's outputs into one prediction per example.

        Args:
          examples: N examples.
          features: of these examples, R rows.
          model_outputs: the fields of the result of `TaskModel.infer` by name, arrays
            with a leading axis of R (N for choices).
        """

    def calibrate(
        self, examples: Sequence[Any], predictions: predictions_lib.Predictions
    ) -> dict[str, float]:
        """Tunes thresholds of the task on labelled examples.

        Returns:
          The arguments of `use_calibration` by name; empty if there are none.
        """
        del examples, predictions
        return {}

    def use_calibration(self, values: Mapping[str, float]) -> None:
        """Sets the values that `calibrate` returned."""
        del values

    @abc.abstractmethod
    def compute_metrics(
        self, examples: Sequence[Any], predictions: predictions_lib.Predictions
    ) -> dict[str, float]:
        """Computes the metrics of labelled examples, in [0, 1] or [-1, 1]."""

    @abc.abstractmethod
    def answers(
        self, examples: Sequence[Any], predictions: predictions_lib.Predictions
    ) -> list[dict[str, Any]]:
        """Describes each example and its prediction as a JSON object.

        Every object has `id`, the texts, `prediction`, and `probability` or scores;
        with a known label also `label` and `is_correct`.
        """

    @abc.abstractmethod
    def write_predictions(
        self,
        split: str,
        examples: Sequence[Any],
        predictions: predictions_lib.Predictions,
        folder: str,
    ) -> list[str]:
        """Writes the files that a leaderboard accepts, and returns their paths."""
