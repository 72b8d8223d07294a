"""Report of a pre-training run: held-out metrics, curves, filled masks, counts."""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from albert_tf.checkpoints import run_dir
from albert_tf.core import config as config_lib
from albert_tf.core import config_io, files, strict_json, validation
from albert_tf.core import stages as stages_lib
from albert_tf.data import schema, sources
from albert_tf.probing import results_reader
from albert_tf.reports import html, pretraining_charts, probe_report
from albert_tf.training import guard, metrics_log

SUMMARY_FILE = "summary.json"
_TEMPLATE_FILE = "pretraining.html"

# Parts of a summary that are not shown among the counts.
_NUMBERS = ("heldout_unigram_entropy", "total_seconds")
_OBJECTS = ("before", "after", "seconds")
_PLACED = (*_NUMBERS, *_OBJECTS, "filled_masks", "data_statistics")


def write(output_dir: str, model_dir: str, probe_dirs: Sequence[str] = ()) -> str:
    """Writes the report of a run directory.

    Args:
      output_dir: as for `write_report`.
      model_dir: a directory with config.json, metrics.jsonl and, if albert_tf.demo
        wrote it, summary.json.
      probe_dirs: output directories of albert_tf.probe; those that `model_dir` has are
        shown too.

    Returns:
      The path of index.html.

    Raises:
      ValueError: a file of the run is missing or damaged; names it.
    """
    config = config_io.read(os.path.join(model_dir, schema.CONFIG_FILE))
    summary_path = os.path.join(model_dir, SUMMARY_FILE)
    summary = {}
    if files.exists(summary_path):
        summary = strict_json.load_object(summary_path, lenient=True)
        try:
            _check(summary, ())
        except ValueError as error:
            raise ValueError(f"{summary_path}: {error}") from error
    metrics_path = os.path.join(model_dir, metrics_log.METRICS_FILE)
    if not files.exists(metrics_path):
        raise ValueError(
            f"there is no {metrics_path}: the run ended before its first row of "
            f"metrics, which it writes after step {config.train.steps_per_loop:,}. "
            "Resume it by the command that began it, and then make the report"
        )
    rows = metrics_log.read_metrics(model_dir)
    verdict = ""
    if run := _read_records(model_dir, config):
        html.check_rows(rows)
        last_step = max((row["step"] for row in rows), default=0)
        stage = stages_lib.leading_to([one.stage for one in run], last_step)
        records = run[stage.number - 1]
        alarm = guard.find_alarm(rows, stage, records.manifest)
        heldout = [row for row in rows if row["split"] == schema.HELDOUT]
        # Before the first step nothing can be learnt.
        is_begun = bool(heldout) and heldout[-1]["step"] > 0
        note = guard.pair_note(heldout[-1]) if is_begun else ""
        verdict = alarm.line if alarm else note
        summary.setdefault("heldout_unigram_entropy", records.unigram_entropy)
    found = dict.fromkeys([*results_reader.find(model_dir), *probe_dirs])
    return write_report(
        output_dir,
        summary,
        rows,
        config,
        verdict,
        html.describe_run(model_dir),
        [results_reader.read(folder) for folder in found],
    )


def _read_records(
    model_dir: str, config: config_lib.Config
) -> tuple[sources.StageRecords, ...]:
    """Reads the manifests of a run; () if one is missing or has an earlier format."""
    try:
        manifests = {
            name: schema.Manifest.from_values(values)
            for name, values in run_dir.read_manifests(model_dir).items()
        }
        return sources.of_manifests(manifests, config)
    except ValueError:
        return ()


def write_report(
    output_dir: str,
    summary: Mapping[str, Any],
    rows: pretraining_charts.Rows,
    config: config_lib.Config,
    verdict: str = "",
    identity: str = "",
    probes: Sequence[Mapping[str, Any]] = (),
) -> str:
    """Writes index.html, which needs no other file.

    Args:
      output_dir: the directory, local or gs://; made if it does not exist.
      summary: figures by name, all optional: counts such as `documents` and
        `parameters`; `seconds` of each stage and `total_seconds`;
        `heldout_unigram_entropy` in nats per masked token; `before` and `after`,
        metrics on held-out documents (by default those of `rows`); `filled_masks`, each
        with `text` and `answers` of `token` and `probability`; `data_statistics`.
      rows: the rows of metrics.jsonl.
      config: the configuration of the run.
      verdict: what the run does not learn, if anything.
      identity: name, date and versions of the run.
      probes: results of grammar probes, as `probe_report.section` takes them.

    Returns:
      The path of index.html.

    Raises:
      ValueError: a row or a part of the summary has another form.
    """
    summary = _check(summary, rows)
    rows = sorted(rows, key=lambda row: row["step"])
    last_step = rows[-1]["step"] if rows else 0
    ends = [stage.last_step for stage in stages_lib.split(config)[:-1]]
    pictures = pretraining_charts.pictures(
        rows,
        summary.get("heldout_unigram_entropy"),
        [step for step in ends if step < last_step],
    )
    values = {
        **_values(summary, rows, config),
        "verdict": verdict,
        "identity": identity,
        "probes": list(map(probe_report.section, probes)),
        "pictures": pictures,
    }
    return html.write(output_dir, _TEMPLATE_FILE, values, last_step)


