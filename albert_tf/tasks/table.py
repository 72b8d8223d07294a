"""Classification or regression of texts in user tables: TSV, CSV or JSON lines."""

import json
import os
from collections.abc import Iterator, Sequence
from typing import Any

from albert_tf.core import task_config
from albert_tf.tasks import base, checks, metrics, text_files, text_task
from albert_tf.tasks import examples as examples_lib
from albert_tf.tasks import predictions as predictions_lib

_METRICS = {
    text_task.CLASSIFICATION: ("accuracy", "macro_f1", "matthews"),
    text_task.REGRESSION: ("pearson", "spearman"),
}
_COLUMN_KEYS = ("text_column", "pair_column", "label_column", "id_column")
_EXTENSIONS = (".tsv", ".csv", ".jsonl")
_NO_LABEL_RULE = "a label must not be empty"

# The cells of a row by column; None if JSON has null or no such key.
_Row = dict[str, str | None]


class TableTask(text_task.TextTask):
    """Classification or regression of texts or pairs in the user's files.

    Files are named train, dev and test with one of the extensions, unless the settings
    name them. The extension gives the format. `.tsv` has cells separated by tabs, and
    quotes have no meaning; `.csv` supports quotes; a line of `.jsonl` is an object. The
    first two begin with a header line. Rows without ids are numbered from 0. Labels are
    text: 1 and 1.0 are two classes. Test files may have labels.
    """

    def __init__(self, settings: task_config.TaskConfig, labels: Sequence[str] = ()):
        """Without `labels`, those of the training file are used, sorted.

        Raises:
          ValueError: the column of texts or of labels has no name.
        """
        for key in ("text_column", "label_column"):
            if not getattr(settings, key):
                raise ValueError(
                    f"task.{key} must name a column of the table; received ''"
                )
        super().__init__(settings, settings.kind, labels, _METRICS[settings.kind])

    @property
    def text_columns(self) -> tuple[str, ...]:
        """See `text_task.TextTask`."""
        names = self.settings.text_column, self.settings.pair_column
        return tuple(filter(None, names))

    def has_split(self, data_dir: str, split: str) -> bool:
        """See `base.Task`."""
        return text_files.first_existing(self._paths(data_dir, split)) is not None

    def read(
        self, data_dir: str, split: str, problems: examples_lib.Problems
    ) -> list[examples_lib.TextExample]:
        """See `base.Task`."""
        path = self._path(data_dir, split)
        learns_labels = (
            split == base.TRAIN
            and self.kind == text_task.CLASSIFICATION
            and not self.labels
        )
        if self.kind == text_task.CLASSIFICATION and not learns_labels:
            checks.require_labels(self.labels)
        found = text_task.ExampleList(problems, allows_empty=False)
        needs_label = split not in self.test_splits
        for number, (origin, row) in enumerate(self._rows(path, needs_label, problems)):
            raw = row.get(self.settings.label_column)
            label: str | float | None = None
            if raw:
                label = raw
                if not learns_labels:
                    label = self.read_label(raw, origin, problems)
                    if label is None:
                        continue
            elif needs_label:
                problems.add(origin, _NO_LABEL_RULE, raw)
                continue
            # A column without a name, such as that of pandas' index, is no column of
            # ids.
            id_column = self.settings.id_column
            name = row.get(id_column) if id_column else None
            found.add(
                examples_lib.TextExample(
                    str(number) if name is None else name,
                    row[self.settings.text_column] or "",
                    (row[self.settings.pair_column] or "")
                    if self.settings.pair_column
                    else None,
                    label,
                    origin,
                )
            )
        examples = found.examples(path)
        if learns_labels:
            self.labels = tuple(sorted({str(e.label) for e in examples}))
            checks.require_two_labels(path, self.labels)
        return examples

    def compute_metrics(
        self,
        examples: Sequence[examples_lib.TextExample],
        predictions: predictions_lib.Predictions,
    ) -> dict[str, float]:
        """See `base.Task`; regression adds `mean_squared_error`, lower is better."""
        found = super().compute_metrics(examples, predictions)
        if self.kind == text_task.REGRESSION:
            found["mean_squared_error"] = metrics.mean_squared_error(
                self._true(examples), self._predicted(predictions)
            )
        return found

    def write_predictions(
        self,
        split: str,
        examples: Sequence[examples_lib.TextExample],
        predictions: predictions_lib.Predictions,
        folder: str,
    ) -> list[str]:
        """Writes `predictions-SPLIT.tsv`: id, prediction and, for classes, probability.

        Tabs and line breaks in cells are replaced by spaces.
        """
        path = text_files.join(folder, f"predictions-{split}.tsv")
        values = self.predicted_values(predictions)
        if self.kind == text_task.REGRESSION:
            lines = ["id\tprediction"]
            for example, value in zip(examples, values, strict=True):
                lines.append(f"{text_files.cell(example.id)}\t{value:.7g}")
        else:
            lines = ["id\tprediction\tprobability"]
            for example, label, probability in zip(
                examples, values, self.probabilities(predictions), strict=True
            ):
                cells = text_files.cell(example.id), text_files.cell(str(label))
                lines.append("\t".join([*cells, f"{probability:.6f}"]))
        text_files.write_lines(path, lines)
        return [path]

    def _paths(self, data_dir: str, split: str) -> list[str]:
        """The possible paths of a split: the named file, or one per extension."""
        name = getattr(self.settings, base.FILE_SETTINGS[split])
        names = [name] if name else [split + extension for extension in _EXTENSIONS]
        return [text_files.join(data_dir, name) for name in names]

    def _path(self, data_dir: str, split: str) -> str:
        advice = f"Name the file with --set task.{base.FILE_SETTINGS[split]}=NAME"
        path = text_files.require(self._paths(data_dir, split), advice)
        if not path.endswith(_EXTENSIONS):
            raise ValueError(
                f"{path}: the file name of a table must end in "
                f"{', '.join(_EXTENSIONS)}; received "
                f"{os.path.basename(path)!r}. Rename or convert it"
            )
        return path

    def _columns(self, needs_label: bool) -> dict[str, str]:
        """The columns to read, by the setting that names each."""
        named = {key: getattr(self.settings, key) for key in _COLUMN_KEYS}
        if not needs_label:
            del named["label_column"]
        return {key: name for key, name in named.items() if name}

    def _rows(
        self, path: str, needs_label: bool, problems: examples_lib.Problems
    ) -> Iterator[tuple[str, _Row]]:
        """Yields origin and cells of each row that has all columns."""
        wanted = self._columns(needs_label)
        if path.endswith(".jsonl"):
            label = self.settings.label_column
            return _json_rows(path, wanted, label, problems)
        return _cell_rows(path, wanted, problems)


