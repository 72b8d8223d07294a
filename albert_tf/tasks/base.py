"""What fine-tuning asks of a task.

The data goes one way: `read` gives the examples of a split, `encode` rows for the
model, `collect` turns the model's outputs for all rows into outputs for the examples,
and from these come `score`, `answers` and `write_predictions`.
"""

import abc
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from albert_tf import task_config, tokenization
from albert_tf.tasks import examples as examples_lib
from albert_tf.tasks import outputs as outputs_lib
from albert_tf.tasks import rows as rows_lib

TRAIN = "train"
# The settings that name the file of a split.
FILE_SETTINGS = {TRAIN: "train_file", "dev": "dev_file", "test": "test_file"}


def is_labelled(example: Any) -> bool:
    """Whether it is known what is right."""
    if isinstance(example, examples_lib.SpanExample):
        return bool(example.answers) or example.is_impossible
    if isinstance(example, examples_lib.TokenExample):
        return example.labels is not None
    return example.label is not None


class Task(abc.ABC):
    """A task and its settings.

    Attributes:
      settings: the section `task` of the configuration.
      labels: names of the classes, in the order of their ids; empty where there are no
        classes, or where the training examples have yet to tell them.
      kind: a key of `task_models.HEADS`.
      metrics: the names of what `score` gives on any labelled split; the first chooses
        the best checkpoint. Higher is better.
      dev_splits, test_splits: what may be read besides "train"; test examples need no
        labels. The first of `dev_splits` chooses the checkpoint.
    """

    kind: str

    def __init__(
        self,
        settings: task_config.TaskConfig,
        labels: Sequence[str],
        metrics: Sequence[str],
        dev_splits: Sequence[str] = ("dev",),
        test_splits: Sequence[str] = ("test",),
    ):
        self.settings = settings
        self.labels = tuple(labels)
        self.metrics = tuple(metrics)
        self.dev_splits = tuple(dev_splits)
        self.test_splits = tuple(test_splits)

    def learn_labels(self, data_dir: str) -> None:
        """Reads the training examples now, where `metrics` depend on their labels.

        Takes and raises what `read` does.
        """
        del data_dir

    @abc.abstractmethod
    def read(
        self, data_dir: str, split: str, problems: examples_lib.Problems
    ) -> list[Any]:
        """The examples of a split, in the order of the file.

        Args:
          data_dir: the folder as downloaded, local or gs://.
          split: "train", or one of `dev_splits` and `test_splits`.
          problems: takes what cannot be used.

        Raises:
          ValueError: the file is missing or has another form; names file and line.
        """

    @abc.abstractmethod
    def has_split(self, data_dir: str, split: str) -> bool:
        """Whether the files of a split are there."""

    @abc.abstractmethod
    def head_settings(self) -> dict[str, Any]:
        """Arguments of the head, for `task_models.build_task_model`."""

    @abc.abstractmethod
    def encode(
        self,
        examples: Sequence[Any],
        tokenizer: tokenization.Tokenizer,
        is_training: bool,
    ) -> rows_lib.Rows:
        """Rows of examples; each example's depend on that example alone.

        Args:
          examples: as `read` gave them.
          tokenizer: of the model.
          is_training: whether the rows shall hold labels to learn from.
        """

    @abc.abstractmethod
    def collect(
        self,
        examples: Sequence[Any],
        rows: rows_lib.Rows,
        model_outputs: Mapping[str, np.ndarray],
    ) -> outputs_lib.Outputs:
        """What the model says of each example.

        Args:
          examples: N of them.
          rows: of all these examples.
          model_outputs: by the names of the fields of what `TaskModel.infer` returns,
            arrays with a leading axis of R (N for choices).
        """

    def calibrate(
        self, examples: Sequence[Any], outputs: outputs_lib.Outputs
    ) -> dict[str, float]:
        """Sets what turns outputs into answers, by what is best on labelled examples.

        Returns:
          What `use_calibration` takes, by name; empty where there is nothing to set.
        """
        del examples, outputs
        return {}

    def use_calibration(self, values: Mapping[str, float]) -> None:
        """Sets what `calibrate` found."""
        del values

    @abc.abstractmethod
    def score(
        self, examples: Sequence[Any], outputs: outputs_lib.Outputs
    ) -> dict[str, float]:
        """The metrics of labelled examples, in [0, 1] or [-1, 1]."""

    @abc.abstractmethod
    def answers(
        self, examples: Sequence[Any], outputs: outputs_lib.Outputs
    ) -> list[dict[str, Any]]:
        """What was found for each example, as JSON can hold it.

        Every object has `id` and `prediction`, besides the texts, `label` where it is
        known, `is_correct` then, and `probability` or scores.
        """

    @abc.abstractmethod
    def write_predictions(
        self,
        split: str,
        examples: Sequence[Any],
        outputs: outputs_lib.Outputs,
        folder: str,
    ) -> list[str]:
        """Writes what a leaderboard takes, and returns the paths."""
