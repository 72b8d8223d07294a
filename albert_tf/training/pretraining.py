"""Pre-training: from records to checkpoints.

config = config_io.load("configs/demo.py")
metrics = pretraining.train(config, data_dir="records", model_dir="run")
"""

import contextlib
import dataclasses
from collections.abc import Sequence

import tensorflow as tf

from albert_tf.checkpoints import (
    branching,
    checkpoint_files,
    run_dir,
    run_lock,
    warm_start,
)
from albert_tf.core import config as config_lib
from albert_tf.core import stages
from albert_tf.data import input_pipeline, sources
from albert_tf.devices import peak_flops, strategies
from albert_tf.model import costs, pretraining_model
from albert_tf.training import (
    grammar_probe,
    guard,
    held_out,
    memory_check,
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
      data_dir: records and manifest, or the directories of `train.records`.
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
    reached = max(checkpoint_files.whole_steps(model_dir), default=0)
    memory_check.check(stages.split(config), strategy, reached)
    with (
        strategies.raise_worker_lost(strategy),
        run_lock.hold(model_dir, is_chief, preemption.exit_lost) as check_held,
    ):
        # ---- Data ----
        run = sources.read(data_dir, config)
        notes = run_dir.check(config, run, model_dir)
        vocab = run_dir.read_vocab(run[0].sources[0])
        branch, more = branching.find(
            options.branch_from, config, vocab, run, model_dir
        )
        notes += more
        silent = [records for records in run if records.unigram_entropy is None]
        notes += guard.notes((silent or run)[0].manifest)
        notes += sources.mask_notes(run)

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
            return input_pipeline.run_input_fn(
                run, step, branch.records_begin_at if branch else 0
            )

        def write_run_dir() -> None:
            if trainer.is_chief:
                if branch:
                    branching.write(branch, model_dir)
                run_dir.write(config, run, model_dir)

        with _naming_damaged_shards(run):
            return trainer.train(
                input_fn_at,
                _held_out_evaluation(trainer, run),
                write_run_dir,
                notes,
                options.profile_steps,
                check_held,
                probe,
            )


def evaluate(
    config: config_lib.Config, data_dir: str, model_dir: str
) -> dict[str, float]:
    """Evaluates the newest checkpoint of a run on held-out records.

    Args:
      config: of the run, with settings of `data` that fit the records.
      data_dir: records and manifest, or the directories of `train.records`; they may
        be others than those of the run.
      model_dir: the run.

    Returns:
      The metrics by name; those of the pair are of what the records have.

    Raises:
      ValueError: there is no checkpoint, nothing was held out, or records and
        configuration do not fit together.
    """
    run = sources.read(data_dir, config)
    trainer = make_trainer(config, model_dir)
    trainer.restore()
    evaluation = _held_out_evaluation(trainer, run)
    if trainer.restored_step is None:
        raise ValueError(f"{model_dir} must have a checkpoint; it has none")
    if evaluation is None:
        raise ValueError(f"the records of {data_dir} have none that are held out")
    with trainer.eval_weights():
        return evaluation.evaluate() or {}


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
    flops = [
        costs.recipe_costs(stage.config).step_flops for stage in stages.split(config)
    ]
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
            [step.forward + step.backward for step in flops],
            peak_flops.peak_flops(strategy, peak_teraflops),
        ),
    )


def _held_out_evaluation(
    trainer: trainer_lib.Trainer, run: Sequence[sources.StageRecords]
) -> trainer_lib.Evaluation | None:
    if not any(records.held_out() for records in run):
        return None
    evaluator = held_out.HeldOut(
        run, trainer.strategy, trainer.model, trainer.objective, trainer.signals
    )
    return trainer_lib.Evaluation(
        lambda: evaluator.evaluate(trainer.stage),
        describe=lambda metrics: evaluator.describe(trainer.stage, metrics),
        find_alarm=lambda rows: guard.find_alarm(
            rows, trainer.stage, run[trainer.stage.number - 1].manifest
        ),
    )


@contextlib.contextmanager
def _naming_damaged_shards(run: Sequence[sources.StageRecords]):
    """Names the damaged shard; TensorFlow only says that one is damaged."""
    try:
        yield
    except (tf.errors.DataLossError, tf.errors.InvalidArgumentError) as error:
        damaged = sources.damaged_shards(run)
        if not damaged:
            raise
        raise ValueError(
            f"{', '.join(damaged)} is damaged: its sha256 is not that of the "
            "manifest; copy or make the records again"
        ) from error
