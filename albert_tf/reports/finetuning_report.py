"""Report of a fine-tuning run: scores next to the paper's, curves, wrong answers."""

import collections
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from albert_tf.core import config as config_lib
from albert_tf.core import config_io, plurals, provenance, task_config
from albert_tf.finetuning import results_reader
from albert_tf.reports import (
    charts,
    error_analysis,
    finetuning_charts,
    html,
    paper_scores,
)

_TEMPLATE_FILE = "finetuning.html"
_THRESHOLD = "null_odds_threshold"
_MIN_COLUMNS = 2

Scores = Mapping[str, Mapping[str, float]]


class Row(NamedTuple):
    """A row of a table of scores; `is_ours` if it is of this run."""

    name: str
    note: str
    cells: tuple[str, ...]
    is_ours: bool = False


class AnswerSection(NamedTuple):
    """The part of the page on the answers to one split."""

    split: str
    pictures: tuple[charts.Picture, ...]
    label_rows: tuple[Row, ...]
    heading: str
    errors: Sequence[error_analysis.Error]


def write(output_dir: str, model_dir: str) -> str:
    """Writes index.html, which needs no other file.

    Args:
      output_dir: the directory, local or gs://; made if it does not exist.
      model_dir: directory of a fine-tuning run, or of several seeds of one: then the
        page compares these and shows the best.

    Returns:
      The path of index.html.

    Raises:
      ValueError: a file of the run is missing or has another form; names it.
    """
    seeds = results_reader.read_seeds(model_dir)
    name = provenance.name_of(model_dir)
    model_dir = results_reader.best_folder(model_dir)
    run = results_reader.read_run(model_dir)
    html.check_rows(run.rows)
    rows = sorted(run.rows, key=lambda row: row["step"])
    results = run.results
    curves = finetuning_charts.curves(
        rows, results.get("best_metric", ""), results.get("best_step")
    )
    sections = [_section(results, split, run.answers[split]) for split in run.answers]
    values = {
        "name": name,
        "identity": html.describe_run(model_dir),
        "task": task_config.TITLES[run.config.task.name],
        "config": run.config,
        "config_json": config_io.to_json(run.config),
        "results": results,
        "num_steps": results_reader.last_step(results) if results else 0,
        "seeds": seeds,
        "verdict": _verdict(results),
        "columns": [],
        "compared": [],
        "paper_label": "",
        "paper_rows": [],
        "paper_note": paper_scores.NOTES.get(run.config.task.name, ""),
        "all_scores": _all_scores(results),
        "seed_tables": _seed_tables(seeds),
        "selected_on": _selected_on(results, seeds),
        "curves": curves,
        "sections": sections,
        "settings": _settings(run.config, results),
    }
    values |= _comparison(run, seeds) if results else {}
    last_step = rows[-1]["step"] if rows else 0
    return html.write(output_dir, _TEMPLATE_FILE, values, last_step)


# ---- Scores ----


def _score(metric: str, value: float | None) -> str:
    if value is None:
        return "–"
    return results_reader.format_metric(metric, value, 1)


def _cells(scores: Mapping[str, float], columns: Sequence[str]) -> tuple[str, ...]:
    return tuple(_score(metric, scores.get(metric)) for metric in columns)


def _verdict(results: Mapping[str, Any]) -> str:
    """Returns the first split's best metric as text; empty if there is none."""
    metric = results.get("best_metric", "")
    for split, scores in results.get("scores", {}).items():
        if metric in scores:
            name = finetuning_charts.metric_label(metric)
            return f"{_score(metric, scores[metric])} {name} on {split}"
    return ""


