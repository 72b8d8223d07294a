"""The data of a fine-tuning: which examples are learnt, choose, and are scored."""

import dataclasses
import hashlib
from collections.abc import Sequence
from typing import Any

from albert_tf import files, tokenization
from albert_tf.tasks import base, preparation
from albert_tf.tasks import examples as examples_lib
from albert_tf.tasks import rows as rows_lib

# What the share of the training examples is called that chooses the checkpoint.
CHOOSING_SHARE = "train-share"


@dataclasses.dataclass(frozen=True)
class Split:
    """Examples and their rows.

    Attributes:
      name: such as "dev".
      examples: in the order of the file.
      rows: of all of them.
    """

    name: str
    examples: Sequence[Any]
    rows: rows_lib.Rows

    @property
    def has_labels(self) -> bool:
        """Whether it can be scored."""
        return all(base.is_labelled(example) for example in self.examples)


@dataclasses.dataclass(frozen=True)
class TaskData:
    """What a fine-tuning reads.

    Attributes:
      train: what is learnt from.
      choosing: whose score chooses the checkpoint; None where there is nothing.
      predicted: what is predicted in the end, and scored where it has labels.
      notes: what was left out, for people.
    """

    train: Split
    choosing: Split | None
    predicted: tuple[Split, ...]
    notes: tuple[str, ...]


class Loader:
    """Reads splits of a task and prepares them."""

    def __init__(
        self,
        task: base.Task,
        tokenizer: tokenization.Tokenizer,
        data_dir: str,
        cache_dir: str,
    ):
        self._task = task
        self._tokenizer = tokenizer
        self._data_dir = data_dir
        self._cache_dir = cache_dir
        skips = task.settings.bad_examples == "skip"
        self._problems = examples_lib.Problems(skips)

    @property
    def left_out(self) -> list[str]:
        """What was left out of all that was read so far, for people."""
        return self._problems.lines()

    def load(self) -> TaskData:
        """All that a fine-tuning needs; splits whose files are absent are left out.

        Raises:
          ValueError: a file is missing or bad, or there are no training examples.
        """
        task = self._task
        if not files.is_folder(self._data_dir):
            raise ValueError(f"--data_dir: there is no folder {self._data_dir}")
        learnt = self._read(base.TRAIN)
        kept: list[Any] = []
        # Differs from the original: it scores what chose the checkpoint, and no more.
        rate = task.settings.selection_rate
        if rate:
            kept = [example for example in learnt if _share(example) < rate]
            learnt = [example for example in learnt if _share(example) >= rate]
            if not kept or not learnt:
                raise ValueError(
                    "task.selection_rate must leave examples on both sides; received "
                    f"{rate} for {len(kept) + len(learnt)} training examples"
                )
        train = Split(base.TRAIN, learnt, self._rows(learnt, is_training=True))
        predicted = tuple(
            self.read_split(name)
            for name in (*task.dev_splits, *task.test_splits)
            if task.has_split(self._data_dir, name)
        )
        self._check_named_files([split.name for split in predicted])
        choosing = next((s for s in predicted if s.name == task.dev_splits[0]), None)
        if kept:
            choosing = Split(CHOOSING_SHARE, kept, self._rows(kept, is_training=False))
        if choosing is not None and not choosing.has_labels:
            raise ValueError(
                f"the examples of {choosing.name} must have labels: they choose the "
                "checkpoint. Give labels, or --set task.selection_rate=0.1"
            )
        notes = self.left_out
        if choosing is None:
            notes.append(
                "there are no development examples: the last checkpoint counts, and "
                "has no score"
            )
        return TaskData(train, choosing, predicted, tuple(notes))

    def _check_named_files(self, found: Sequence[str]) -> None:
        """A file that was named must be there; the others may be absent."""
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

    def read_split(self, name: str) -> Split:
        """A split to predict.

        Raises:
          ValueError: its file is missing or bad, or holds no examples.
        """
        examples = self._read(name)
        return Split(name, examples, self._rows(examples, is_training=False))

    def _read(self, name: str) -> list[Any]:
        examples = self._task.read(self._data_dir, name, self._problems)
        if not examples:
            raise ValueError(f"{self._data_dir}: there are no {name} examples")
        return examples

    def _rows(self, examples: Sequence[Any], is_training: bool) -> rows_lib.Rows:
        return preparation.prepare(
            self._task, self._tokenizer, examples, is_training, self._cache_dir
        )


def _share(example: Any) -> float:
    """Where an example falls in [0, 1); questions on one text fall together."""
    key = getattr(example, "context", None) or example.id
    digest = hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:8], "big") / 2.0**64
