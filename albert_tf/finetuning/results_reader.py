"""Reads the results of fine-tuning runs."""

import dataclasses
import os
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from albert_tf.core import config as config_lib
from albert_tf.core import config_io, files, short_repr, strict_json, validation
from albert_tf.data import schema
from albert_tf.tasks import text_files
from albert_tf.training import metrics_log

RESULTS_FILE = "results.json"
# The directory of the files for leaderboards.
PREDICTIONS_DIR = "predictions"

# The keys of answers by kind, a key of `task_model.HEADS`; the last only with labels.
_SPAN_NAMES = ("question", "context", "prediction", "is_correct")
ANSWER_NAMES = {
    "classification": ("text_a", "prediction", "label"),
    "regression": ("text_a", "prediction", "label"),
    "token_classification": ("words", "prediction", "label"),
    "span": _SPAN_NAMES,
    "answerable_span": _SPAN_NAMES,
    "multiple_choice": ("context", "question", "options", "prediction", "label"),
}
# What values must be, and whether one is. Numbers may be NaN.
_Rule = tuple[str, Callable[[Any], bool]]
_TEXT: _Rule = ("text", lambda value: isinstance(value, str))
_BOOLEAN: _Rule = ("true or false", lambda value: isinstance(value, bool))
_INTEGER: _Rule = ("an integer", lambda value: type(value) is int)
_NUMBER: _Rule = ("a number", lambda value: type(value) in (int, float))
_TEXTS: _Rule = (
    "an array of texts",
    lambda value: isinstance(value, list) and all(map(_TEXT[1], value)),
)
_NUMBERS: _Rule = (
    "an object of numbers",
    lambda value: isinstance(value, dict) and all(map(_NUMBER[1], value.values())),
)
_RIGHT_ANSWERS: _Rule = (
    "an array of texts, or of objects with text and start",
    lambda value: (
        isinstance(value, list)
        and all(
            isinstance(one, str)
            or (
                isinstance(one, dict)
                and isinstance(one.get("text"), str)
                and type(one.get("start")) is int
            )
            for one in value
        )
    ),
)
_RESULT_RULES = {
    "task": _TEXT,
    "kind": _TEXT,
    "labels": _TEXTS,
    "seed": _INTEGER,
    "initial_weights": _TEXT,
    "init_checkpoint": _TEXT,
    "num_steps": _NUMBER,
    "best_step": _NUMBER,
    "best_metric": _TEXT,
    "selected_on": _TEXT,
    "num_examples": _NUMBERS,
    "left_out": _TEXTS,
    "seconds": _NUMBER,
}
_ANSWER_RULES = {
    "text_a": _TEXT,
    "text_b": _TEXT,
    "question": _TEXT,
    "context": _TEXT,
    "words": _TEXTS,
    "options": _TEXTS,
    "is_correct": _BOOLEAN,
    "start": _INTEGER,
    "end": _INTEGER,
    "f1": _NUMBER,
    "null_odds": _NUMBER,
    "answers": _RIGHT_ANSWERS,
}
# Of predictions and labels, by kind; else they are texts.
_PREDICTION_RULES = {"regression": _NUMBER, "token_classification": _TEXTS}
_SEEDS_NAMES = ("task", "best_metric", "seeds", "best")
# The statistics over all seeds.
SPREADS = ("median", "standard_deviation", "min", "max")
_SPLIT = re.compile(r"[\w-]+")


# Metrics that have no upper bound.
_UNBOUNDED = ("loss", "threshold", "error", "odds")


def is_share(metric: str) -> bool:
    """Returns whether a metric is at most 1, and reported in percent."""
    return not any(word in metric for word in _UNBOUNDED)


def format_metric(metric: str, value: float, digits: int = 2) -> str:
    """Formats a metric: in percent, except for unbounded ones such as errors."""
    return f"{100 * value:.{digits}f}" if is_share(metric) else f"{value:.4g}"


@dataclasses.dataclass(frozen=True)
class TaskRun:
    """One run.

    Attributes:
      config: its configuration.
      rows: of metrics.jsonl, by step.
      results: the content of results.json; empty if the run has not ended.
      answers: the answers to labelled examples by split, in the order of the metrics;
        without splits that have none.
    """

    config: config_lib.Config
    rows: Sequence[Mapping[str, Any]]
    results: Mapping[str, Any]
    answers: Mapping[str, Sequence[Mapping[str, Any]]]


def read_seeds(model_dir: str) -> dict[str, Any]:
    """Reads seeds.json; empty for the directory of a single run.

    Raises:
      ValueError: the file is malformed; names it.
    """
    path = os.path.join(model_dir, schema.SEEDS_FILE)
    if not files.exists(path):
        return {}
    seeds = strict_json.load(path, lenient=True)  # a score may be NaN
    _require_names(path, seeds, _SEEDS_NAMES)
    is_list = isinstance(seeds["seeds"], list)
    validation.require(is_list, f"{path}: seeds must be an array", seeds["seeds"])
    for run in seeds["seeds"]:
        _require_names(path, run, ("seed", "folder", "scores"))
        is_named = isinstance(run["folder"], str)
        validation.require(is_named, f"{path}: folder must be a name", run["folder"])
        _check_scores(path, run["scores"])
    for spread in SPREADS:
        _check_scores(path, seeds.get(spread, {}))
    known = [run["seed"] for run in seeds["seeds"]]
    validation.require(
        seeds["best"] in known,
        f"{path}: best must be one of {short_repr.shown(known)}",
        seeds["best"],
    )
    return seeds


