"""Trains one experiment with one seed, and measures it, in a process of its own.

    python -m albert_tf.reproduction.experiment_process REQUEST.json

`runner` writes the request, and reads what this writes. The same command resumes.
"""

import os
import sys
from collections.abc import Sequence
from typing import Any

from albert_tf.core import cli, config_io, files, strict_json
from albert_tf.core import config as config_lib
from albert_tf.finetuning import finetuning
from albert_tf.probing import probe, suites
from albert_tf.reproduction import experiments
from albert_tf.serving import token_scorer
from albert_tf.training import flags, metrics_log, pretraining

# Loops of the run that measures the time of a step; the first one compiles.
_NUM_CALIBRATION_LOOPS = 4


def measure(request: dict[str, Any]) -> dict[str, float]:
    """Trains, evaluates, probes and fine-tunes as a request says.

    Args:
      request: `config`, of the run; `records_dir`, with the directories that it names;
        `run_dir`; `start` and `start_as`, the run to start from, if any, and how;
        `seconds`, if above 0 the time to train for; `evaluated_on`, more held-out
        records as settings by prefix; `blimp_dir` and `blimp_pairs`; `tasks`, each
        with `recipe`, `data_dir` and `settings`; `cache_dir`, of their features.

    Returns:
      The measured values by name, accuracies as shares.
    """
    config = config_io.from_dict(request["config"])
    records_dir, run_dir = request["records_dir"], request["run_dir"]
    if request["seconds"]:
        config = _fit_time(config, request)
    options = pretraining.PretrainingOptions()
    if request["start"]:
        as_weights = request["start_as"] == experiments.WEIGHTS
        key = "init_checkpoint" if as_weights else "branch_from"
        options = pretraining.PretrainingOptions(**{key: request["start"]})
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


def _fit_time(config: config_lib.Config, request: dict[str, Any]) -> config_lib.Config:
    """Returns the recipe with as many steps as fit into the time.

    Their number is written down, so that a run that resumes has the same.
    """
    path = f"{request['run_dir']}-steps.json"
    if not files.exists(path):
        calibration_dir = f"{request['run_dir']}-calibration"
        count = _NUM_CALIBRATION_LOOPS * config.train.steps_per_loop
        short = experiments.with_num_steps(config, count)
        pretraining.train(short, request["records_dir"], calibration_dir)
        seconds = metrics_log.step_seconds(calibration_dir)
        num_steps = max(count, round(request["seconds"] / seconds))
        files.write_json(path, {"num_steps": num_steps, "step_seconds": seconds})
    return experiments.with_num_steps(config, strict_json.load(path)["num_steps"])


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


def main(arguments: Sequence[str]) -> None:
    """Runs the request that the first argument names."""
    request = strict_json.load(arguments[0])
    with cli.user_errors(), flags.exiting_early():
        values = measure(request)
    files.write_json(os.path.join(f"{request['run_dir']}.json"), values)


if __name__ == "__main__":
    main(sys.argv[1:])
