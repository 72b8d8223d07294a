"""Predicts and scores a split with any checkpoint of a fine-tuning run.

python -m albert_tf.evaluate --model_dir=mrpc --data_dir=glue_data/MRPC \
    --split=dev --output_dir=mrpc-again [--checkpoint=mrpc/model.ckpt-400]

writes answers, logits for ensembles, and predictions, as albert_tf.finetune does.
--compute_dtype=bfloat16, --openvino=DIRECTORY and --lite=DIRECTORY show the loss by
exporting a model.
"""

from collections.abc import Sequence

from absl import flags

from albert_tf.checkpoints import flags as checkpoint_flags
from albert_tf.core import cli
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
    flags_lib.define_devices(flag_values)
    flags.adopt_module_key_flags(flags_lib, flag_values)
    flags.mark_flags_as_required(["model_dir", "data_dir", "output_dir"], flag_values)


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


def main(argv: Sequence[str], flag_values: flags.FlagValues = flags.FLAGS) -> None:
    """Evaluates what the flags name."""
    with cli.user_errors():
        cli.refuse_arguments(argv)
        compute_dtype = flag_values.compute_dtype
        for name in ("lite", "openvino"):
            _check_exported(flag_values, name)
        cli.require_directories(
            flag_values, "model_dir", "data_dir", "lite", "openvino"
        )
        cli.require_checkpoint(flag_values, "checkpoint")
        cli.check_output_dir(flag_values.output_dir, [flag_values.model_dir])

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
                    *what, *how, weights=flag_values.weights
                )
    results_writer.print_results(results, output_dir)


if __name__ == "__main__":
    cli.run(main, define_flags)
