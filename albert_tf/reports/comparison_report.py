"""Report of several runs side by side: curves, scores, and settings that differ."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from albert_tf.checkpoints import run_dir
from albert_tf.core import config as config_lib
from albert_tf.core import config_io, plurals, provenance, validation
from albert_tf.data import schema
from albert_tf.finetuning import results_reader
from albert_tf.probing import results_reader as probe_reader
from albert_tf.probing import settings
from albert_tf.reports import charts, finetuning_charts, html, probe_report
from albert_tf.training import metrics_log

_TEMPLATE_FILE = "comparison.html"
# Units of a time axis: up to how many seconds, name, and seconds.
_UNITS = ((300, "seconds", 1), (18_000, "minutes", 60), (float("inf"), "hours", 3600))
_NONE = "–"


class Score(NamedTuple):
    """A score of a run: its value, the text that shows it, and which is better."""

    value: float
    text: str
    is_lower_better: bool = False


class Run(NamedTuple):
    """A run as the page compares it.

    Attributes:
      name: another one for each run.
      identity: name, dates and versions.
      config: its configuration.
      rows: of metrics.jsonl, by step.
      scores: by label.
      data: what is known of the data that it was scored on; empty if nothing is.
    """

    name: str
    identity: str
    config: config_lib.Config
    rows: Sequence[Mapping[str, Any]]
    scores: Mapping[str, Score]
    data: Mapping[str, Any]


def write(output_dir: str, model_dirs: Sequence[str], is_finetuning: bool) -> str:
    """Writes index.html, which needs no other file.

    Args:
      output_dir: the directory, local or gs://; made if it does not exist.
      model_dirs: directories of runs, all of pre-training or all of fine-tuning.
      is_finetuning: which of both.

    Returns:
      The path of index.html.

    Raises:
      ValueError: a file of a run is missing or damaged, or the tasks differ.
    """
    read = _read_finetuning if is_finetuning else _read_pretraining
    names = names_of(model_dirs)
    runs = [read(path, name) for path, name in zip(model_dirs, names, strict=True)]
    tasks = dict.fromkeys(run.config.task.name for run in runs)
    validation.require(
        len(tasks) == 1, "runs side by side must have one task", ", ".join(tasks)
    )
    first = runs[0].data
    has_same_data = bool(first) and all(run.data == first for run in runs)
    differing, common = split_settings([config_io.to_dict(run.config) for run in runs])
    values = {
        "names": names,
        "identities": [run.identity for run in runs],
        "task": next(iter(tasks)),
        "scores": score_rows(runs, has_same_data),
        "has_same_data": has_same_data,
        "pictures": _pictures(runs, is_finetuning),
        "differing": differing,
        "common_json": json.dumps(common, indent=2),
    }
    return html.write(output_dir, _TEMPLATE_FILE, values)


def names_of(model_dirs: Sequence[str]) -> list[str]:
    """Returns as many last parts of the paths as distinguish the runs.

    Raises:
      ValueError: a run is named twice.
    """
    paths = [path.rstrip("/") for path in model_dirs]
    validation.require(
        len(set(paths)) == len(paths), "each run must be given once", ", ".join(paths)
    )
    names = list(map(provenance.name_of, paths))
    depth = 1
    while len(set(names)) < len(names) and depth < max(p.count("/") + 1 for p in paths):
        depth += 1
        names = ["/".join(path.split("/")[-depth:]) for path in paths]
    return names


# ---- Runs ----


def _read_rows(model_dir: str) -> list[dict[str, Any]]:
    rows = metrics_log.read_metrics(model_dir)
    if not rows:
        raise ValueError(f"{model_dir} must have recorded metrics; it has none")
    return sorted(rows, key=lambda row: row["step"])


def _read_pretraining(model_dir: str, name: str) -> Run:
    config_path = f"{model_dir.rstrip('/')}/{schema.CONFIG_FILE}"
    config = config_io.read(config_path)
    rows = _read_rows(model_dir)
    scores = {}
    losses = _having(rows, schema.HELDOUT, "mlm_loss")
    if losses:
        best = min(losses, key=lambda row: row["mlm_loss"])
        at = f"at step {best['step']:,}"
        text = f"{best['mlm_loss']:.4f} {at}"
        scores["lowest held-out MLM loss (nats)"] = Score(best["mlm_loss"], text, True)
        for metric in ("mlm_accuracy", "sentence_order_accuracy"):
            if metric in best:
                label = f"{html.label(metric).replace('mlm', 'MLM')} there"
                scores[label] = Score(best[metric], f"{best[metric]:.1%}")
    probes = _having(rows, settings.PROBE, "accuracy")
    if probes:
        best = max(probes, key=lambda row: row["accuracy"])
        text = f"{best['accuracy']:.1%} at step {best['step']:,}"
        scores[_probe_label(config.train)] = Score(best["accuracy"], text)
    for folder in probe_reader.find(model_dir):
        found = probe_reader.read(folder)
        title = probe_report.section(found)["title"]
        label = f"{title}, {found['num_pairs']:,} pairs"
        if found["metric"] != settings.PLL:
            label += f", {found['metric'].replace('_', ' ')}"
        if label in scores:
            label += f" ({provenance.name_of(folder)})"
        value = found["overall"]["accuracy"]
        scores[label] = Score(value, f"{value:.1%}")
    identity = html.describe_run(model_dir)
    return Run(name, identity, config, rows, scores, _heldout_records(model_dir))


def _probe_label(train: config_lib.TrainConfig) -> str:
    """Returns a label that only probes with the same pairs share."""
    suite = provenance.name_of(train.probe_suite)
    pairs = plurals.count(train.probe_pairs, "pair")
    return f"highest probe of the run ({suite}, {pairs} of a paradigm)"


def _read_finetuning(model_dir: str, name: str) -> Run:
    seeds = results_reader.read_seeds(model_dir)
    best_dir = results_reader.best_folder(model_dir)
    run = results_reader.read_run(best_dir)
    found = seeds.get("median") or run.results.get("scores", {})
    scores = {}
    for split, metrics in found.items():
        for metric, value in metrics.items():
            is_share = results_reader.is_share(metric)
            text = _score_text(metric, value)
            if seeds:
                low, high = (
                    _score_text(metric, seeds[part][split][metric])
                    for part in ("min", "max")
                )
                text += f" ({low} to {high}, {len(seeds['seeds'])} seeds)"
            label = f"{finetuning_charts.metric_label(metric)}, {split}"
            scores[label] = Score(value, text, not is_share)
    rows = sorted(run.rows, key=lambda row: row["step"])
    num_examples = run.results.get("num_examples", {})
    data = {split: num_examples.get(split) for split in found}
    identity = html.describe_run(best_dir)
    return Run(name, identity, run.config, rows, scores, data)


def _score_text(metric: str, value: float) -> str:
    return results_reader.format_metric(metric, value, 1)


def _having(rows, split: str, metric: str) -> list[Mapping[str, Any]]:
    return [row for row in rows if row["split"] == split and metric in row]


def _heldout_records(model_dir: str) -> dict[str, Any]:
    """Returns vocabulary and held-out records of a run by the name of the records."""
    return {
        name: (one.get("vocab_sha256"), one.get("splits", {}).get("heldout"))
        for name, one in run_dir.read_manifests(model_dir).items()
    }


# ---- Tables ----


def score_rows(runs: Sequence[Run], marks_best: bool) -> list[dict[str, Any]]:
    """Returns a row for each score, with the best of the runs marked.

    Args:
      runs: to compare.
      marks_best: whether they are comparable.
    """
    labels = dict.fromkeys(label for run in runs for label in run.scores)
    rows = []
    for label in labels:
        found = [run.scores.get(label) for run in runs]
        values = [score.value for score in found if score is not None]
        is_lower_better = any(score.is_lower_better for score in found if score)
        best = min(values) if is_lower_better else max(values)
        cells = [
            {
                "text": score.text if score else _NONE,
                "is_best": bool(
                    score and marks_best and len(values) > 1 and score.value == best
                ),
            }
            for score in found
        ]
        rows.append({"label": label, "cells": cells})
    return rows


def split_settings(
    configs: Sequence[Mapping[str, Mapping[str, Any]]],
) -> tuple[list[tuple[str, list[str]]], dict[str, dict[str, Any]]]:
    """Divides settings by whether the runs differ in them.

    Args:
      configs: settings by section and name.

    Returns:
      Name and texts of those that differ, and the others by section.
    """
    differing: list[tuple[str, list[str]]] = []
    common: dict[str, dict[str, Any]] = {}
    for section, given in configs[0].items():
        for name, first in given.items():
            values = [config[section][name] for config in configs]
            if all(value == first for value in values):
                common.setdefault(section, {})[name] = first
            else:
                differing.append((f"{section}.{name}", list(map(_text, values))))
    return differing, common


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


# ---- Curves ----


def _pictures(runs: Sequence[Run], is_finetuning: bool) -> list[charts.Picture]:
    if is_finetuning:
        best = _selection_metric(runs)
        split = _first_split(runs)
        title = f"{finetuning_charts.metric_label(best)}, {split}"
        title = title[:1].upper() + title[1:]
        shown = [
            ("scores", split, best, title, charts.SHARE),
            ("loss", schema.TRAIN, "loss", "Loss in training", charts.PLAIN),
        ]
    else:
        loss = "mlm_loss"
        shown = [
            ("heldout", schema.HELDOUT, loss, "Held-out MLM loss", charts.PLAIN),
            ("training", schema.TRAIN, loss, "MLM loss in training", charts.PLAIN),
            ("probe", settings.PROBE, "accuracy", "Minimal pairs", charts.SHARE),
        ]
    found = []
    for name, split, metric, caption, y_format in shown:
        panels = _panels(runs, split, metric, y_format)
        if panels[0].lines:
            caption = f"{caption}, over steps and over time"
            found.append(charts.Picture(name, caption, panels))
    return found


def _selection_metric(runs: Sequence[Run]) -> str:
    """Returns the first metric that rows of another split than training have."""
    rows = (row for run in runs for row in run.rows if row["split"] != schema.TRAIN)
    names = (
        name
        for row in rows
        for name in row
        if name not in finetuning_charts.NOT_SCORES and results_reader.is_share(name)
    )
    return next(names, "")


def _first_split(runs: Sequence[Run]) -> str:
    """Returns the first split other than training that was scored."""
    rows = (row for run in runs for row in run.rows)
    others = (row["split"] for row in rows if row["split"] != schema.TRAIN)
    return next(others, "")


def _panels(
    runs: Sequence[Run], split: str, metric: str, y_format: str
) -> tuple[charts.Panel, charts.Panel]:
    """Returns the lines of a metric over steps, and over the seconds of training."""
    found = [(run, _having(run.rows, split, metric)) for run in runs]
    seconds = [row["seconds"] for _, rows in found for row in rows if "seconds" in row]
    longest = max(seconds, default=0.0)
    unit, divisor = next((u, d) for most, u, d in _UNITS if longest <= most)
    y_label = finetuning_charts.metric_label(metric).replace("mlm", "MLM")
    over_steps, over_time = [], []
    for color, (run, rows) in enumerate(found):
        line = charts.Line(
            run.name,
            [row["step"] for row in rows],
            [row[metric] for row in rows],
            color,
            split != schema.TRAIN,
        )
        timed = [row for row in rows if "seconds" in row]
        if rows:
            over_steps.append(line)
        if timed:
            times = [row["seconds"] / divisor for row in timed]
            values = [row[metric] for row in timed]
            over_time.append(line._replace(steps=times, values=values))
    # Not `charts.STEP`: the axis ends where these lines do, not the longest run.
    panel = charts.Panel(y_label, tuple(over_steps), y_format=y_format, x_label="steps")
    timed_panel = panel._replace(lines=tuple(over_time), x_label=unit)
    return panel, timed_panel
