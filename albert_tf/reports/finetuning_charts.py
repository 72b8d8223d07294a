"""Charts of a fine-tuning report: learning curves, and charts of the answers."""

import collections
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from albert_tf.data import schema
from albert_tf.finetuning import results_reader
from albert_tf.reports import charts

Rows = Sequence[Mapping[str, Any]]
Answers = Sequence[Mapping[str, Any]]

# More labels than this are not legible: the rarer ones are one.
MAX_LABELS = 20
OTHER = "(other)"
# Whole lines of a legend, of which none would be found again among more.
_MAX_SCORES = 4
# Of metrics.jsonl: not metrics, and metrics that have no upper bound.
NOT_SCORES = ("step", "seconds", "begun_at", "split")
# Words of the shortest right answer: up to these many.
_LENGTHS = {1: "1", 2: "2", 3: "3", 5: "4–5", 9: "6–9"}
_LONGER, _NO_ANSWER = "10+", "none"
_NUM_BINS = 24


def metric_label(metric: str) -> str:
    """Formats the name of a metric, such as "F1" and "exact match"."""
    words = metric.replace("_", " ").replace("f1", "F1")
    for name in ("matthews", "pearson", "spearman"):
        words = words.replace(name, f"{name.capitalize()} correlation")
    return words


# ---- Learning curves ----


def curves(
    rows: Rows, best_metric: str, best_step: int | None
) -> tuple[charts.Picture, ...]:
    """Returns the curves for which the rows have values.

    Args:
      rows: of metrics.jsonl, by step.
      best_metric: the metric that selected the checkpoint; its curve comes first.
      best_step: the step of the selected checkpoint, if known.
    """
    splits = list(dict.fromkeys(row["split"] for row in rows))
    splits.sort(key=lambda split: split != schema.TRAIN)
    scored = [split for split in splits if split != schema.TRAIN]
    losses = [
        line
        for split in splits
        for line in _line(rows, split, "loss", _split_label(split))
    ]
    metrics = _metrics(rows, best_metric)
    scores = [
        line
        for metric in metrics
        for split in scored
        for line in _line(rows, split, metric, f"{metric_label(metric)}, {split}")
    ]
    training = _line(rows, schema.TRAIN, best_metric, f"{metric_label(best_metric)}, ")
    scores += [line._replace(label=f"{line.label}training") for line in training]
    rate = _line(rows, schema.TRAIN, "learning_rate", "")
    norm = _line(rows, schema.TRAIN, "gradient_norm", "")
    found = (
        _curve("loss", "Loss", losses, best_step, (0.0, None)),
        _curve("scores", "Score", scores, best_step, (None, None)),
        _curve("learning-rate", "Learning rate", rate, None, (0.0, None)),
        _curve("gradient-norm", "Gradient norm", norm, None, (0.0, None)),
    )
    return tuple(picture for picture in found if picture is not None)


def _split_label(split: str) -> str:
    return "training" if split == schema.TRAIN else split


def _metrics(rows: Rows, best_metric: str) -> list[str]:
    found = dict.fromkeys(
        name
        for row in rows
        if row["split"] != schema.TRAIN
        for name in (best_metric, *row)
        if name in row and name not in NOT_SCORES and results_reader.is_share(name)
    )
    return list(found)[:_MAX_SCORES]


def _line(rows: Rows, split: str, metric: str, label: str) -> tuple[charts.Line, ...]:
    found = [row for row in rows if row["split"] == split and metric in row]
    steps, values = [row["step"] for row in found], [row[metric] for row in found]
    has_markers = split != schema.TRAIN
    line = charts.Line(label, steps, values, has_markers=has_markers)
    return (line,) if found else ()


def _curve(
    name: str,
    caption: str,
    lines: Sequence[charts.Line],
    marked_step: int | None,
    y_limits: tuple[float | None, float | None],
) -> charts.Picture | None:
    if not lines:
        return None
    is_one = len(lines) == 1 and marked_step is None
    colored = tuple(
        line._replace(color=place, label="" if is_one else line.label)
        for place, line in enumerate(lines)
    )
    panel = charts.Panel(
        caption.lower(),
        colored,
        y_limits=y_limits,
        y_format=charts.SHARE if name == "scores" else charts.PLAIN,
        marked_step=marked_step,
        marked_label="selected checkpoint",
    )
    return charts.Picture(name, caption, (panel,))


# ---- Answers ----