def _check(summary: Mapping[str, Any], rows: pretraining_charts.Rows) -> dict[str, Any]:
    """Checks the parts of a summary, and drops those that are None."""
    validation.require(html.has(summary), "a summary must be an object", summary)
    summary = {name: value for name, value in summary.items() if value is not None}
    for name in _NUMBERS:
        value = summary.get(name, 0)
        validation.require(html.is_number(value), f"{name} must be a number", value)
    for name in _OBJECTS:
        value = summary.get(name, {})
        holds = html.has(value) and all(map(html.is_number, value.values()))
        validation.require(holds, f"{name} must hold numbers by name", value)
    statistics = summary.get("data_statistics", {})
    validation.require(
        html.has(statistics), "data_statistics must be an object", statistics
    )
    masks = summary.get("filled_masks", [])
    validation.require(
        isinstance(masks, list | tuple), "filled_masks must be a list", masks
    )
    for mask in masks:
        validation.require(
            html.has(mask, "text", "answers"),
            "a mask has text and answers",
            mask,
        )
        is_list = isinstance(mask["answers"], list | tuple)
        validation.require(is_list, "answers must be a list", mask["answers"])
        for answer in mask["answers"]:
            holds = html.has(answer, "token", "probability")
            holds = holds and html.is_number(answer["probability"])
            validation.require(holds, "an answer has token and probability", answer)
    html.check_rows(rows)
    return summary


def _values(
    summary: Mapping[str, Any], rows: pretraining_charts.Rows, config: config_lib.Config
) -> dict[str, Any]:
    """Returns the values of the template."""
    heldout = [row for row in rows if row["split"] == schema.HELDOUT]
    # That of a branch is a step of the run from which it starts.
    begun = min((row.get("begun_at", 0) for row in rows), default=0)
    before = next((row for row in heldout if row["step"] == begun), {})
    after = next((row for row in reversed(heldout) if row["step"] > begun), {})
    counts = {key: value for key, value in summary.items() if key not in _PLACED}
    return {
        "summary": summary,
        "config": config,
        "config_json": config_io.to_json(config),
        "stages": stages_lib.split(config) if config.train.stages else (),
        "steps": summary.get("steps", rows[-1]["step"] if rows else 0),
        "before": summary.get("before") or before,
        "after": summary.get("after") or after,
        "entropy": summary.get("heldout_unigram_entropy"),
        "margin": guard.MARGIN,
        "last_row": _last_row(rows),
        "counts": list(html.flatten(counts)),
        "statistics": list(html.flatten(_named_labels(summary, config))),
    }


def _named_labels(
    summary: Mapping[str, Any], config: config_lib.Config
) -> dict[str, Any]:
    """Returns the statistics of the records, with names instead of their labels."""
    statistics = dict(summary.get("data_statistics", {}))
    if not html.has(statistics.get("labels")):
        return statistics
    names = dict(enumerate(schema.PAIR_LABELS[config.data.pair_loss]))
    names[schema.NO_LABEL] = "one segment"
    by_label = {str(label): name for label, name in names.items()}
    labels = statistics["labels"].items()
    found = {by_label.get(label, label): number for label, number in labels}
    return {**statistics, "labels": found}


def _a_second(value: float) -> str:
    return f"{html.figure(value)} a second"


def _teraflops(value: float) -> str:
    return f"{html.figure(value / 1e12)} TFLOP/s"


# Metrics of the last row of training, their labels and formats.
_LAST_ROW: tuple[tuple[str, str, Callable[[float], str]], ...] = (
    ("step", "step", "{:,}".format),
    ("stage", "stage", "{:,}".format),
    ("mlm_loss", "MLM loss", "{:.4f} nats a masked token".format),
    ("mlm_accuracy", "MLM accuracy", "{:.1%}".format),
    ("sentence_order_loss", "sentence-order loss", "{:.4f} nats a pair".format),
    ("sentence_order_accuracy", "sentence-order accuracy", "{:.1%}".format),
    ("next_sentence_loss", "next-sentence loss", "{:.4f} nats a pair".format),
    ("next_sentence_accuracy", "next-sentence accuracy", "{:.1%}".format),
    ("learning_rate", "learning rate", html.figure),
    ("gradient_norm", "gradient norm before clipping", html.figure),
    ("tokens_per_second", "tokens, padding not counted", _a_second),
    ("steps_per_second", "steps", _a_second),
    ("input_share", "time spent waiting for batches", "{:.1%}".format),
    ("model_flops_per_second", "operations of the model", _teraflops),
    ("model_flops_utilization", "share of the devices' peak (MFU)", "{:.2%}".format),
    ("masked_share", "masked share of the tokens", "{:.1%}".format),
    ("skipped_steps", "steps skipped so far", "{:,.0f}".format),
    ("overflow_steps", "steps skipped for overflow of float16", "{:,.0f}".format),
    ("loss_scale", "loss scale", "{:,.0f}".format),
)


def _last_row(rows: pretraining_charts.Rows) -> list[tuple[str, str]]:
    """Returns labels and texts of the last row of training; empty if there is none."""
    trained = [row for row in rows if row["split"] == schema.TRAIN]
    row = trained[-1] if trained else {}
    found = [(label, form(row[name])) for name, label, form in _LAST_ROW if name in row]
    ratios = pretraining_charts.trust_ratios(row)
    for label, pick in (("least", min), ("greatest", max)):
        if ratios:
            name = pick(ratios, key=ratios.__getitem__)
            variable = pretraining_charts.variable_label(name)
            text = f"{html.figure(ratios[name])} ({variable})"
            found.append((f"{label} trust ratio", text))
    return found