def _cell_rows(
    path: str, wanted: dict[str, str], problems: examples_lib.Problems
) -> Iterator[tuple[str, _Row]]:
    columns, rows = text_files.table_rows(path)
    for key, name in wanted.items():
        if columns.count(name) != 1:
            received = " ".join(", ".join(columns).split())  # cells may have lines
            raise ValueError(
                f"{path}:1: there must be one column {name!r}; received "
                f"{received:.300}. Name the column with --set "
                f"task.{key}=NAME"
            )
    rule = f"a row must have {len(columns)} columns"
    for line, cells in rows:
        origin = f"{path}:{line}"
        if len(cells) == len(columns):
            yield origin, dict(zip(columns, cells, strict=True))
        else:
            problems.add(origin, rule, cells)


def _json_rows(
    path: str,
    wanted: dict[str, str],
    label_column: str,
    problems: examples_lib.Problems,
) -> Iterator[tuple[str, _Row]]:
    texts = [wanted.get("text_column"), wanted.get("pair_column")]
    for line, value in text_files.json_objects(path, problems):
        origin = f"{path}:{line}"
        row: _Row = {}
        for key, name in wanted.items():
            if name not in value:
                rule = f"a line must have the key {name!r} (task.{key})"
                problems.add(origin, rule, value)
                break
            if name in texts and not isinstance(value[name], str):
                problems.add(origin, f"{name!r} must be text", value[name])
                break
            row[name] = _as_text(value[name])
        else:
            row.setdefault(label_column, _as_text(value.get(label_column)))
            yield origin, row


def _as_text(value: Any) -> str | None:
    """A JSON value as a label or an id: text unchanged, all else as JSON."""
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value)