def _comparison(
    run: results_reader.TaskRun, seeds: Mapping[str, Any]
) -> dict[str, Any]:
    """Returns our rows and the paper's, of the metrics that the paper has."""
    results, paper = run.results, paper_scores.rows_of(run.config.task.name)
    of_paper = [metric for row in paper for metric in row.scores]
    of_ours = [metric for scores in results["scores"].values() for metric in scores]
    shares = [metric for metric in of_ours if results_reader.is_share(metric)]
    needed = list(dict.fromkeys([results["best_metric"], *of_paper]))
    columns = list(dict.fromkeys([*needed, *shares]))
    columns = columns[: max(_MIN_COLUMNS, len(needed))]
    rows = []
    for split, scores in seeds.get("median", {}).items():
        name = f"Median of {plurals.count(len(seeds['seeds']), 'seed')}, {split}"
        rows.append(Row(name, "", _cells(scores, columns), True))
    for split, scores in results["scores"].items():
        name = (
            f"Best seed ({seeds['best']}), {split}" if seeds else f"This run, {split}"
        )
        number = results["num_examples"].get(split)
        note = "" if number is None else plurals.count(number, "example")
        rows.append(Row(name, note, _cells(scores, columns), True))
    rows += _baselines(run, columns)
    return {
        "columns": [finetuning_charts.metric_label(metric) for metric in columns],
        "compared": rows,
        "paper_label": _paper_label(paper),
        "paper_rows": [
            Row(
                row.model,
                f"{row.parameters}; {row.pretraining}; {row.split}, table {row.table}",
                _cells({name: row.scores[name] / 100 for name in row.scores}, columns),
            )
            for row in paper
        ],
    }


def _baselines(run: results_reader.TaskRun, columns: Sequence[str]) -> list[Row]:
    """Returns the scores of always answering the most frequent label, by split."""
    if run.results["kind"] not in ("classification", "multiple_choice"):
        return []
    rows = []
    for split, answers in run.answers.items():
        pairs = finetuning_charts.label_pairs(run.results["kind"], answers)
        counts: dict[str, int] = {}
        for label, _ in pairs:
            counts[label] = counts.get(label, 0) + 1
        most = max(counts, key=counts.__getitem__)
        scores = {"accuracy": counts[most] / len(pairs), "matthews": 0.0}
        if scores.keys() & set(columns):
            name = f"Always the most frequent label ({most}), {split}"
            rows.append(Row(name, "", _cells(scores, columns)))
    return rows


def _paper_label(rows: Sequence[paper_scores.PaperRow]) -> str:
    if not rows:
        return ""
    sizes = sorted({int(row.parameters.removesuffix("M")) for row in rows})
    has_more = any(row.table != 2 for row in rows)
    text = "16 GB of text or more" if has_more else "16 GB of text"
    return (
        f"The paper's, not ours: {sizes[0]}M–{sizes[-1]}M parameters, {text}, "
        "the full training data"
    )


