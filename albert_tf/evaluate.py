r"""Predicts and scores a split with any checkpoint of a fine-tuning run.

python -m albert_tf.evaluate --model_dir=mrpc --data_dir=glue_data/MRPC \
    --split=dev --output_dir=mrpc-again [--checkpoint=mrpc/model.ckpt-400]

writes answers, logits for ensembles, and predictions, as albert_tf.finetune does.

python -m albert_tf.evaluate --predictions=FILE --task=squad2 --data_dir=squad

scores predictions of SQuAD or GLUE that any model made, as their sites take them.
--compute_dtype=bfloat16, --openvino=DIRECTORY and --lite=DIRECTORY show the loss by
exporting a model.
"""

import dataclasses
from collections.abc import Sequence

from absl import flags

from albert_tf.checkpoints import flags as checkpoint_flags
from albert_tf.core import cli, command_line, config_io, files, recipes
from albert_tf.core import config as config_lib
from albert_tf.training import flags as flags_lib


def define_flags(flag_values: flags.FlagValues = flags.FLAGS) -> None:
    """Defines the flags in `flag_values`, so that tests can give each its own."""
    flags.DEFINE_string(
        "model_dir", None, "Directory of a run of albert_tf.finetune.", flag_values
    )
    flags.DEFINE_string("data_dir", None, "Directory of the task's files.", flag_values)
    flags.DEFINE_string("split", "dev", "Split to predict, such as test.", flag_values)
    flags.DEFINE_string("output_dir", None, "Directory to write.", flag_values)
    flags.DEFINE_string(
        "predictions",
        "",
        "File of predictions to score, without a model: predictions.json of SQuAD, or "
        "the .tsv of a task of GLUE. Goes with --task, --data_dir and --split alone.",
        flag_values,
    )
    flags.DEFINE_string(
        "task", "", "Task of --predictions, such as squad2 or mrpc.", flag_values
    )
    flags.DEFINE_string(
        "checkpoint", "", "Prefix of a checkpoint. Default: the best one.", flag_values
    )
    checkpoint_flags.define_weights(flag_values)
    flags.adopt_module_key_flags(checkpoint_flags, flag_values)
    flags.DEFINE_enum(
        "compute_dtype",
        None,
        config_lib.COMPUTE_DTYPES,
        "Computes as albert_tf.export with this flag; by default as the run did.",
        flag_values,
    )
    flags.DEFINE_string(
        "lite",
        "",
        "Directory that albert_tf.export --form=lite wrote of the run; evaluates that "
        "model instead of a checkpoint.",
        flag_values,
    )
    flags.DEFINE_string(
        "openvino",
        "",
        "Directory that albert_tf.export --form=openvino wrote of the run; evaluates "
        "that model instead of a checkpoint.",
        flag_values,
    )
    cli.define_data_settings(flag_values)
    flags_lib.define_devices(flag_values)
    flags.adopt_module_key_flags(flags_lib, flag_values)


def _require(flag_values: flags.FlagValues, names: Sequence[str], which: str) -> None:
    """Raises ValueError that names all of these flags that are not given.

    Args:
      flag_values: the parsed flags.
      names: of the flags.
      which: says more about them in the message.
    """
    missing = [f"--{name}" for name in names if not flag_values[name].value]
    if missing:
        named = command_line.joined(missing)
        raise ValueError(f"{named} must be given, {which}; --help lists the flags")


def _check_exported(flag_values: flags.FlagValues, name: str) -> None:
    """Raises ValueError if an exported model is named with what it determines."""
    others = ("checkpoint", "compute_dtype", *{"lite", "openvino"} - {name})
    if not flag_values[name].value:
        return
    if any(flag_values[other].value for other in others):
        raise ValueError(
            f"--{name} must be given without --checkpoint and --compute_dtype, which "
            "it was exported with, and without another exported model"
        )
    if flag_values.tpu or flag_values.strategy != "auto":
        raise ValueError(f"--{name} computes on this CPU; omit --strategy and --tpu")


