"""Trains one experiment with one seed, and measures it; times the steps of several."""

import os
import shutil
from typing import Any

from albert_tf.core import config_io
from albert_tf.finetuning import finetuning
from albert_tf.probing import probe, suites
from albert_tf.reproduction import experiments
from albert_tf.serving import token_scorer
from albert_tf.training import metrics_log, pretraining

# Loops of a run that measures the time of a step; the first one compiles.
_NUM_CALIBRATION_LOOPS = 5


def measure(request: dict[str, Any]) -> dict[str, float]:
    """Trains, evaluates, probes and fine-tunes as a request says.

    Args:
      request: `config`, of the run; `records_dir`, with the directories that it names;
        `run_dir`; `start`, the run to continue as a branch, if any;
        `evaluated_on`, more held-out records as settings by prefix; `blimp_dir` and
        `blimp_pairs`; `tasks`, each with `recipe`, `data_dir` and `settings`;
        `cache_dir`, of their features.

    Returns:
      The measured values by name, accuracies as shares.
    """
    config = config_io.from_dict(request["config"])
    records_dir, run_dir = request["records_dir"], request["run_dir"]
    options = pretraining.PretrainingOptions(branch_from=request["start"] or "")
    values = dict(pretraining.train(config, records_dir, run_dir, options))
    values["num_steps"] = config.train.num_steps
    for prefix, settings in request["evaluated_on"].items():
        found = pretraining.evaluate(
            config_io.override(config, settings), records_dir, run_dir
        )
        values |= {f"{prefix}/{name}": value for name, value in found.items()}
    if request["blimp_dir"] and request["blimp_pairs"]:
        values["blimp"] = _probe(request)
    for name, task in request["tasks"].items():
        values[name] = _fine_tune(task, f"{run_dir}-{name}", request)
    return values


def time_steps(request: dict[str, Any]) -> dict[str, float]:
    """Returns the seconds of a step of several recipes, one right after another.

    Each is timed from its first step on, whatever an earlier call left.

    Args:
      request: `configs`, the recipes by name; `records_dir`; `run_dir`, with a
        directory for each.
    """
    found = {}
    for name, values in request["configs"].items():
        config = config_io.from_dict(values)
        count = _NUM_CALIBRATION_LOOPS * config.train.steps_per_loop
        run_dir = os.path.join(request["run_dir"], name)
        if os.path.exists(run_dir):
            shutil.rmtree(run_dir)
        short = experiments.with_num_steps(config, count)
        pretraining.train(short, request["records_dir"], run_dir)
        found[name] = metrics_log.fastest_step_seconds(run_dir)
    return found


def _probe(request: dict[str, Any]) -> float:
    """Returns the accuracy on BLiMP."""
    scorer = token_scorer.load_scorer(request["run_dir"]).scorer
    pairs = suites.read(request["blimp_dir"], request["blimp_pairs"])
    return probe.probe(scorer, pairs).accuracies.overall.accuracy


def _fine_tune(task: dict[str, Any], task_dir: str, request: dict[str, Any]) -> float:
    """Returns the first metric of a task on its development set."""
    seed = request["config"]["train"]["seed"]
    config = config_io.load(task["recipe"], [*task["settings"], f"train.seed={seed}"])
    results = finetuning.fine_tune(
        config, request["run_dir"], task["data_dir"], task_dir, request["cache_dir"]
    )
    return next(iter(results["scores"]["dev"].values()))
