"""Scores of predictions that any model made, from the files that leaderboards take."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from albert_tf.core import short_repr, strict_json, task_config
from albert_tf.tasks import base, checks, glue, predictions, registry, text_files
from albert_tf.tasks import examples as examples_lib
from albert_tf.tasks.squad import metrics as squad_metrics
from albert_tf.tasks.squad import task as squad_task

TASKS = (*squad_task.FILES, *glue.TASKS)


def score(
    settings: task_config.TaskConfig, data_dir: str, split: str, path: str
) -> tuple[str, dict[str, float], float | None]:
    """Scores the predictions for a split.

    Args:
      settings: of the task; `name` is one of `TASKS`.
      data_dir: the task's files, as downloaded.
      split: with labels, such as "dev"; empty for the first one.
      path: of the predictions: of SQuAD a JSON object of answers by the ids of the
        questions, of GLUE a table of `index` and `prediction`.

    Returns:
      The name of the split, the metrics by name, and the accuracy of always predicting
      the most frequent label, if there is one.

    Raises:
      ValueError: the split has no labels, a file is missing or malformed, or the
        predictions are not those for the examples of the split.
    """
    if settings.name not in TASKS:
        raise ValueError(
            f"--task must be one of {', '.join(TASKS)}; received {settings.name!r}"
        )
    task = registry.create(settings)
    split = split or task.dev_splits[0]
    if split not in task.dev_splits:
        raise ValueError(
            f"--split must be one with labels, {' or '.join(task.dev_splits)}; "
            f"received {split!r}"
        )
    problems = examples_lib.Problems(skip=settings.on_bad_example == "skip")
    examples = task.read(data_dir, split, problems)
    if isinstance(task, squad_task.SquadTask):
        found = _answers(path)
        answers = _in_order(path, found, examples)
        scores = squad_metrics.mean_scores(examples, answers, task.has_null)
        return split, scores, None
    if not isinstance(task, glue.GlueTask):
        raise ValueError(f"predictions of {settings.name} cannot be scored")
    labels = _in_order(path, _table(path), examples)
    scores = task.compute_metrics(examples, _as_logits(path, task, labels))
    return split, scores, base.majority_share(examples)


def _answers(path: str) -> dict[str, str]:
    values = strict_json.load_object(path)
    for name, answer in values.items():
        if not isinstance(answer, str):
            raise ValueError(
                f"{path}: an answer must be text, empty for none; received "
                f"{short_repr.shown(answer)} for {short_repr.shown(name)}"
            )
    return values


def _table(path: str) -> dict[str, str]:
    """Returns the cells of the column `prediction` by those of `index`."""
    text_files.require([path], "Pass the file of the predictions")
    rows = text_files.tsv(path)
    columns = next(rows, (1, [""]))[1]
    for name in ("index", "prediction"):
        if columns.count(name) != 1:
            raise ValueError(
                f"{path}:1: there must be one column {name!r}, separated by tabs; "
                f"received {', '.join(columns):.300}"
            )
    found: dict[str, str] = {}
    for line, cells in rows:
        if len(cells) != len(columns):
            raise ValueError(
                f"{path}:{line}: a row must have {len(columns)} columns; received "
                f"{short_repr.shown(cells)}"
            )
        row = dict(zip(columns, cells, strict=True))
        if row["index"] in found:
            raise ValueError(
                f"{path}:{line}: an index must be unique; received {row['index']!r}"
            )
        found[row["index"]] = row["prediction"]
    return found


def _in_order(
    path: str, found: Mapping[str, str], examples: Sequence[Any]
) -> list[str]:
    """Returns the predictions in the order of the examples, of which each has one."""
    ids = [example.id for example in examples]
    for rule, lacking in (
        ("each example must have a prediction", [n for n in ids if n not in found]),
        ("each prediction must be for an example", sorted(found.keys() - set(ids))),
    ):
        if lacking:
            raise ValueError(
                f"{path}: {rule}; {len(lacking):,} have none, the first is "
                f"{lacking[0]!r}. Give the --split and --data_dir that they were made "
                "for"
            )
    return [found[name] for name in ids]


def _as_logits(
    path: str, task: glue.GlueTask, found: Sequence[str]
) -> predictions.Logits:
    """Returns outputs of which the metrics see the given classes or numbers."""
    if not task.labels:
        numbers = [checks.finite_number(value) for value in found]
        for value, number in zip(found, numbers, strict=True):
            if number is None:
                raise ValueError(
                    f"{path}: a prediction must be a number; received {value!r}"
                )
        return predictions.Logits(np.array(numbers, np.float64)[:, None])
    for value in found:
        if value not in task.labels:
            raise ValueError(
                f"{path}: a prediction must be one of {', '.join(task.labels)}; "
                f"received {value!r}"
            )
    ids = [task.labels.index(value) for value in found]
    return predictions.Logits(np.eye(len(task.labels), dtype=np.float32)[ids])
