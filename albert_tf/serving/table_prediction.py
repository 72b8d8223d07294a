"""Predictions for the rows of a table, beside all of its columns.

A table is a .csv or .tsv file with a header line, or a .jsonl file of objects. The
columns of the texts are those of the table that the model learnt from.
"""

import csv
import io
import itertools
import json
import os
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from albert_tf.core import short_repr, task_config
from albert_tf.inference import saved_model, saved_model_dir, signatures
from albert_tf.tasks import examples as examples_lib
from albert_tf.tasks import registry, text_files, text_task

EXTENSIONS = (".csv", ".tsv", ".jsonl")
_ADDED = ("prediction", "probability")


class Row(NamedTuple):
    """A row of a table.

    Attributes:
      origin: `path:line`.
      columns: names.
      values: one per column; in JSON of any type.
    """

    origin: str
    columns: Sequence[str]
    values: Sequence[Any]


def find_columns(model_dir: str, input_path: str) -> tuple[str, ...]:
    """Returns the columns of the texts in a table that a model is to answer.

    Args:
      model_dir: directory of the exported model.
      input_path: what --input names.

    Returns:
      One, or two of pairs; none if the file is no table, or the model classifies no
      texts, or was exported without its configuration.

    Raises:
      ValueError: the configuration is damaged.
    """
    settings = _read_task(model_dir) if input_path.endswith(EXTENSIONS) else None
    if settings is None:
        return ()
    task = registry.create(settings)
    return task.text_columns if isinstance(task, text_task.TextTask) else ()


def _read_task(model_dir: str) -> task_config.TaskConfig | None:
    """Returns the task of an exported model, if it has one and its configuration."""
    config = saved_model_dir.read_config(model_dir)
    return config.task if config and config.task.name else None


def predict(
    model_dir: str,
    input_path: str,
    text_columns: Sequence[str],
    batch_size: int,
    as_json: bool = False,
) -> Iterator[str]:
    """Yields the lines of the table with the columns of the predictions.

    These are `prediction`, a class or a number, and of a class its `probability`.

    Args:
      model_dir: directory of the exported model.
      input_path: the table.
      text_columns: from `find_columns`.
      batch_size: rows of a call.
      as_json: whether the lines are JSON objects; else they are as those of the table.

    Raises:
      ValueError: the table is malformed or lacks a column; names path and line.
    """
    signature = saved_model.load(model_dir).signatures["classify"]
    rows = _read(input_path, text_columns)
    extension = ".jsonl" if as_json else os.path.splitext(input_path)[1]
    is_first = True
    while batch := list(itertools.islice(rows, batch_size)):
        texts = [_texts(row, text_columns) for row in batch]
        for row, answer in zip(
            batch, signatures.classify(signature, texts), strict=True
        ):
            added = _added(answer)
            if is_first and extension != ".jsonl":
                yield _line([*row.columns, *added], extension)
            is_first = False
            if extension == ".jsonl":
                found = dict(zip(row.columns, row.values, strict=True)) | added
                yield json.dumps(found, ensure_ascii=False)
            else:
                yield _line([*row.values, *map(_shown, added.values())], extension)
    if is_first:
        raise ValueError(f"{input_path}: a table must have a row; received none")


def _read(path: str, text_columns: Sequence[str]) -> Iterator[Row]:
    """Yields the rows, which have all the columns needed."""
    if path.endswith(".jsonl"):
        problems = examples_lib.Problems(skip=False)
        for line, value in text_files.json_objects(path, problems):
            _check_columns(f"{path}:{line}", list(value), text_columns)
            yield Row(f"{path}:{line}", list(value), list(value.values()))
        return
    columns, rows = text_files.table_rows(path)
    _check_columns(f"{path}:1", columns, text_columns)
    for line, cells in rows:
        if len(cells) != len(columns):
            raise ValueError(
                f"{path}:{line}: a row must have {len(columns)} columns; received "
                f"{short_repr.shown(cells)}"
            )
        yield Row(f"{path}:{line}", columns, cells)


def _check_columns(
    origin: str, columns: Sequence[str], text_columns: Sequence[str]
) -> None:
    for name in text_columns:
        if columns.count(name) != 1:
            raise ValueError(
                f"{origin}: there must be one column {name!r}, as in the table that "
                f"the model learnt from; received {', '.join(columns):.300}. A file "
                "with an example in each line, and no header, must have another "
                "extension, such as .txt"
            )
    for name in _ADDED:
        if name in columns:
            raise ValueError(
                f"{origin}: the column {name!r} would be there twice; rename it"
            )


def _texts(row: Row, text_columns: Sequence[str]) -> list[str]:
    texts = [row.values[row.columns.index(name)] for name in text_columns]
    for name, text in zip(text_columns, texts, strict=True):
        if not isinstance(text, str):
            raise ValueError(
                f"{row.origin}: {name!r} must be text; received "
                f"{short_repr.shown(text)}"
            )
    return texts


def _added(answer: signatures.Answer) -> dict[str, Any]:
    if "score" in answer:
        return {"prediction": answer["score"]}
    return {"prediction": answer["label"], "probability": answer["probability"]}


def _shown(value: str | float) -> str:
    return value if isinstance(value, str) else f"{value:.6g}"


def _line(cells: Sequence[str], extension: str) -> str:
    if extension == ".tsv":
        return "\t".join(map(text_files.cell, cells))
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="").writerow(cells)
    return text.getvalue()
