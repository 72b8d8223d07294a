"""Time from the start of a process to its first step, of a new and a resumed run."""

import json
import math
import os
import shutil
import subprocess
import time
from typing import Any

from albert_tf.benchmarks import figures, setup, startup_trace
from albert_tf.checkpoints import run_dir
from albert_tf.core import binaries, config_io
from albert_tf.core import config as config_lib
from albert_tf.data import schema, sources
from albert_tf.training import metrics_log
from albert_tf.training import trainer as trainer_lib

# A step without an evaluation or a checkpoint, as when a run was killed.
FAR_STEP = 1_000_003
MAX_SECONDS = 60.0
_TIMEOUT_SECONDS = 600.0


def far_config(config: config_lib.Config) -> config_lib.Config:
    """The recipe with more steps than `FAR_STEP`."""
    return config_io.override(config, [f"train.num_steps={2 * FAR_STEP}"])


def write_far_run(
    trainer: trainer_lib.Trainer,
    data_dir: str,
    manifest: schema.Manifest,
    model_dir: str,
) -> None:
    """Writes the run directory of a run at `FAR_STEP`, with its metrics.

    Args:
      trainer: built with `far_config`; its step counter changes.
      data_dir: the records of the run.
      manifest: theirs.
      model_dir: the directory to write.
    """
    shutil.rmtree(model_dir, ignore_errors=True)
    records = sources.of_directory(data_dir, manifest, trainer.config)
    run_dir.write(trainer.config, [records], model_dir)
    trainer.optimizer.iterations.assign(FAR_STEP)
    trainer.make_checkpointer(model_dir).save(FAR_STEP, wait=True)
    ratios = trainer.optimizer.trust_ratios(trainer.model.trainable_variables)
    values = {f"trust_ratio/{name}": math.pi for name in ratios}
    values |= {f"value_{number}": math.pi for number in range(12)}
    every = trainer.config.train.steps_per_loop
    with open(os.path.join(model_dir, metrics_log.METRICS_FILE), "w") as file:
        for step in range(every, FAR_STEP, every):
            row = {"split": schema.TRAIN, "step": step, "seconds": step * 0.3, **values}
            file.write(json.dumps(row) + "\n")


def start(
    config: config_lib.Config, data_dir: str, model_dir: str, result: str
) -> dict[str, Any]:
    """Starts training in a process; returns the result of `startup_trace`.

    Args:
      config: of the run.
      data_dir: its records.
      model_dir: its directory; a run that is already there is resumed.
      result: path of the file that the process writes.

    Raises:
      ValueError: the process failed.
    """
    recipe = f"{result}.config.json"
    with open(recipe, "w", encoding="utf-8") as file:
        file.write(config_io.to_json(config))
    flags = (
        f"--config={recipe}",
        f"--data_dir={data_dir}",
        f"--model_dir={model_dir}",
        "--set=train.steps_per_loop=1",
    )
    module = "albert_tf.benchmarks.startup_trace"
    arguments = (result, repr(time.time()), *flags)
    try:
        binaries.run_module(module, *arguments, timeout=_TIMEOUT_SECONDS)
    except subprocess.TimeoutExpired as error:
        raise ValueError(
            f"a run must finish its first step within {_TIMEOUT_SECONDS:.0f} s; this "
            "one did not. Is the machine busy?"
        ) from error
    with open(result, encoding="utf-8") as file:
        return json.load(file)


def measure(
    config: config_lib.Config,
    data_dir: str,
    manifest: schema.Manifest,
    folder: str,
    num_repeats: int,
) -> list[figures.Figure]:
    """Starts a new run and resumes one at `FAR_STEP`, each several times.

    Args:
      config: the recipe.
      data_dir: records.
      manifest: theirs.
      folder: created for this, and removed.
      num_repeats: how often each is started; the parts are those of the start with the
        median time.
    """
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    new, far = os.path.join(folder, "new"), os.path.join(folder, "far")
    result = os.path.join(folder, "result.json")
    resumed = far_config(config)
    write_far_run(setup.build(resumed), data_dir, manifest, far)
    starts: dict[str, list[dict[str, Any]]] = {"new": [], "far": []}
    for _ in range(num_repeats):
        shutil.rmtree(new, ignore_errors=True)
        starts["new"].append(start(config, data_dir, new, result))
        starts["far"].append(start(resumed, data_dir, far, result))
    shutil.rmtree(folder)
    every = config.train.steps_per_loop
    return [
        *to_figures("start of a new run", starts["new"], every),
        *to_figures(f"start at step {FAR_STEP:,}", starts["far"], every),
    ]


def to_figures(
    group: str, starts: list[dict[str, Any]], steps_per_loop: int
) -> list[figures.Figure]:
    """The figures of several starts of one kind.

    Args:
      group: their heading.
      starts: results of `startup_trace`.
      steps_per_loop: steps of a run between two rows of metrics.
    """
    ordered = sorted(starts, key=lambda one: one["seconds"])
    middle = ordered[(len(ordered) - 1) // 2]
    total = figures.Figure(
        group,
        "first step done after",
        middle["seconds"],
        "s",
        at_most=MAX_SECONDS,
        samples=tuple(one["seconds"] for one in starts),
    )
    parts = [
        figures.Figure(group, f"of it {name}", middle["parts"][name], "s")
        for name in startup_trace.NAMES
    ]
    cores = [one["core_seconds"] for one in starts]
    host = [one["host_seconds"] for one in starts]
    loop = [steps_per_loop * one["parts"]["the step"] for one in starts]
    share = [one / other for one, other in zip(host, loop, strict=True)]
    name = f"a row of metrics, of a loop of {steps_per_loop} steps"
    return [
        total,
        figures.median_figure(group, "core time until then", cores, "s"),
        *parts,
        figures.median_figure(group, "a row of metrics", host, "s"),
        figures.median_figure(group, name, share, "%", at_most=0.02),
    ]
