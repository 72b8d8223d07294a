"""Predicts and scores a split with any checkpoint of a fine-tuning.

python -m albert_tf.evaluate --model_dir=mrpc --data_dir=glue_data/MRPC \
    --split=dev --output_dir=mrpc-again [--checkpoint=mrpc/model.ckpt-400]

writes answers, outputs for ensembles, and predictions, as albert_tf.finetune does. What
an exported model loses, --compute_dtype=bfloat16 and --lite=FOLDER show.
"""

import os
from collections.abc import Sequence
from typing import Any

from absl import flags

from albert_tf import (
    binary,
    checkpoint,
    distribution,
    files,
    lite,
    models,
    schema,
    task_folder,
    task_input,
    task_predictions,
    task_results,
    task_runs,
    train_loop,
    training_flags,
)
from albert_tf import config as config_lib
from albert_tf.tasks import data
from albert_tf.tasks import rows as rows_lib


def define_flags(flag_values: flags.FlagValues = flags.FLAGS) -> None:
    """Defines the flags: here, so that another binary's can live in one process."""
    flags.DEFINE_string(
        "model_dir", None, "Folder of a run of albert_tf.finetune.", flag_values
    )
    flags.DEFINE_string("data_dir", None, "Folder of the task's files.", flag_values)
    flags.DEFINE_string("split", "dev", "Which examples, such as test.", flag_values)
    flags.DEFINE_string("output_dir", None, "Folder to write.", flag_values)
    flags.DEFINE_string(
        "checkpoint", "", "Prefix of a checkpoint. Default: the best one.", flag_values
    )
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
        "Folder that albert_tf.export --form=lite wrote of the run, which is scored "
        "instead of a checkpoint.",
        flag_values,
    )
    training_flags.define_devices(flag_values)
    flags.adopt_module_key_flags(training_flags, flag_values)
    flags.mark_flags_as_required(["model_dir", "data_dir", "output_dir"], flag_values)


def evaluate(
    model_dir: str,
    data_dir: str,
    split: str,
    output_dir: str,
    checkpoint_path: str = "",
    compute_dtype: str | None = None,
    lite_dir: str = "",
    strategy_kind: str = "auto",
    tpu: str = "",
) -> dict[str, Any]:
    """Predicts a split, and writes what was found.

    Args:
      model_dir: of the run, or of one of its seeds.
      data_dir: with the task's files.
      split: such as "dev".
      output_dir: another folder.
      checkpoint_path: empty means the best.
      compute_dtype: computes as a model that is exported with it; None means as the
        run did.
      lite_dir: what albert_tf.export --form=lite wrote of the run, to be scored
        instead; empty for none.
      strategy_kind: as `distribution.create_strategy` takes it.
      tpu: as `distribution.create_strategy` takes it.

    Returns:
      What results.json holds; without scores on a worker that does not write.

    Raises:
      ValueError: folder, checkpoint or data do not fit.
    """
    if output_dir.rstrip("/") == model_dir.rstrip("/"):
        raise ValueError(
            "--output_dir must be another folder than --model_dir, whose own results "
            f"would be lost; received {output_dir}"
        )
    if lite_dir and (checkpoint_path or compute_dtype):
        raise ValueError(
            "--lite must be given without --checkpoint and --compute_dtype, which it "
            "was exported with"
        )
    lite_model = lite.LiteModel(lite_dir) if lite_dir else None
    strategy = distribution.create_strategy(strategy_kind, tpu)
    distribution.check_python_batches(strategy)
    results = task_results.read_results(model_dir)
    if lite_dir:
        _check_same_task(model_dir, lite_dir)
    tuned = task_folder.read(lite_dir or model_dir)
    names = (*tuned.task.dev_splits, *tuned.task.test_splits)
    if split not in names:
        raise ValueError(
            f"--split must be one of {', '.join(names)}; received {split!r}"
        )
    run = tuned.config.train
    loader = data.Loader(tuned.task, tuned.tokenizer, data_dir, "")
    if lite_model is not None:
        found = loader.read_split(split)
        batcher = _make_batcher(tuned, found.rows, is_fixed_length=True)
        predict = task_predictions.make_lite_predict(
            lite_model, batcher, run.eval_batch_size
        )
    else:
        path = checkpoint_path or checkpoint.best_path(model_dir)
        if not path:
            raise ValueError(f"{model_dir} holds no best checkpoint; give --checkpoint")
        form, cast = models.compute_form(run), None
        if compute_dtype:
            form = models.serving_form(compute_dtype)
        with strategy.scope():
            model = tuned.build_model(form)
            checkpoint.restore_parts(path, model=model)
            if compute_dtype:
                cast = model.encoder.cast_blocks()
        results["best_step"] = checkpoint.step_of(path)
        found = loader.read_split(split)
        predict = task_predictions.make_predict(
            strategy,
            model,
            _make_batcher(tuned, found.rows),
            run.eval_batch_size,
            "off" if compute_dtype else run.jit_compile,
            train_loop.Signals(),
            cast,
        )
    with distribution.noticing_lost_workers(strategy):
        predicted = predict()
    if predicted is None:
        raise InterruptedError("the process was asked to end")
    outputs = tuned.task.collect(found.examples, found.rows, predicted)
    if not distribution.is_chief(strategy):
        return {"scores": {}, "chosen_on": "", "left_out": []}
    task_folder.copy(model_dir, output_dir)
    scores = task_results.write_split(
        output_dir, tuned.task, split, found.examples, outputs
    )
    results |= {
        "num_examples": {split: len(found.examples)},
        "left_out": loader.left_out,
        "scores": {split: scores} if scores else {},
    }
    task_results.write_results(output_dir, results)
    return results


def _check_same_task(model_dir: str, lite_dir: str) -> None:
    """Raises ValueError where a folder was not exported from a run such as this."""
    for name in (task_folder.TASK_FILE, schema.VOCAB_FILE):
        ours, other = (
            files.read_bytes(os.path.join(folder, name))
            for folder in (model_dir, lite_dir)
        )
        if ours != other:
            raise ValueError(
                f"--lite must be exported from --model_dir; {name} differs between "
                f"{lite_dir} and {model_dir}"
            )


def _make_batcher(
    tuned: task_folder.FineTuned, rows: rows_lib.Rows, is_fixed_length: bool = False
) -> task_input.Batcher:
    """Batches of rows, padded as the run's or to one length."""
    return task_input.Batcher(
        rows,
        tuned.task.kind,
        tuned.tokenizer.pad_id,
        tuned.config.task.max_seq_length,
        is_fixed_length,
    )


def main(argv: Sequence[str], flag_values: flags.FlagValues = flags.FLAGS) -> None:
    """Evaluates what the flags say."""
    with binary.user_errors():
        binary.refuse_arguments(argv)
        training_flags.split_cpu(flag_values)
        with training_flags.exiting_early():
            results = evaluate(
                task_runs.best_folder(flag_values.model_dir),
                flag_values.data_dir,
                flag_values.split,
                flag_values.output_dir,
                flag_values.checkpoint,
                flag_values.compute_dtype,
                flag_values.lite,
                flag_values.strategy,
                flag_values.tpu,
            )
    lines = task_results.lines(results["scores"], results["chosen_on"])
    print(
        "\n".join(
            [*results["left_out"], *lines, f"results are in {flag_values.output_dir}"]
        )
    )


if __name__ == "__main__":
    binary.run(main, define_flags)