def seed_folders(model_dir: str) -> list[str]:
    """The directories of a run's seeds; `model_dir` itself for a single run."""
    seeds = read_seeds(model_dir)
    if not seeds:
        return [model_dir]
    return [os.path.join(model_dir, run["folder"]) for run in seeds["seeds"]]


def best_folder(model_dir: str) -> str:
    """The directory of the best seed; `model_dir` itself for a single run."""
    seeds = read_seeds(model_dir)
    for run in seeds.get("seeds", ()):
        if run["seed"] == seeds["best"]:
            return os.path.join(model_dir, run["folder"])
    return model_dir


def prediction_folders(model_dir: str) -> list[str]:
    """The directories of a run's predictions for leaderboards, one per split.

    With several seeds, those of the best seed.

    Raises:
      ValueError: there are none.
    """
    folder = os.path.join(best_folder(model_dir), PREDICTIONS_DIR)
    found = [os.path.join(folder, name) for name in text_files.names_in(folder, "")]
    if not found:
        raise ValueError(
            f"{model_dir} has no predictions; write them with albert_tf.finetune"
        )
    return found


def read_run(model_dir: str) -> TaskRun:
    """Reads the directory of one run.

    Raises:
      ValueError: a file is missing or malformed; names it, and the line.
    """
    config_path = os.path.join(model_dir, schema.CONFIG_FILE)
    config = config_io.read(config_path)
    validation.require(
        config.task.name != "",
        f"{config_path}: task.name must not be empty in the directory of a fine-tuning",
        config.task.name,
    )
    rows = metrics_log.read_metrics(model_dir)
    results = read_results_file(model_dir)
    answers = {}
    for split in results.get("scores", {}):
        path = os.path.join(model_dir, f"answers-{split}.jsonl")
        found = _read_answers(path, results["kind"]) if files.exists(path) else []
        if found:
            answers[split] = found
    return TaskRun(config, rows, results, answers)


def read_results(model_dir: str) -> dict[str, Any]:
    """Reads results.json of a run.

    Raises:
      ValueError: the run has not ended, or the file is malformed.
    """
    results = read_run(model_dir).results
    if not results:
        raise ValueError(
            f"{model_dir} must contain a run that has ended; it has no {RESULTS_FILE}"
        )
    return dict(results)


def read_results_file(model_dir: str) -> dict[str, Any]:
    """Reads results.json of one run, and nothing else; empty if it has not ended.

    Raises:
      ValueError: the file is malformed; names it.
    """
    path = os.path.join(model_dir, RESULTS_FILE)
    if not files.exists(path):
        return {}
    results = strict_json.load(path, lenient=True)
    _require_names(path, results, (*_RESULT_RULES, "scores"))
    rules = {
        **_RESULT_RULES,
        "calibration": _NUMBERS,
        "majority": _NUMBERS,
        "last_step": _NUMBER,
    }
    _check_values(path, results, rules)
    validation.require(
        results["kind"] in ANSWER_NAMES,
        f"{path}: kind must be one of {', '.join(ANSWER_NAMES)}",
        results["kind"],
    )
    _check_scores(path, results["scores"])
    return results


def last_step(results: Mapping[str, Any]) -> int:
    """Returns the number of steps of a run; an earlier version recorded the most."""
    return results["last_step"] if "last_step" in results else results["num_steps"]


def _check_scores(path: str, scores: Any) -> None:
    holds = isinstance(scores, Mapping) and all(
        _SPLIT.fullmatch(split)
        and isinstance(of_split, Mapping)
        and all(isinstance(score, int | float) for score in of_split.values())
        for split, of_split in scores.items()
    )
    validation.require(
        holds, f"{path}: scores must be numbers by split and metric", scores
    )


def _read_answers(path: str, kind: str) -> list[dict[str, Any]]:
    """Reads the answers to labelled examples."""
    found = []
    *names, label = ANSWER_NAMES[kind]
    of_kind = _PREDICTION_RULES.get(kind, _TEXT)
    rules = {**_ANSWER_RULES, "prediction": of_kind, "label": of_kind}
    for place, answer in strict_json.lines(path, lenient=True):
        values = strict_json.as_object(answer, place)
        given = {name: value for name, value in values.items() if value is not None}
        _require_names(place, given, names)
        _check_values(place, given, rules)
        if label not in given:
            continue
        if label == _SPAN_NAMES[-1]:
            _require_names(place, given, ("answers", "f1"))
        found.append(given)
    return found


def _check_values(
    place: str, values: Mapping[str, Any], rules: Mapping[str, _Rule]
) -> None:
    for name, (rule, holds) in rules.items():
        if name in values:
            value = values[name]
            validation.require(holds(value), f"{place}: {name} must be {rule}", value)


def _require_names(path: str, value: Any, names: Sequence[str]) -> None:
    is_object = isinstance(value, Mapping)
    missing = [name for name in names if not is_object or name not in value]
    if missing:
        raise ValueError(
            f"{path}: an object with {', '.join(names)} is needed; there is no "
            f"{missing[0]} in {short_repr.shown(value)}. Run the evaluation again"
        )
