"""The nine tasks of GLUE (Wang et al., 2019), in the files of its official download.

File and submission formats: https://gluebenchmark.com.
"""

import dataclasses
import os
from collections.abc import Sequence

from albert_tf.core import files, task_config
from albert_tf.tasks import base, text_files, text_task
from albert_tf.tasks import examples as examples_lib
from albert_tf.tasks import predictions as predictions_lib

DIAGNOSTIC = "diagnostic"
_STSB_MAX = 5.0
_BINARY = ("0", "1")
_ENTAILMENT = ("entailment", "not_entailment")
# CoLA's training and development files have no header line.
_COLA_COLUMNS = ("source", "label", "original_label", "sentence")


@dataclasses.dataclass(frozen=True)
class _Layout:
    """File format of a task.

    Attributes:
      folder: directory within the download.
      text, pair: the columns of the texts; `pair` is None for single texts.
      label: the column of labels.
      labels: the classes in the original's order; empty for regression.
      metric_names: see `base.Task`.
      submission: the names of the files of predictions, by split.
    """

    folder: str
    text: str
    pair: str | None
    label: str
    labels: tuple[str, ...]
    metric_names: tuple[str, ...]
    submission: dict[str, str]


def _one(name: str) -> dict[str, str]:
    return {"dev": name, "test": name}


_LAYOUTS = {
    "cola": _Layout(
        "CoLA", "sentence", None, "label", _BINARY, ("matthews",), _one("CoLA")
    ),
    "sst2": _Layout(
        "SST-2", "sentence", None, "label", _BINARY, ("accuracy",), _one("SST-2")
    ),
    "mrpc": _Layout(
        "MRPC",
        "#1 String",
        "#2 String",
        "Quality",
        _BINARY,
        ("accuracy", "f1"),
        _one("MRPC"),
    ),
    "stsb": _Layout(
        "STS-B",
        "sentence1",
        "sentence2",
        "score",
        (),
        ("pearson", "spearman"),
        _one("STS-B"),
    ),
    "qqp": _Layout(
        "QQP",
        "question1",
        "question2",
        "is_duplicate",
        _BINARY,
        ("accuracy", "f1"),
        _one("QQP"),
    ),
    "mnli": _Layout(
        "MNLI",
        "sentence1",
        "sentence2",
        "gold_label",
        ("contradiction", "entailment", "neutral"),
        ("accuracy",),
        {
            "dev_matched": "MNLI-m",
            "dev_mismatched": "MNLI-mm",
            "test_matched": "MNLI-m",
            "test_mismatched": "MNLI-mm",
            DIAGNOSTIC: "AX",
        },
    ),
    "qnli": _Layout(
        "QNLI",
        "question",
        "sentence",
        "label",
        _ENTAILMENT,
        ("accuracy",),
        _one("QNLI"),
    ),
    "rte": _Layout(
        "RTE",
        "sentence1",
        "sentence2",
        "label",
        _ENTAILMENT,
        ("accuracy",),
        _one("RTE"),
    ),
    "wnli": _Layout(
        "WNLI", "sentence1", "sentence2", "label", _BINARY, ("accuracy",), _one("WNLI")
    ),
}
TASKS = tuple(_LAYOUTS)
# All files of a submission.
SUBMISSION_FILES = tuple(
    dict.fromkeys(
        f"{name}.tsv"
        for layout in _LAYOUTS.values()
        for name in layout.submission.values()
    )
)


