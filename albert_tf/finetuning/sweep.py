"""A setting of fine-tuning, chosen by a run with each of some values.

Without TensorFlow: a malformed one is refused at once.
"""

import dataclasses
import os
import urllib.parse
from collections.abc import Callable, Mapping
from typing import Any

from albert_tf.core import config as config_lib
from albert_tf.core import config_io, files
from albert_tf.finetuning import hyperparameters

SWEEP_FILE = "sweep.json"
_FOLDER = "sweep"
# With other values of these, scores are not of the same examples or metric.
_FIXED = (
    "train.best_metric",
    "task.name",
    "task.kind",
    "task.selection_fraction",
    "task.on_bad_example",
    "task.train_file",
    "task.dev_file",
    "task.test_file",
    "task.text_column",
    "task.pair_column",
    "task.label_column",
    "task.id_column",
)

# Fine-tunes in a directory, and returns the content of results.json.
FineTune = Callable[[config_lib.Config, str], Mapping[str, Any]]
# Formats a metric by its name and value.
FormatMetric = Callable[[str, float], str]


@dataclasses.dataclass(frozen=True)
class Sweep:
    """A setting, such as "optimizer.learning_rate", and the values to try, as text."""

    key: str
    values: tuple[str, ...]


def parse(text: str, config: config_lib.Config) -> Sweep:
    """Parses `key.sub=value,value`.

    Args:
      text: as --sweep is given.
      config: the recipe, which must take each of the values.

    Raises:
      ValueError: it has another form, or the recipe has no such setting or value, or
        the scores of the values could not be compared.
    """
    key, _, values = text.partition("=")
    sweep = Sweep(key, tuple(dict.fromkeys(values.split(","))))
    if len(sweep.values) < 2 or not all(sweep.values):
        raise ValueError(
            "--sweep must name a setting and two values or more, such as "
            f"optimizer.learning_rate=1e-4,3e-4,1e-3; received {text!r}"
        )
    for value in sweep.values:
        _with_value(config, sweep, value)
    if hyperparameters.is_of_run(key):
        raise ValueError(
            f"--sweep must name a setting that fine-tuning uses; received {key}, which "
            "is that of --init_checkpoint"
        )
    if key in _FIXED:
        raise ValueError(
            "--sweep must name a setting with which scores remain comparable; received "
            f"{key}, which changes the examples or the metric. Give it with --set"
        )
    return sweep


def choose(
    sweep: Sweep,
    config: config_lib.Config,
    model_dir: str,
    fine_tune: FineTune,
    format_metric: FormatMetric,
) -> config_lib.Config:
    """Returns a recipe with the value whose run has the best score.

    The score is that of the split which selects the checkpoint, by `best_metric`; of
    equal ones the first value is taken. A value with which training diverges is not.
    Writes sweep.json, and prints lines.

    Args:
      sweep: the setting and its values.
      config: the recipe.
      model_dir: gets a directory for each value in `sweep`.
      fine_tune: runs one seed, or continues its run.
      format_metric: for the line.

    Raises:
      ValueError: no split selects.
      FloatingPointError: training diverges with all values.
      Others: as `fine_tune`.
    """
    scores, failed = {}, {}
    for value in sweep.values:
        folder = os.path.join(model_dir, _FOLDER, urllib.parse.quote(value, safe=""))
        try:
            results = fine_tune(_with_value(config, sweep, value), folder)
        except FloatingPointError as error:
            failed[value] = str(error)
            print(f"{sweep.key}={value} failed, and is not chosen: {error}")
            continue
        scores[value] = results["best_value"]
        if scores[value] is None:
            raise ValueError(
                "--sweep needs examples to choose a value by, and no split of the task "
                f"{config.task.name} has any; keep some of the training examples with "
                "--set task.selection_fraction=0.1"
            )
    if not scores:
        raise FloatingPointError(
            f"training failed with all values of --sweep={sweep.key}; try others. With "
            f"{value}: {failed[value]}"
        )
    best = max(scores, key=scores.__getitem__)
    metric, split = results["best_metric"], results["selected_on"]
    found = {"setting": sweep.key, "best_metric": metric, "selected_on": split}
    found |= {"scores": scores, "best": best}
    if failed:
        found["failed"] = failed
    files.write_json(os.path.join(model_dir, SWEEP_FILE), found)
    shown = [
        f"{value}: {format_metric(metric, score)}" for value, score in scores.items()
    ]
    print(f"{sweep.key}={best} has the best {metric} on {split} ({', '.join(shown)})")
    return _with_value(config, sweep, best)


def _with_value(
    config: config_lib.Config, sweep: Sweep, value: str
) -> config_lib.Config:
    return config_io.override(config, [f"{sweep.key}={value}"])