def _all_scores(results: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a table of all metrics by split."""
    scores: Scores = results.get("scores", {})
    metrics = dict.fromkeys(metric for split in scores for metric in scores[split])
    rows = [
        Row(
            finetuning_charts.metric_label(metric),
            "",
            tuple(_score(metric, scores[split].get(metric)) for split in scores),
        )
        for metric in metrics
    ]
    rows += [
        Row(
            finetuning_charts.metric_label(name),
            "",
            (_score(name, value),) * len(scores),
        )
        for name, value in results.get("calibration", {}).items()
    ]
    return {"columns": list(scores), "rows": rows}


def _selected_on(results: Mapping[str, Any], seeds: Mapping[str, Any]) -> str:
    """Returns how the checkpoint was selected, and what that means for the score."""
    if not results:
        return ""
    selected_on = results["selected_on"]
    if not selected_on:
        return "No split selected the checkpoint: it is the last one."
    if selected_on.startswith("train"):  # a share of them
        return (
            "A part of the training examples, held out of training, selected the "
            "checkpoint; the splits scored here were not used for that."
        )
    if selected_on not in results["scores"]:
        return f"The split {selected_on} selected the checkpoint."
    name = "development set" if selected_on == "dev" else f"split {selected_on}"
    text = (
        f"The {name} selected the checkpoint, so its score is an upper bound: expect "
        "less on other examples."
    )
    if seeds:
        text += " It also selected the best seed; the median is the fairer figure."
    return text


def _seed_tables(seeds: Mapping[str, Any]) -> list[tuple[str, list[str], list[Row]]]:
    """Returns, by split, its name, metrics, and rows of the seeds and their summary."""
    tables = []
    splits = dict.fromkeys(
        split for run in seeds.get("seeds", ()) for split in run["scores"]
    )
    for split in splits:
        by_seed = {run["seed"]: run["scores"].get(split, {}) for run in seeds["seeds"]}
        found = dict.fromkeys(
            metric for scores in by_seed.values() for metric in scores
        )
        first = seeds["best_metric"]
        columns = sorted(found, key=lambda metric: metric != first)[:4]
        rows = [
            Row(f"seed {seed}", "the best" * is_best, _cells(scores, columns), is_best)
            for seed, scores in by_seed.items()
            for is_best in (seed == seeds["best"],)
        ]
        rows += [
            Row(html.label(name), "", _cells(seeds[name][split], columns))
            for name in results_reader.SPREADS
            if split in seeds.get(name, {})
        ]
        tables.append(
            (split, [finetuning_charts.metric_label(name) for name in columns], rows)
        )
    return tables


# ---- Answers and settings ----


def _section(
    results: Mapping[str, Any], split: str, answers: Sequence[Mapping[str, Any]]
) -> AnswerSection:
    kind = results["kind"]
    threshold = results.get("calibration", {}).get(_THRESHOLD)
    pictures = finetuning_charts.of_answers(
        kind, split, answers, results["labels"], threshold
    )
    errors, num_wrong = error_analysis.worst(kind, answers)
    if kind == "regression":
        heading = f"The largest errors ({len(errors)} of {len(answers):,})"
    elif kind == "token_classification":
        heading = f"Most words wrong ({len(errors)} of {num_wrong:,} texts with errors)"
    elif any(error.certainty for error in errors):
        heading = f"The most confident wrong answers ({len(errors)} of {num_wrong:,})"
    else:
        heading = f"Wrong answers ({len(errors)} of {num_wrong:,})"
    return AnswerSection(
        split, pictures, tuple(_label_rows(pictures, kind, answers)), heading, errors
    )


def _label_rows(
    pictures: Sequence[charts.Picture],
    kind: str,
    answers: Sequence[Mapping[str, Any]],
) -> list[Row]:
    """Returns examples, recall, precision and F1 of each label."""
    (panel,) = pictures[0].panels
    if not isinstance(panel, charts.Matrix):
        return []
    # Not from the matrix: there confusions among rare labels are on the diagonal.
    num_right: collections.Counter[str] = collections.Counter()
    labels, predictions = num_right.copy(), num_right.copy()
    for label, prediction in finetuning_charts.label_pairs(kind, answers):
        row, column = (
            name if name in panel.labels else finetuning_charts.OTHER
            for name in (label, prediction)
        )
        labels[row] += 1
        predictions[column] += 1
        num_right[row] += label == prediction
    rows = []
    for name in panel.labels:
        right, num_labels = num_right[name], labels[name]
        shares = (
            (right, num_labels),
            (right, predictions[name]),
            (2 * right, num_labels + predictions[name]),
        )
        cells = (
            f"{100 * part / whole:.1f}" if whole else "–" for part, whole in shares
        )
        rows.append(Row(name, "", (f"{num_labels:,}", *cells)))
    return rows


def _settings(
    config: config_lib.Config, results: Mapping[str, Any]
) -> list[tuple[str, str]]:
    """Returns the most important settings as labels and texts."""
    model, task, train = config.model, config.task, config.train
    steps = f"{train.num_steps:,}"
    if results and results_reader.last_step(results) < train.num_steps:
        steps = f"{results_reader.last_step(results):,} of at most {steps}"
    rows = [
        ("model", f"{model.num_layers} layers, hidden size {model.hidden_size:,}"),
        ("optimizer", config.optimizer.name),
        ("learning rate", html.figure(config.optimizer.learning_rate)),
        ("batch size", f"{train.batch_size:,}"),
        ("steps", f"{steps}, {config.optimizer.warmup_steps:,} of warmup"),
        ("longest sequence", f"{task.max_seq_length:,} tokens"),
        ("dropout of the head", f"{task.classifier_dropout_rate:g}"),
        ("dropout of the encoder", f"{model.hidden_dropout_rate:g}"),
        ("decay of the learning rate by layer", f"{task.layer_decay:g}"),
    ]
    if results:
        sizes = results["num_examples"].items()
        counts = ", ".join(f"{split}: {number:,}" for split, number in sizes)
        rows += [
            ("seed", str(results["seed"])),
            (
                "initialized from",
                results["init_checkpoint"] or results["initial_weights"],
            ),
            ("examples", counts),
            ("time", html.duration(results["seconds"])),
            *(("skipped", line) for line in results["left_out"]),
        ]
    return rows
