"""The splits of a fine-tuning task: for training, selection and evaluation."""

import dataclasses
import hashlib
from collections.abc import Sequence
from typing import Any

from albert_tf.core import files
from albert_tf.tasks import base, feature_cache
from albert_tf.tasks import examples as examples_lib
from albert_tf.tasks import features as features_lib
from albert_tf.tokenization import tokenizer as tokenizer_lib

# Name of the part of the training examples that selects the checkpoint.
SELECTION_SPLIT = "train-share"


@dataclasses.dataclass(frozen=True)
class TaskSplit:
    """Examples of a split, and their features.

    Attributes:
      name: such as "dev".
      examples: in the order of the file.
      features: of all examples.
    """

    name: str
    examples: Sequence[Any]
    features: features_lib.Features

    @property
    def has_labels(self) -> bool:
        """True if all examples have labels."""
        return all(base.is_labelled(example) for example in self.examples)


@dataclasses.dataclass(frozen=True)
class TaskData:
    """All splits of a fine-tuning run.

    Attributes:
      train: the training split, without the examples of `selection`.
      selection: the split whose metric selects the checkpoint; None if there is none.
      eval_splits: predicted at the end of training, and evaluated if labelled.
      notes: messages about skipped examples.
    """

    train: TaskSplit
    selection: TaskSplit | None
    eval_splits: tuple[TaskSplit, ...]
    notes: tuple[str, ...]


class Loader:
    """Reads and encodes splits of a task."""

    def __init__(
        self,
        task: base.Task,
        tokenizer: tokenizer_lib.Tokenizer,
        data_dir: str,
        cache_dir: str,
    ):
        self._task = task
        self._tokenizer = tokenizer
        self._data_dir = data_dir
        self._cache_dir = cache_dir
        skips = task.settings.on_bad_example == "skip"
        self._problems = examples_lib.Problems(skips)

    @property
    def skipped(self) -> list[str]:
        """Messages about the examples skipped so far."""
        return self._problems.lines()

    def load(self) -> TaskData:
        """Loads all splits of a fine-tuning run; optional files may be absent.

        Raises:
          ValueError: a file is missing or malformed, or there are no training examples.
        """
        task = self._task
        if not files.is_folder(self._data_dir):
            raise ValueError(f"--data_dir: there is no directory {self._data_dir}")
        trained = self._read(base.TRAIN)
        kept: list[Any] = []
        # Differs from the original, which evaluates only the split that selects the
        # checkpoint.
        rate = task.settings.selection_fraction
        if rate:
            kept = [example for example in trained if _position(example) < rate]
            trained = [example for example in trained if _position(example) >= rate]
            if not kept or not trained:
                raise ValueError(
                    "task.selection_fraction must leave examples on both sides; "
                    f"received {rate} for {len(kept) + len(trained)} training examples"
                )
        train = TaskSplit(base.TRAIN, trained, self._encode(trained, is_training=True))
        eval_splits = tuple(
            self.read_split(name)
            for name in (*task.dev_splits, *task.test_splits)
            if task.has_split(self._data_dir, name)
        )
        self._check_named_files([split.name for split in eval_splits])
        selection = next((s for s in eval_splits if s.name == task.dev_splits[0]), None)
        if kept:
            selection = TaskSplit(
                SELECTION_SPLIT, kept, self._encode(kept, is_training=False)
            )
        if selection is not None and not selection.has_labels:
            raise ValueError(
                f"the examples of {selection.name} must have labels, because they "
                "select the checkpoint. Add labels, or pass --set "
                "task.selection_fraction=0.1"
            )
        notes = self.skipped
        if selection is None:
            notes.append(
                "there are no development examples: the last checkpoint is used, "
                "without metrics"
            )
        return TaskData(train, selection, eval_splits, tuple(notes))

    def _check_named_files(self, found: Sequence[str]) -> None:
        """Raises ValueError if a file that the settings name does not exist."""
        task = self._task
        for key, splits in (
            ("dev_file", task.dev_splits),
            ("test_file", task.test_splits),
        ):
            name = getattr(task.settings, key)
            if name and splits and splits[0] not in found:
                raise ValueError(
                    f"task.{key} must name a file in {self._data_dir}; received "
                    f"{name!r}, which is not there"
                )

    def read_split(self, name: str) -> TaskSplit:
        """Reads and encodes a split to predict.

        Raises:
          ValueError: its file is missing, malformed or without examples.
        """
        examples = self._read(name)
        return TaskSplit(name, examples, self._encode(examples, is_training=False))

    def _read(self, name: str) -> list[Any]:
        examples = self._task.read(self._data_dir, name, self._problems)
        if not examples:
            raise ValueError(f"{self._data_dir}: there are no {name} examples")
        return examples

    def _encode(
        self, examples: Sequence[Any], is_training: bool
    ) -> features_lib.Features:
        return feature_cache.load_or_encode(
            self._task, self._tokenizer, examples, is_training, self._cache_dir
        )


def _position(example: Any) -> float:
    """A hash of an example in [0, 1); questions on the same text have the same."""
    key = getattr(example, "context", None) or example.id
    digest = hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:8], "big") / 2.0**64
