"""Writes results: predictions, answers and metrics of a run, and of several seeds."""

import json
import os
import statistics
import types
from collections.abc import Mapping, Sequence
from typing import Any

from albert_tf.core import files
from albert_tf.data import schema
from albert_tf.finetuning import results_reader
from albert_tf.tasks import base
from albert_tf.tasks import examples as examples_lib
from albert_tf.tasks import predictions as predictions_lib

SELECTED_ON_NOTE = (
    "{0} selected the checkpoint, so its metrics are slightly too good; --set "
    "task.selection_fraction=0.1 selects by a part of the training examples instead"
)

MetricsBySplit = dict[str, dict[str, float]]
# In results.json: the accuracy of always answering the most frequent label, by split.
MAJORITY = "majority"


def write_split(
    folder: str,
    task: base.Task,
    split: str,
    examples: Sequence[Any],
    predictions: predictions_lib.Predictions,
) -> dict[str, float]:
    """Writes the predictions for a split, and returns its metrics.

    Writes `answers-SPLIT.jsonl`, `outputs-SPLIT.npz` (.json for spans), which ensembles
    are made from, and `predictions/SPLIT/` for leaderboards.

    Returns:
      Metrics by name; empty if the examples have no labels.
    """
    files.make_folder(folder)
    ids = [example.id for example in examples]
    digest = examples_lib.digest(examples, with_labels=False)
    suffix = predictions_lib.suffix(predictions)
    files.write_bytes(
        os.path.join(folder, f"outputs-{split}{suffix}"),
        predictions_lib.to_bytes(ids, predictions, digest),
    )
    lines = [
        json.dumps(answer, ensure_ascii=False) + "\n"
        for answer in task.answers(examples, predictions)
    ]
    files.write_bytes(
        os.path.join(folder, f"answers-{split}.jsonl"),
        "".join(lines).encode("utf-8", "replace"),
    )
    predictions_dir = os.path.join(folder, results_reader.PREDICTIONS_DIR, split)
    files.make_folder(predictions_dir)
    task.write_predictions(split, examples, predictions, predictions_dir)
    is_labelled = all(map(base.is_labelled, examples))
    return task.compute_metrics(examples, predictions) if is_labelled else {}


def majority_of(splits: Mapping[str, Sequence[Any]]) -> dict[str, float]:
    """Returns the entry `MAJORITY` of results.json, given the examples by split."""
    found = {split: base.majority_share(splits[split]) for split in splits}
    return {split: share for split, share in found.items() if share is not None}


def metric_lines(
    scores: MetricsBySplit,
    selected_on: str,
    majority: Mapping[str, float] = types.MappingProxyType({}),
) -> list[str]:
    """Returns lines that report metrics, with a note if they are optimistic.

    Args:
      scores: metrics by split.
      selected_on: the split that selected the checkpoint.
      majority: of `majority_of`, to compare an accuracy with.
    """
    lines = [
        f"{split} {name}: {results_reader.format_metric(name, value)}"
        + (_majority_note(split, majority) if name == "accuracy" else "")
        for split, of_split in scores.items()
        for name, value in of_split.items()
    ]
    if selected_on in scores:
        lines.append(SELECTED_ON_NOTE.format(selected_on))
    return lines


def summary_lines(results: Mapping[str, Any]) -> list[str]:
    """Returns the lines that report results.json, or the summary of several seeds."""
    selected_on = results["selected_on"]
    majority = results.get(MAJORITY, {})
    if "seeds" not in results:
        return metric_lines(results["scores"], selected_on, majority)
    shown = results_reader.format_metric
    lines = [
        f"{split} {name}: median {shown(name, median)}, standard deviation "
        f"{shown(name, results['standard_deviation'][split][name])}, "
        f"{shown(name, results['min'][split][name])} to "
        f"{shown(name, results['max'][split][name])} over {len(results['seeds'])} seeds"
        + (_majority_note(split, majority) if name == "accuracy" else "")
        for split, scores in results["median"].items()
        for name, median in scores.items()
    ]
    lines.append(f"best seed by {results['best_metric']}: {results['best']}")
    if selected_on in results["median"]:
        lines.append(SELECTED_ON_NOTE.format(selected_on))
    return lines


def _majority_note(split: str, majority: Mapping[str, float]) -> str:
    if split not in majority:
        return ""
    share = results_reader.format_metric("accuracy", majority[split])
    return f" (always the most frequent label: {share})"


def best_line(results: Mapping[str, Any]) -> str:
    """Returns the score that selected the checkpoint, or an empty text."""
    if results.get("best_value") is None:
        return ""
    name = results["best_metric"]
    value = results_reader.format_metric(name, results["best_value"])
    split, step = results["selected_on"], results["best_step"]
    return f"Best {name} on {split} {value}, at step {step:,}. "


def print_results(
    results: Mapping[str, Any], output_dir: str, advice: str = ""
) -> None:
    """Prints skipped examples, metrics, and the directory of the results.

    Args:
      results: the content of results.json.
      output_dir: where that is.
      advice: what to do next.
    """
    closing = f"results are in {output_dir}"
    print(
        "\n".join(
            [
                *results["left_out"],
                *summary_lines(results),
                f"{closing}. {advice}" if advice else closing,
            ]
        )
    )


def write_results(folder: str, results: Mapping[str, Any]) -> None:
    """Writes results.json."""
    files.write_json(os.path.join(folder, results_reader.RESULTS_FILE), results)


def summarize_seeds(
    model_dir: str, runs: Sequence[tuple[str, Mapping[str, Any]]], writes: bool
) -> dict[str, Any]:
    """Summarizes runs that differ in the seed, and writes seeds.json.

    Args:
      model_dir: the directory that contains those of the runs.
      runs: directory name and results of each run, at least two.
      writes: whether this process writes.

    Returns:
      The content of seeds.json: median, sample standard deviation, minimum and maximum
      of each metric on each split, and the best seed by the metric that selected the
      checkpoints.
    """
    first = runs[0][1]

    def over_runs(function) -> MetricsBySplit:
        return {
            split: {
                name: function([results["scores"][split][name] for _, results in runs])
                for name in scores
            }
            for split, scores in first["scores"].items()
        }

    # Without a selection split, take the first.
    values = [results["best_value"] for _, results in runs]
    best = runs[values.index(max(values))][1] if values[0] is not None else first
    summary = {
        "task": first["task"],
        "best_metric": first["best_metric"],
        "selected_on": first["selected_on"],
        "seeds": [
            {
                "seed": results["seed"],
                "folder": folder,
                "best_step": results["best_step"],
                "scores": results["scores"],
            }
            for folder, results in runs
        ],
        "median": over_runs(statistics.median),
        "standard_deviation": over_runs(statistics.stdev),
        "min": over_runs(min),
        "max": over_runs(max),
        "best": best["seed"],
    }
    if MAJORITY in first:
        summary[MAJORITY] = first[MAJORITY]
    if writes:
        files.write_json(os.path.join(model_dir, schema.SEEDS_FILE), summary)
    return summary