def of_answers(
    kind: str,
    split: str,
    answers: Answers,
    labels: Sequence[str],
    threshold: float | None,
) -> tuple[charts.Picture, ...]:
    """Returns the pictures of a split.

    Args:
      kind: a key of `task_model.HEADS`.
      split: its name.
      answers: with labels, at least one.
      labels: the names of the classes, in their order; may be empty.
      threshold: of the null odds, above which no answer is given, if known.
    """
    if kind == "regression":
        return (_scatter(split, answers),)
    if "span" in kind:
        return tuple(_of_spans(split, answers, threshold))
    counts = confusion(label_pairs(kind, answers), labels)
    note = ""
    if OTHER in counts.labels:
        note = (
            f"The rarer labels are together as {OTHER}, where an answer may be another "
            "one of them."
        )
    return (
        charts.Picture(
            f"confusion-{split}", f"Labels and answers, {split}", (counts,), note
        ),
    )


def label_pairs(kind: str, answers: Answers) -> list[tuple[str, str]]:
    """Returns label and prediction of each example, or word (token classification)."""
    if kind == "token_classification":
        return [
            (str(label), str(prediction))
            for answer in answers
            for label, prediction in zip(
                answer["label"], answer["prediction"], strict=False
            )
        ]
    return [(str(answer["label"]), str(answer["prediction"])) for answer in answers]


def confusion(pairs: Iterable[tuple[str, str]], labels: Sequence[str]) -> charts.Matrix:
    """Counts pairs of label and prediction.

    Args:
      pairs: (label, prediction).
      labels: names in the order to show; others follow by name. If they are too many,
        the most frequent remain in that order.
    """
    counts = collections.Counter(pairs)
    totals: collections.Counter[str] = collections.Counter()
    for (label, prediction), count in counts.items():
        totals[label] += count
        totals[prediction] += 0
    names = [name for name in labels if name in totals]
    names += sorted(totals.keys() - set(names))
    if len(names) > MAX_LABELS:
        kept = {name for name, _ in totals.most_common(MAX_LABELS - 1)}
        names = [*(name for name in names if name in kept), OTHER]
    places = {name: place for place, name in enumerate(names)}
    matrix = np.zeros([len(names), len(names)], np.int64)
    for (label, prediction), count in counts.items():
        rest = len(names) - 1  # where rare ones are counted
        matrix[places.get(label, rest), places.get(prediction, rest)] += count
    return charts.Matrix(tuple(names), matrix.tolist())


def _scatter(split: str, answers: Answers) -> charts.Picture:
    labels = [float(answer["label"]) for answer in answers]
    predictions = [float(answer["prediction"]) for answer in answers]
    points = charts.Points("label", "answer", labels, predictions)
    return charts.Picture(f"scatter-{split}", f"Labels and answers, {split}", (points,))


def _of_spans(
    split: str, answers: Answers, threshold: float | None
) -> Iterable[charts.Picture]:
    by_length: dict[str, list[tuple[float, float]]] = {
        name: [] for name in (_NO_ANSWER, *_LENGTHS.values(), _LONGER)
    }
    for answer in answers:
        scores = (float(answer["f1"]), float(answer["is_correct"]))
        by_length[_length_name(answer["answers"])].append(scores)
    found = {name: np.mean(by_length[name], 0) for name in by_length if by_length[name]}
    names = tuple(f"{name}\n({len(by_length[name]):,})" for name in found)
    groups = {
        "F1": [float(f1) for f1, _ in found.values()],
        "exact match": [float(exact) for _, exact in found.values()],
    }
    bars = charts.Bars(
        "words of the right answer (questions)",
        "mean score",
        names,
        groups,
        charts.SHARE,
    )
    yield charts.Picture(
        f"lengths-{split}", f"F1 and exact match by answer length, {split}", (bars,)
    )
    odds = [
        (answer["null_odds"], not answer["answers"])
        for answer in answers
        if answer.get("null_odds") is not None and math.isfinite(answer["null_odds"])
    ]
    if odds:
        yield _null_odds(split, odds, threshold)


def _length_name(right: Sequence[Any]) -> str:
    if not right:
        return _NO_ANSWER
    num_words = min(len(answer_text(answer).split()) for answer in right)
    return next((name for most, name in _LENGTHS.items() if num_words <= most), _LONGER)


def answer_text(answer: Any) -> str:
    """Returns the text of a right answer: a string, or an object with `text`."""
    return answer["text"] if isinstance(answer, Mapping) else str(answer)


def _null_odds(
    split: str, odds: Sequence[tuple[float, bool]], threshold: float | None
) -> charts.Picture:
    edges = np.histogram_bin_edges([value for value, _ in odds], _NUM_BINS)
    groups = {
        name: np.histogram([v for v, empty in odds if empty == is_empty], edges)[0]
        for name, is_empty in (("has an answer", False), ("has none", True))
    }
    histogram = charts.Histogram(
        "null odds (nats)",
        "questions",
        edges.tolist(),
        {name: counts.tolist() for name, counts in groups.items()},
        threshold,
        "" if threshold is None else f"threshold ({threshold:.2f})",
    )
    return charts.Picture(
        f"null-odds-{split}",
        f"Questions with and without answer, {split}",
        (histogram,),
    )
