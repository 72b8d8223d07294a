"""Averages the predictions of several fine-tuned models, whatever their configurations.

python -m albert_tf.ensemble --runs=rte,rte-large --data_dir=glue_data/RTE \
    --split=dev --output_dir=rte-ensemble

A run is a folder that albert_tf.finetune wrote (with --seeds: all its seeds) or
albert_tf.evaluate, for other checkpoints. Logits are averaged, and the probabilities of
answers.
"""

import os
import statistics
from collections.abc import Sequence
from typing import Any

from absl import flags

from albert_tf import binary, files, task_folder, task_results, task_runs
from albert_tf.tasks import base, ensembles
from albert_tf.tasks import examples as examples_lib
from albert_tf.tasks import outputs as outputs_lib


def define_flags(flag_values: flags.FlagValues = flags.FLAGS) -> None:
    """Defines the flags: here, so that another binary's can live in one process."""
    flags.DEFINE_list(
        "runs", None, "Folders of the runs, with commas.", flag_values=flag_values
    )
    flags.DEFINE_string("data_dir", None, "Folder of the task's files.", flag_values)
    flags.DEFINE_string("split", "dev", "Which examples, such as test.", flag_values)
    flags.DEFINE_string("output_dir", None, "Folder to write.", flag_values)
    flags.mark_flags_as_required(["runs", "data_dir", "output_dir"], flag_values)


def combine(
    runs: Sequence[str], data_dir: str, split: str, output_dir: str
) -> dict[str, Any]:
    """Averages, and writes what `finetune` writes of a split.

    Returns:
      What results.json holds.

    Raises:
      ValueError: a folder holds no predictions of the split, the runs are not of one
        task, or `output_dir` is one of theirs.
    """
    folders = [folder for run in runs for folder in task_runs.seed_folders(run)]
    if output_dir.rstrip("/") in {path.rstrip("/") for path in (*runs, *folders)}:
        raise ValueError(
            "--output_dir must be another folder than those of the runs, whose own "
            f"results would be lost; received {output_dir}"
        )
    task, results = (
        task_folder.read(folders[0]).task,
        task_results.read_results(folders[0]),
    )
    for folder in folders[1:]:
        described = task_folder.read_task(folder)
        theirs = described["name"], tuple(described["labels"])
        if theirs != (task.settings.name, task.labels):
            raise ValueError(
                "all runs must be of one task with the same labels; "
                f"{folders[0]} is of {task.settings.name} {task.labels}, {folder} of "
                f"{theirs[0]} {theirs[1]}"
            )
    skips = task.settings.bad_examples == "skip"
    problems = examples_lib.Problems(skips)
    examples = task.read(data_dir, split, problems)
    calibration = _calibrate(task, folders)
    members = [_read_outputs(folder, split, examples) for folder in folders]
    task_folder.copy(folders[0], output_dir)
    scores = task_results.write_split(
        output_dir, task, split, examples, ensembles.average(members)
    )
    choosing = {task_results.read_results(one)["chosen_on"] for one in folders}
    results |= {
        # If it chose the checkpoint of any member, its score is too good.
        "chosen_on": split if split in choosing else results["chosen_on"],
        "members": folders,
        "calibration": calibration,
        "num_examples": {split: len(examples)},
        "left_out": problems.lines(),
        "scores": {split: scores} if scores else {},
    }
    task_results.write_results(output_dir, results)
    return results


def _calibrate(task: base.Task, folders: Sequence[str]) -> dict[str, float]:
    """Takes the mean of what each member found best, and returns it."""
    found = [task_folder.read_task(folder)["calibration"] for folder in folders]
    names = set.intersection(*map(set, found))
    mean = {name: statistics.fmean(values[name] for values in found) for name in names}
    task.use_calibration(mean)
    return mean


def _read_outputs(folder: str, split: str, examples: Sequence) -> outputs_lib.Outputs:
    for suffix in (".npz", ".json"):
        path = os.path.join(folder, f"outputs-{split}{suffix}")
        if files.exists(path):
            break
    else:
        raise ValueError(
            f"{folder} holds no outputs-{split}; make them with albert_tf.finetune, or "
            f"with albert_tf.evaluate --split={split}"
        )
    ids, outputs = outputs_lib.from_bytes(files.read_bytes(path))
    if ids != [example.id for example in examples]:
        raise ValueError(
            f"{path} is of other examples than those of --data_dir: their ids differ"
        )
    return outputs


def main(argv: Sequence[str], flag_values: flags.FlagValues = flags.FLAGS) -> None:
    """Averages what the flags say."""
    with binary.user_errors():
        binary.refuse_arguments(argv)
        results = combine(
            flag_values.runs,
            flag_values.data_dir,
            flag_values.split,
            flag_values.output_dir,
        )
    lines = task_results.lines(results["scores"], results["chosen_on"])
    print(
        "\n".join(
            [*results["left_out"], *lines, f"results are in {flag_values.output_dir}"]
        )
    )


if __name__ == "__main__":
    binary.run(main, define_flags)