def _check_run(flag_values: flags.FlagValues) -> None:
    """Raises ValueError if what evaluates a run is missing, or does not go together."""
    names = "model_dir", "data_dir", "output_dir"
    _require(flag_values, names, "or --predictions to score a file without a model")
    if flag_values.task:
        raise ValueError("--task must go with --predictions; a run has its own task")
    for name in ("lite", "openvino"):
        _check_exported(flag_values, name)
    exported = flag_values.lite or flag_values.openvino or flag_values.compute_dtype
    if flag_values.set and exported:
        raise ValueError(
            "--set must be given without --lite, --openvino and --compute_dtype, which "
            "read examples as the run does; fix the file instead, or fine-tune again "
            "with task.on_bad_example=skip"
        )
    cli.require_directories(flag_values, "model_dir", "data_dir", "lite", "openvino")
    cli.require_checkpoint(flag_values, "checkpoint")
    cli.check_output_dir(flag_values.output_dir, [flag_values.model_dir])


def _score_predictions(flag_values: flags.FlagValues) -> None:
    """Prints the scores of a file of predictions."""
    for name in ("model_dir", "output_dir", "checkpoint", "lite", "openvino"):
        if flag_values[name].value:
            raise ValueError(f"--predictions needs no model; omit --{name}")
    of_task = "which are a task of SQuAD or GLUE, such as squad2, and its files"
    _require(flag_values, ("task", "data_dir"), of_task)
    cli.require_directories(flag_values, "data_dir")
    path, task = flag_values.predictions, flag_values.task
    if not files.exists(path):
        raise ValueError(f"--predictions must be a file; there is no {path}")

    # Imported here: they take a second, and flags and files were checked.
    from albert_tf.finetuning import results_writer
    from albert_tf.tasks import prediction_files

    split = flag_values.split if flag_values["split"].present else ""
    settings = dataclasses.replace(config_lib.Config().task, name=task)
    recipe = f"finetune_{task}"
    if recipe in recipes.names():
        # As the recipe reads the files: that of QQP skips rows that are broken.
        settings = config_io.load(recipes.path_of(recipe), flag_values.set).task
    name, scores, majority = prediction_files.score(
        settings, flag_values.data_dir, split, path
    )
    shares = {} if majority is None else {name: majority}
    print("\n".join(results_writer.metric_lines({name: scores}, "", shares)))


def main(argv: Sequence[str], flag_values: flags.FlagValues = flags.FLAGS) -> None:
    """Evaluates what the flags name."""
    with cli.user_errors():
        cli.refuse_arguments(argv)
        config_io.check_data_settings(flag_values.set)
        if flag_values.predictions:
            _score_predictions(flag_values)
            return
        _check_run(flag_values)
        compute_dtype = flag_values.compute_dtype

        # Imported here: TensorFlow takes seconds, and flags and files were checked.
        from albert_tf.finetuning import evaluation, results_reader, results_writer
        from albert_tf.serving import evaluation as exported_evaluation

        flags_lib.split_cpu(flag_values)
        output_dir = flag_values.output_dir
        what = (
            results_reader.best_folder(flag_values.model_dir),
            flag_values.data_dir,
            flag_values.split,
            output_dir,
        )
        how = flag_values.checkpoint, flag_values.strategy, flag_values.tpu
        with flags_lib.exiting_early():
            engine = "lite" if flag_values.lite else "openvino"
            if exported_dir := flag_values[engine].value:
                results = exported_evaluation.evaluate_exported(
                    engine, exported_dir, *what
                )
            elif compute_dtype:
                results = exported_evaluation.evaluate_compute_dtype(
                    compute_dtype, *what, *how, flag_values.weights
                )
            else:
                results = evaluation.evaluate_checkpoint(
                    *what,
                    *how,
                    weights=flag_values.weights,
                    overrides=flag_values.set,
                )
    command = cli.next_command("albert_tf.report", output_dir)
    results_writer.print_results(results, output_dir, command)


if __name__ == "__main__":
    cli.run(main, define_flags)
