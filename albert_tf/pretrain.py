"""Pre-trains ALBERT on records made by data_prep.create_pretraining_data.

python -m albert_tf.pretrain --config=configs/albert_base.py \
    --data_dir=RECORDS --model_dir=RUN [--set train.batch_size=512 ...]

The same command goes on where a run was interrupted.
"""

import contextlib
import hashlib
import math
import os
import time
from collections.abc import Sequence

import tensorflow as tf
from absl import flags

from albert_tf import (
    binary,
    checkpoint,
    distribution,
    input_pipeline,
    models,
    optimizer,
    run_log,
    schema,
    train_loop,
)
from albert_tf import config as config_lib


def define_flags(flag_values: flags.FlagValues = flags.FLAGS) -> None:
    """Defines the flags: here, so that another binary's can live in one process."""
    flags.DEFINE_string(
        "config", "", "Recipe (configs/NAME.py) or a config.json.", flag_values
    )
    flags.DEFINE_multi_string(
        "set", [], "Changes one setting: key.sub=value. Repeatable.", flag_values
    )
    flags.DEFINE_string(
        "data_dir", None, "Folder of records with their manifest.json.", flag_values
    )
    flags.DEFINE_string(
        "model_dir", None, "Folder for checkpoints, metrics and summaries.", flag_values
    )
    flags.mark_flags_as_required(["data_dir", "model_dir"], flag_values)


def train(config: config_lib.Config, data_dir: str, model_dir: str) -> dict[str, float]:
    """Trains to the last step of `config`, going on from the newest checkpoint.

    Args:
      config: the whole recipe.
      data_dir: records and manifest.
      model_dir: checkpoints, config.json, vocab.model, metrics.jsonl, summaries/.

    Returns:
      The metrics of the last evaluation on held-out documents, by name; empty where
      nothing was held out.

    Raises:
      ValueError: records, configuration or checkpoint do not fit together.
      FloatingPointError: the loss is not finite.
    """
    run = config.train

    # ---- Data ----
    manifest = input_pipeline.read_manifest(data_dir)
    input_pipeline.check_manifest(data_dir, manifest, config)
    prepare_model_dir(config, data_dir, manifest, model_dir)

    # ---- Model and optimizer ----
    strategy = distribution.create_strategy()
    with strategy.scope():
        model = models.build_pretraining_model(
            config.model, run.seed, models.compute_form(run)
        )
        adam = optimizer.create(
            config.optimizer, run.num_steps, compiled=model.compute.islands
        )
        adam.build(model.trainable_variables)

    # ---- Restore ----
    checkpointer = checkpoint.Checkpointer(model_dir, model, adam, run.keep_checkpoints)
    step = first_step = checkpointer.restore_latest()
    if first_step > run.num_steps:
        raise ValueError(
            f"train.num_steps must not lie before the checkpoint's step {first_step}; "
            f"received {run.num_steps}. Give more steps or another --model_dir"
        )
    log = run_log.RunLog(model_dir, first_step, run.num_steps)
    log.say(adam.describe(model.trainable_variables))

    # ---- Step and evaluation ----
    loop = train_loop.make_train_loop(
        strategy,
        train_loop.make_train_step(model, adam, config),
    )
    evaluate = _held_out_evaluation(config, data_dir, manifest, model)
    input_fn = input_pipeline.train_input_fn(data_dir, manifest, config, first_step)
    batches = iter(distribution.distribute_dataset(strategy, input_fn))

    # ---- Loop ----
    held_out = {}
    with _naming_damaged_shards(data_dir, manifest):
        if step == 0:
            checkpointer.save()
            held_out = _record_held_out(evaluate, log, step, manifest)
        elif step == run.num_steps and evaluate:
            log.say(f"step {step} is the last one: nothing is left to train")
            held_out = evaluate()
        while step < run.num_steps:
            started = time.monotonic()
            num_steps = _steps_to_next_stop(step, run)
            sums = loop(batches, tf.constant(num_steps))
            step += num_steps
            values = _train_metrics(sums, adam, started, config.data.pair_loss)
            log.record(schema.TRAIN, step, values)
            log.progress(step, _shown(values))
            _stop_if_not_finite(values, step, model_dir)
            if step % run.eval_every_steps == 0 or step == run.num_steps:
                held_out = _record_held_out(evaluate, log, step, manifest)
            if step % run.save_every_steps == 0 or step == run.num_steps:
                checkpointer.save()
    log.close()
    return held_out