class GlueTask(text_task.TextTask):
    """A task of GLUE.

    The data directory is the download, with one directory per task, or the directory of
    the task. Quotes in the files have no meaning. The ids of examples are those of the
    column `index` or `id`, or numbers from 0. In test files, where every row needs a
    prediction, a text may be empty.
    """

    def __init__(self, settings: task_config.TaskConfig):
        """Creates the task with the name `settings.name`."""
        self._layout = _LAYOUTS[settings.name]
        splits = tuple(self._layout.submission)
        dev_splits = tuple(split for split in splits if split.startswith("dev"))
        super().__init__(
            settings,
            text_task.CLASSIFICATION if self._layout.labels else text_task.REGRESSION,
            self._layout.labels,
            self._layout.metric_names,
            dev_splits=dev_splits,
            test_splits=splits[len(dev_splits) :],
        )

    @property
    def text_columns(self) -> tuple[str, ...]:
        """See `text_task.TextTask`."""
        return tuple(filter(None, (self._layout.text, self._layout.pair)))

    def has_split(self, data_dir: str, split: str) -> bool:
        """See `base.Task`."""
        return text_files.first_existing(self._paths(data_dir, split)) is not None

    def read(
        self, data_dir: str, split: str, problems: examples_lib.Problems
    ) -> list[examples_lib.TextExample]:
        """See `base.Task`."""
        key = self._override(split)
        other = f"or name another file with --set task.{key}=NAME" if key else ""
        path = text_files.require(
            self._paths(data_dir, split),
            f"Pass the directory of GLUE's download {other}".rstrip(),
        )
        is_test = split in self.test_splits
        rows = text_files.tsv(path)
        if self.settings.name == "cola" and not is_test:
            columns, first_line = list(_COLA_COLUMNS), 1
        else:
            columns, first_line = next(rows, (1, [""]))[1], 2
        places = self._places(columns, is_test, f"{path}:1")
        found = text_task.ExampleList(problems, allows_empty=is_test)
        for line, cells in rows:
            origin = f"{path}:{line}"
            # Differs from the original: it silently skips rows of QQP that lack
            # columns, and reads others from wrong columns.
            if len(cells) != len(columns):
                rule = f"a row must have {len(columns)} columns, separated by tabs"
                problems.add(origin, rule, cells)
                continue
            text, pair, label, example_id = (
                None if place is None else cells[place] for place in places
            )
            value = None
            if label is not None:
                value = self.read_label(label, origin, problems)
                if value is None:
                    continue
            name = str(line - first_line) if example_id is None else example_id
            found.add(examples_lib.TextExample(name, text or "", pair, value, origin))
        return found.examples(path)

    def write_predictions(
        self,
        split: str,
        examples: Sequence[examples_lib.TextExample],
        predictions: predictions_lib.Predictions,
        folder: str,
    ) -> list[str]:
        """Writes a table of `index` and `prediction`, as GLUE's site accepts it.

        Files of test splits have the official name, such as `MNLI-m.tsv`; for other
        splits the name of the split is added. STS-B values are clipped to [0, 5].
        """
        name = self._layout.submission.get(split, self._layout.folder)
        if split not in self.test_splits:
            name += f"-{split}"
        path = text_files.join(folder, f"{name}.tsv")
        lines = ["index\tprediction"]
        for example, value in zip(
            examples, self.predicted_values(predictions), strict=True
        ):
            if isinstance(value, float):
                value = f"{min(max(value, 0.0), _STSB_MAX):.3f}"
            lines.append(f"{example.id}\t{value}")
        text_files.write_lines(path, lines)
        return [path]

    def _override(self, split: str) -> str:
        """The setting that names another file for a split, or an empty string."""
        firsts = {
            base.TRAIN: "train_file",
            self.dev_splits[0]: "dev_file",
            self.test_splits[0]: "test_file",
        }
        return firsts.get(split, "")

    def _paths(self, data_dir: str, split: str) -> list[str]:
        """The possible paths of the file of a split."""
        task_dir = os.path.join(data_dir, self._layout.folder)
        if split == DIAGNOSTIC:
            above = os.path.join(data_dir, os.pardir)
            if files.is_remote(data_dir):  # which has no ..
                above = os.path.dirname(data_dir.rstrip("/"))
            within = (data_dir, os.path.join(data_dir, DIAGNOSTIC), task_dir)
            folders = (*within, os.path.join(above, DIAGNOSTIC))
            return [os.path.join(folder, f"{DIAGNOSTIC}.tsv") for folder in folders]
        key = self._override(split)
        name = getattr(self.settings, key) if key else ""
        name = name or f"{split}.tsv"
        return [text_files.join(folder, name) for folder in (task_dir, data_dir)]

    def _places(
        self, columns: Sequence[str], is_test: bool, origin: str
    ) -> tuple[int, int | None, int | None, int | None]:
        """The columns of text, pair, label and id; None for those that are not read."""

        def place(name: str) -> int:
            if name not in columns:
                raise ValueError(
                    f"{origin}: there must be a column {name!r}; received "
                    f"{', '.join(columns):.300}. Use the official file of "
                    f"{self._layout.folder}"
                )
            return columns.index(name)

        layout = self._layout
        ids = [columns.index(name) for name in ("index", "id") if name in columns]
        return (
            place(layout.text),
            None if layout.pair is None else place(layout.pair),
            None if is_test else place(layout.label),
            ids[0] if ids else None,
        )
