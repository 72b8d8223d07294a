"""Ensembles: the average of the predictions of several fine-tuning runs."""

import os
import statistics
from collections.abc import Sequence
from typing import Any

from albert_tf.core import cli, files
from albert_tf.finetuning import results_reader, results_writer, run_dir
from albert_tf.tasks import averaging, base
from albert_tf.tasks import examples as examples_lib
from albert_tf.tasks import predictions as predictions_lib


def combine(
    runs: Sequence[str],
    data_dir: str,
    split: str,
    output_dir: str,
    overrides: Sequence[str] = (),
) -> dict[str, Any]:
    """Averages the predictions of runs, and writes predictions and metrics.

    Args:
      runs: directories of the runs; those with several seeds have one member per seed.
      data_dir: directory of the task's files.
      split: such as "dev".
      output_dir: another directory.
      overrides: as `config_io.check_data_settings` takes them.

    Returns:
      The content of results.json.

    Raises:
      ValueError: a directory has no predictions for the split, the runs are of
        different tasks, or `output_dir` is one of theirs.
    """
    folders = [folder for run in runs for folder in results_reader.seed_folders(run)]
    cli.check_output_dir(output_dir, [*runs, *folders])
    task = run_dir.read(folders[0], overrides).task
    of_members = [results_reader.read_results(folder) for folder in folders]
    for folder in folders[1:]:
        described = run_dir.read_task(folder)
        theirs = described["name"], tuple(described["labels"])
        if theirs != (task.settings.name, task.labels):
            raise ValueError(
                "all runs must be of one task with the same labels; "
                f"{folders[0]} is of {task.settings.name} {task.labels}, {folder} of "
                f"{theirs[0]} {theirs[1]}"
            )
    skips = task.settings.on_bad_example == "skip"
    problems = examples_lib.Problems(skips)
    examples = task.read(data_dir, split, problems)
    calibration = _calibrate(task, folders)
    members = [_read_predictions(folder, split, examples) for folder in folders]
    run_dir.copy(folders[0], output_dir)
    scores = results_writer.write_split(
        output_dir, task, split, examples, averaging.average(members)
    )
    selected_on = [results["selected_on"] for results in of_members]
    results = {
        **of_members[0],
        # If it selected the checkpoint of any member, its metrics are too good.
        "selected_on": split if split in selected_on else selected_on[0],
        "members": folders,
        "calibration": calibration,
        "num_examples": {split: len(examples)},
        "left_out": problems.lines(),
        "scores": {split: scores} if scores else {},
        results_writer.MAJORITY: results_writer.majority_of({split: examples}),
    }
    results_writer.write_results(output_dir, results)
    return results


def _calibrate(task: base.Task, folders: Sequence[str]) -> dict[str, float]:
    """Sets the means of the members' calibrations, and returns them."""
    found = [run_dir.read_task(folder)["calibration"] for folder in folders]
    names = set.intersection(*map(set, found))
    mean = {name: statistics.fmean(values[name] for values in found) for name in names}
    task.use_calibration(mean)
    return mean


def _read_predictions(
    folder: str, split: str, examples: Sequence
) -> predictions_lib.Predictions:
    for suffix in (".npz", ".json"):
        path = os.path.join(folder, f"outputs-{split}{suffix}")
        if files.exists(path):
            break
    else:
        raise ValueError(
            f"{folder} has no outputs-{split}; write it with albert_tf.finetune, or "
            f"with albert_tf.evaluate --split={split}"
        )
    content = files.read_bytes(path)
    try:
        ids, predictions = predictions_lib.from_bytes(content)
        digest = predictions_lib.texts_digest(content)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    if ids != [example.id for example in examples]:
        raise ValueError(
            f"{path} is for other examples than those of --data_dir: their ids differ"
        )
    if digest not in ("", examples_lib.digest(examples, with_labels=False)):
        # Ids that are the numbers of rows are the same for any texts.
        raise ValueError(
            f"{path} is for other examples than those of --data_dir: their texts "
            "differ. Give the --data_dir that it was made with, or make it again with "
            f"albert_tf.evaluate --split={split}"
        )
    return predictions
