"""Pre-training: from records to checkpoints.

config = config_io.load("configs/small.py", ["train.num_steps=600"])
metrics = pretraining.train(config, data_dir="records", model_dir="run")
"""

import contextlib
import dataclasses
import os

import tensorflow as tf

from albert_tf.checkpoints import branching, run_dir, run_lock, warm_start
from albert_tf.core import config as config_lib
from albert_tf.core import files
from albert_tf.data import input_pipeline, schema
from albert_tf.data import manifest as manifest_lib
from albert_tf.devices import peak_flops, strategies
from albert_tf.model import costs, pretraining_model
from albert_tf.training import (
    grammar_probe,
    guard,
    loops,
    objectives,
    preemption,
    throughput,
)
from albert_tf.training import trainer as trainer_lib


@dataclasses.dataclass(frozen=True)
class PretrainingOptions:
    """Options of a run that are not part of its recipe.

    Attributes:
      strategy: one of `kinds.STRATEGIES`.
      tpu: the TPU's address, as `strategies.create_strategy` takes it.
      init_checkpoint: run or checkpoint whose weights a new run starts with.
      weights: which of its weights, as in `checkpointer.weights_part`.
      branch_from: run or checkpoint that a new run continues.
      use_previous_checkpoint: whether to resume from an older checkpoint if the newest
        is damaged.
      profile_steps: the first and the last step to profile, if any.
      peak_teraflops: peak of one device in bfloat16; 0: that of the known device.
    """

    strategy: str = "auto"
    tpu: str = ""
    init_checkpoint: str = ""
    weights: str = config_lib.WEIGHTS[0]
    branch_from: str = ""
    use_previous_checkpoint: bool = False
    profile_steps: tuple[int, int] | None = None
    peak_teraflops: float = 0.0


def train(
    config: config_lib.Config,
    data_dir: str,
    model_dir: str,
    options: PretrainingOptions = PretrainingOptions(),
) -> dict[str, float]:
    """Trains to the last step of `config`, resuming from the newest checkpoint.

    Args:
      config: the recipe.
      data_dir: records and manifest.
      model_dir: checkpoints, config.json, vocab.model, metrics.jsonl, summaries/.
      options: devices and initial weights.

    Returns:
      The metrics of the last evaluation on held-out documents, by name; empty if
      nothing was held out.

    Raises:
      ValueError: records, configuration, devices or checkpoint do not fit together, or
        another run has the directory.
      FloatingPointError: the loss is not finite, or rose too far.
      guard.NoProgressError: `train.on_no_progress` ended the run, which is saved.
      preemption.Stopped: the process was asked to end, and has saved.
      strategies.WorkerLostError: another worker of the run is lost.
    """
    strategy = strategies.create_strategy(options.strategy, options.tpu)
    is_chief = strategies.is_chief(strategy)
    with (
        strategies.raise_worker_lost(strategy),
        run_lock.hold(model_dir, is_chief, preemption.exit_lost) as check_held,
    ):
        # ---- Data ----
        strategies.check_masking(strategy, config.data.masking)
        manifest = manifest_lib.read_manifest(data_dir)
        manifest_lib.check_manifest(data_dir, manifest, config)
        notes = run_dir.check(config, data_dir, manifest, model_dir)
        vocab = run_dir.read_vocab(data_dir, manifest)
        branch, more = branching.find(
            options.branch_from,
            config,
            vocab,
            files.read_bytes(os.path.join(data_dir, schema.MANIFEST_FILE)),
            model_dir,
        )
        notes += more
        notes += guard.notes(manifest)

        # ---- Model and optimizer ----
        trainer = make_trainer(config, model_dir, strategy, options.peak_teraflops)

        # ---- Restore: 1. the newest checkpoint 2. all of another run ----
        # ----          3. another run's weights 4. none               ----
        notes += trainer.restore(options.use_previous_checkpoint, branch)
        if trainer.restored_step is None and options.init_checkpoint and not branch:
            notes += warm_start.restore_weights(
                trainer.model, options.init_checkpoint, vocab, options.weights
            )

        probe = grammar_probe.make_probe(
            config,
            vocab,
            trainer.model,
            strategy,
            trainer.signals,
        )

        # ---- Loop, to the final save ----
        def input_fn_at(step: int) -> input_pipeline.InputFn:
            step = branch.data_step(step) if branch else step
            return input_pipeline.train_input_fn(data_dir, manifest, config, step)

        def write_run_dir() -> None:
            if trainer.is_chief:
                if branch:
                    branching.write(branch, model_dir)
                run_dir.write(config, data_dir, manifest, model_dir)

        with _naming_damaged_shards(data_dir, manifest):
            return trainer.train(
                input_fn_at,
                _held_out_evaluation(trainer, data_dir, manifest),
                write_run_dir,
                notes,
                options.profile_steps,
                check_held,
                probe,
            )


def make_trainer(
    config: config_lib.Config,
    model_dir: str = "",
    strategy: tf.distribute.Strategy | None = None,
    peak_teraflops: float = 0.0,
) -> trainer_lib.Trainer:
    """Returns a trainer of the recipe's pre-training model.

    Args:
      config: the recipe.
      model_dir: directory of the run.
      strategy: the devices; default: those that "auto" finds.
      peak_teraflops: as in `PretrainingOptions`.
    """
    strategy = strategy or strategies.create_strategy()
    flops = costs.recipe_costs(config).step_flops
    return trainer_lib.Trainer(
        config,
        model_dir,
        objectives.PretrainingObjective(config.data.pair_loss),
        lambda: pretraining_model.build_pretraining_model(
            config.model,
            config.train.seed,
            pretraining_model.compute_form(config.train),
        ),
        strategy,
        num_streams=config.train.num_streams or strategies.num_hosts(strategy),
        # Recomputed activations are not counted: the model does not ask for them.
        meter=throughput.Meter(
            flops.forward + flops.backward,
            peak_flops.peak_flops(strategy, peak_teraflops),
        ),
    )


def _held_out_evaluation(
    trainer: trainer_lib.Trainer, data_dir: str, manifest: schema.Manifest
) -> trainer_lib.Evaluation | None:
    if schema.HELDOUT not in manifest.splits:
        return None
    evaluate = loops.make_evaluation(
        trainer.strategy,
        trainer.model,
        trainer.config,
        trainer.objective,
        *input_pipeline.eval_input_fn(data_dir, manifest, trainer.config),
        trainer.signals,
    )

    def describe(values: dict[str, float]) -> str:
        accuracies = (
            f"{name.replace('_', ' ')} {value:.4f}"
            for name, value in values.items()
            if name.endswith("_accuracy")
        )
        return (
            f"MLM loss {values['mlm_loss']:.4f} nats (token frequencies alone: "
            f"{manifest.heldout_unigram_entropy:.4f}), {', '.join(accuracies)}"
        )

    return trainer_lib.Evaluation(
        evaluate,
        describe=describe,
        find_alarm=lambda rows: guard.find_alarm(rows, trainer.config, manifest),
    )


@contextlib.contextmanager
def _naming_damaged_shards(data_dir: str, manifest: schema.Manifest):
    """Names the damaged shard; TensorFlow only says that one is damaged."""
    try:
        yield
    except (tf.errors.DataLossError, tf.errors.InvalidArgumentError) as error:
        damaged = manifest_lib.damaged_shards(data_dir, manifest)
        if not damaged:
            raise
        raise ValueError(
            f"{', '.join(damaged)} is damaged: its sha256 is not that of the "
            "manifest; copy or make the records again"
        ) from error