def prepare_model_dir(
    config: config_lib.Config,
    data_dir: str,
    manifest: schema.Manifest,
    model_dir: str,
) -> None:
    """Makes `model_dir` with config.json and the vocabulary, or checks what is there.

    Raises:
      ValueError: it holds a run of another model or vocabulary, or cannot be written.
    """
    vocab = _read_vocab(data_dir, manifest)
    config_path = os.path.join(model_dir, schema.CONFIG_FILE)
    if tf.io.gfile.exists(config_path):
        with tf.io.gfile.GFile(config_path) as file:
            before = config_lib.from_json(file.read())
        for section in ("model", "optimizer"):
            if getattr(before, section) != getattr(config, section):
                raise ValueError(
                    f"{model_dir} holds a run with other settings of {section}: "
                    f"{_differences(before, config, section)}. Give another "
                    "--model_dir, or the settings of that run"
                )
    vocab_path = os.path.join(model_dir, schema.VOCAB_FILE)
    if tf.io.gfile.exists(vocab_path):
        with tf.io.gfile.GFile(vocab_path, "rb") as file:
            if file.read() != vocab:
                raise ValueError(
                    f"{model_dir} holds a run with another vocabulary than that of the "
                    f"records in {data_dir}. Give another --model_dir, or the records "
                    "of that run"
                )
    try:
        tf.io.gfile.makedirs(model_dir)
        with tf.io.gfile.GFile(config_path, "w") as file:
            file.write(config_lib.to_json(config))
        with tf.io.gfile.GFile(vocab_path, "wb") as file:
            file.write(vocab)
    except tf.errors.OpError as error:
        raise ValueError(
            f"--model_dir must be a folder that can be written: {error.message}"
        ) from error


def _read_vocab(data_dir: str, manifest: schema.Manifest) -> bytes:
    path = os.path.join(data_dir, schema.VOCAB_FILE)
    if not tf.io.gfile.exists(path):
        raise ValueError(
            f"records must lie beside their vocabulary; there is no {path}. Copy it "
            "there, or make the records anew"
        )
    with tf.io.gfile.GFile(path, "rb") as file:
        vocab = file.read()
    if hashlib.sha256(vocab).hexdigest() != manifest.vocab_sha256:
        raise ValueError(
            f"{path} is not the vocabulary that the records were made with: its "
            "sha256 is not that of the manifest. Put that one back, or make the "
            "records anew"
        )
    return vocab


def _differences(before, after, section: str) -> str:
    old = config_lib.to_dict(before)[section]
    new = config_lib.to_dict(after)[section]
    return ", ".join(
        f"{section}.{key} was {old[key]} and is {new[key]}"
        for key in old
        if old[key] != new[key]
    )


def _held_out_evaluation(config, data_dir: str, manifest: schema.Manifest, model):
    """A function that evaluates the model on what was held out, or None."""
    if schema.HELDOUT not in manifest.splits:
        return None
    batches = input_pipeline.eval_dataset(data_dir, manifest, config)
    evaluate = train_loop.make_evaluation(model, config)
    return lambda: evaluate(batches)


def _record_held_out(evaluate, log: run_log.RunLog, step: int, manifest) -> dict:
    if evaluate is None:
        return {}
    values = evaluate()
    log.record(schema.HELDOUT, step, values)
    log.say(
        f"step {step}, held out: MLM loss {values['mlm_loss']:.4f} nats (token "
        f"frequencies alone: {manifest.heldout_unigram_entropy:.4f}), "
        + ", ".join(
            f"{name.replace('_', ' ')} {value:.4f}"
            for name, value in values.items()
            if name.endswith("_accuracy")
        )
    )
    return values


def _steps_to_next_stop(step: int, run: config_lib.TrainConfig) -> int:
    """Steps to take before the host must save, evaluate, report or end."""
    periods = (run.steps_per_loop, run.save_every_steps, run.eval_every_steps)
    return min(run.num_steps - step, *(every - step % every for every in periods))


def _train_metrics(
    sums, adam: optimizer.AdamW, started: float, pair_loss: str
) -> dict[str, float]:
    sums = {name: float(value) for name, value in sums.items()}  # waits for the device
    return {
        **train_loop.metrics(sums, pair_loss),
        "gradient_norm": sums["gradient_norm"],
        "learning_rate": float(adam.learning_rate),
        "tokens_per_second": sums["num_tokens"] / (time.monotonic() - started),
    }


def _shown(values: dict[str, float]) -> dict[str, float]:
    losses = {
        name.removesuffix("_loss").replace("_", " "): value
        for name, value in values.items()
        if name.endswith("_loss")
    }
    return {**losses, "tokens/s": values["tokens_per_second"]}


def _stop_if_not_finite(values: dict[str, float], step: int, model_dir: str) -> None:
    for name, value in values.items():
        if not math.isfinite(value):
            raise FloatingPointError(
                f"{name} is {value} at step {step}; the last good checkpoint is "
                f"{tf.train.latest_checkpoint(model_dir)}. A smaller "
                "optimizer.learning_rate or a longer warmup often helps"
            )


@contextlib.contextmanager
def _naming_damaged_shards(data_dir: str, manifest: schema.Manifest):
    """Says which shard is damaged; TensorFlow only says that one is."""
    try:
        yield
    except (tf.errors.DataLossError, tf.errors.InvalidArgumentError) as error:
        damaged = input_pipeline.damaged_shards(data_dir, manifest)
        if not damaged:
            raise
        raise ValueError(
            f"{', '.join(damaged)} is damaged: its sha256 is not that of the "
            "manifest; copy or make the records anew"
        ) from error


def main(argv: Sequence[str], flag_values: flags.FlagValues = flags.FLAGS) -> None:
    """Runs `train` with the flags' values."""
    with binary.user_errors():
        binary.refuse_arguments(argv)
        held_out = train(
            config_lib.load(flag_values.config, flag_values.set),
            flag_values.data_dir,
            flag_values.model_dir,
        )
    for name, value in held_out.items():
        print(f"held-out {name} {value:.4f}")


if __name__ == "__main__":
    binary.run(main, define_flags)
