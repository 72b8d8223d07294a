"""Fine-tuning: from a pre-trained model and a task's files to scores.

config = config_io.load("configs/finetune_mrpc.py")
results = finetuning.fine_tune(config, "run", "glue_data/MRPC", "mrpc")
"""

import contextlib
import dataclasses
import functools
import os
import time
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from albert_tf.checkpoints import checkpointer as checkpointer_lib
from albert_tf.checkpoints import run_lock
from albert_tf.core import config as config_lib
from albert_tf.devices import strategies
from albert_tf.finetuning import batches as batches_lib
from albert_tf.finetuning import (
    hyperparameters,
    initialization,
    prediction,
    results_reader,
    results_writer,
    run_dir,
)
from albert_tf.model import pretraining_model, task_model
from albert_tf.tasks import base, registry
from albert_tf.tasks import examples as examples_lib
from albert_tf.tasks import features as features_lib
from albert_tf.tasks import predictions as predictions_lib
from albert_tf.tasks import splits as splits_lib
from albert_tf.training import loops, metrics_log, objectives, preemption
from albert_tf.training import trainer as trainer_lib

Predict = Callable[[splits_lib.TaskSplit], predictions_lib.Predictions | None]


@dataclasses.dataclass(frozen=True)
class FineTuningOptions:
    """Options of a run that are not part of its recipe.

    Attributes:
      strategy: one of `kinds.STRATEGIES`.
      tpu: the TPU's address, as `strategies.create_strategy` takes it.
      weights: which weights of the other run, as in `checkpointer.weights_part`.
      use_previous_checkpoint: whether to resume from an older checkpoint if the newest
        is damaged.
      profile_steps: the first and the last step to profile, if any.
      given_settings: the settings that --set gave, such as "data.lower_case"; those
        that would be ignored are refused.
    """

    strategy: str = "auto"
    tpu: str = ""
    weights: str = config_lib.WEIGHTS[0]
    use_previous_checkpoint: bool = False
    profile_steps: tuple[int, int] | None = None
    given_settings: tuple[str, ...] = ()


def fine_tune(
    config: config_lib.Config,
    init_checkpoint: str,
    data_dir: str,
    model_dir: str,
    cache_dir: str = "",
    num_seeds: int = 1,
    options: FineTuningOptions = FineTuningOptions(),
) -> dict[str, Any]:
    """Fine-tunes with one seed or several, resuming from the newest checkpoints.

    Args:
      config: the recipe; its `task.name` is set.
      init_checkpoint: as `initialization.read_pretrained_run` takes it.
      data_dir: the task's files.
      model_dir: directory to write to; with several seeds, a directory for each in it.
      cache_dir: keeps features; empty means `features` in `model_dir`.
      num_seeds: number of runs; their seeds count up from `train.seed`.
      options: devices and what to profile.

    Returns:
      The results of the run, or the summary of the seeds.

    Raises:
      ValueError: recipe, checkpoint, data or directory do not fit together, or another
        run has the directory.
      FloatingPointError: the loss is not finite, or rose too far.
      preemption.Stopped: the process was asked to end, and has saved.
      strategies.WorkerLostError: another worker of the run is lost.
    """
    cache_dir = cache_dir or default_cache_dir(model_dir)
    strategy = strategies.create_strategy(options.strategy, options.tpu)
    is_chief = strategies.is_chief(strategy)
    with (
        strategies.raise_worker_lost(strategy),
        run_lock.hold(model_dir, is_chief, preemption.exit_lost) as check_held,
    ):
        # ---- Pre-trained model and task ----
        pretrained = initialization.read_pretrained_run(
            init_checkpoint, options.weights
        )
        seed_dirs = {
            os.path.join(model_dir, name) if name else model_dir: seed
            for name, seed in _folders(config.train.seed, num_seeds).items()
        }
        recipe, recorded = config, run_dir.read_config(seed_dirs)
        if hyperparameters.is_auto(recipe):
            config = hyperparameters.fit_model(recipe, pretrained.config, recorded)
        config = initialization.merge(config, pretrained, options.given_settings)
        tokenizer = initialization.make_tokenizer(pretrained)
        task = registry.create(config.task)
        _check_settings(task)
        task.learn_labels(data_dir)
        config = _with_best_metric(config, task.metric_names)

        # ---- One run a seed ----
        run_dir.check_seeds(model_dir, _folders(config.train.seed, num_seeds))
        for seed_dir, seed in seed_dirs.items():
            with_seed = _with_seed(config, seed)
            run_dir.check(with_seed, pretrained.vocab, pretrained.path, seed_dir)

        # ---- Data, and the hyperparameters that follow from its size ----
        task_data = splits_lib.Loader(task, tokenizer, data_dir, cache_dir).load()
        notes = list(task.notes)
        if hyperparameters.is_auto(config):
            num_items = _batcher(task_data.train, task, tokenizer.pad_id).num_items
            config = hyperparameters.fit_data(config, num_items)
            notes += [hyperparameters.describe(recipe, config, num_items)]

        # ---- Train and predict ----
        results, signals = [], loops.Signals()
        for seed_dir, seed in seed_dirs.items():
            run = SeedRun(
                strategy,
                _with_seed(config, seed),
                pretrained,
                # Its own task: a task keeps what it was calibrated to.
                registry.create(config.task, task.labels),
                task_data,
                tokenizer.pad_id,
                notes,
                signals,
                options,
                check_held,
            )
            results.append((os.path.basename(seed_dir), run.run(seed_dir)))
        if num_seeds == 1:
            return results[0][1]
        return results_writer.summarize_seeds(model_dir, results, is_chief)


def default_cache_dir(model_dir: str) -> str:
    """Returns where a run keeps the features of its data."""
    return os.path.join(model_dir, "features")


def _check_settings(task: base.Task) -> None:
    """Raises ValueError if the task has a setting that it cannot take."""
    if task.kind == "span" and task.settings.num_lengths > 1:
        raise ValueError(
            f"task.num_lengths must be 1 for the task {task.settings.name}: as in the "
            "original, padding has a share in the scores of its answers, so that they "
            f"depend on the length; received {task.settings.num_lengths}"
        )


def _folders(first_seed: int, num_seeds: int) -> dict[str, int]:
    """Returns the name of each seed's directory; of a single run it is empty."""
    if num_seeds == 1:
        return {"": first_seed}
    seeds = range(first_seed, first_seed + num_seeds)
    return {f"seed-{seed}": seed for seed in seeds}


def _batcher(
    split: splits_lib.TaskSplit, task: base.Task, pad_id: int, num_lengths: int = 1
) -> batches_lib.FeatureBatcher:
    return batches_lib.FeatureBatcher(
        split.features,
        task.kind,
        pad_id,
        task.settings.max_seq_length,
        num_lengths=num_lengths,
    )


def _seconds(
    trainer: trainer_lib.Trainer, started: float, prediction_started: float
) -> float:
    """Returns the seconds of a run; one that only predicts again keeps those it has.

    Args:
      trainer: has trained.
      started: when this process began with the run, of `time.monotonic`.
      prediction_started: when it began to predict.
    """
    if trainer.restored_step == trainer.step:
        # A damaged file is about to be replaced.
        with contextlib.suppress(ValueError):
            before = results_reader.read_results_file(trainer.model_dir)
            if before and results_reader.last_step(before) == trainer.step:
                return before["seconds"]
    seconds = time.monotonic() - started
    if trainer.restored_step is not None:
        # Other processes took the first steps, and their seconds are in the rows.
        rows = metrics_log.read_metrics(trainer.model_dir)
        if rows:
            predicted = time.monotonic() - prediction_started
            seconds = rows[-1]["seconds"] + predicted
    return round(seconds, 1)


def _with_seed(config: config_lib.Config, seed: int) -> config_lib.Config:
    return dataclasses.replace(
        config, train=dataclasses.replace(config.train, seed=seed)
    )


def _with_best_metric(
    config: config_lib.Config, metrics: Sequence[str]
) -> config_lib.Config:
    """Returns the recipe with the name of the metric that selects the checkpoint."""
    name = config.train.best_metric or metrics[0]
    if name not in metrics:
        raise ValueError(
            f"train.best_metric must be one of {', '.join(metrics)} for the task "
            f"{config.task.name}, or empty for the first; received {name!r}"
        )
    return dataclasses.replace(
        config, train=dataclasses.replace(config.train, best_metric=name)
    )


@dataclasses.dataclass(frozen=True)
class SeedRun:
    """The run of one seed.

    Attributes:
      strategy: the devices.
      config: the recipe, merged with `pretrained`.
      pretrained: the pre-trained model.
      task: with its labels.
      task_data: its examples and features.
      pad_id: of <pad>.
      notes: lines for the log.
      signals: of this process: a request to end holds for the next seed too.
      options: those of `fine_tune`.
      check_held: as `trainer.Trainer.train` takes it.
    """

    strategy: tf.distribute.Strategy
    config: config_lib.Config
    pretrained: initialization.PretrainedRun
    task: base.Task
    task_data: splits_lib.TaskData
    pad_id: int
    notes: Sequence[str]
    signals: loops.Signals
    options: FineTuningOptions
    check_held: Callable[[], None]

    def run(self, model_dir: str) -> dict[str, Any]:
        """Trains to the end, and predicts with the best checkpoint.

        Args:
          model_dir: directory of the run, from whose newest checkpoint it resumes.

        Returns:
          The content of results.json.

        Raises:
          As `fine_tune`.
        """
        started = time.monotonic()
        # ---- Data ----
        digest = features_lib.digest(self.task_data.train.features)
        selection = self.task_data.selection
        selecting = examples_lib.digest(
            selection.examples if selection else [], with_labels=True
        )
        run_dir.check_data(self.task, digest, selecting, model_dir)
        num_lengths = self.config.task.num_lengths
        batcher = _batcher(self.task_data.train, self.task, self.pad_id, num_lengths)

        # ---- Model and optimizer ----
        trainer = self._make_trainer(model_dir, batcher.lengths)

        # ---- Restore: 1. the newest checkpoint 2. the pre-trained encoder ----
        notes = [*self.notes, self._describe_data(batcher), *self.task_data.notes]
        notes += trainer.restore(self.options.use_previous_checkpoint)
        if trainer.restored_step is None:
            notes += self._initialize(trainer.model)

        # ---- Loop, to the final save ----
        predict = self._make_predict(trainer.model)

        def input_fn_at(step: int):
            return batches_lib.train_input_fn(batcher, self.config.train, step)

        def write_run_dir() -> None:
            if trainer.is_chief:
                run_dir.write(
                    self.config,
                    self.pretrained.vocab,
                    self.task,
                    self.pretrained.path,
                    digest,
                    model_dir,
                    selecting,
                )

        trainer.train(
            input_fn_at,
            self._make_evaluation(predict),
            write_run_dir,
            notes,
            self.options.profile_steps,
            self.check_held,
        )

        # ---- Results, of the best checkpoint ----
        return self._write_results(trainer, predict, started)

    def _make_trainer(
        self, model_dir: str, lengths: Sequence[int]
    ) -> trainer_lib.Trainer:
        train = self.config.train
        return trainer_lib.Trainer(
            self.config,
            model_dir,
            objectives.TaskObjective(self.task.kind, lengths),
            lambda: task_model.build_task_model(
                self.config.model,
                self.task.kind,
                train.seed,
                pretraining_model.compute_form(train),
                **self.task.head_settings(),
            ),
            self.strategy,
            self.signals,
            layer_rate_decay=self.config.task.layer_decay,
        )

    def _write_results(
        self, trainer: trainer_lib.Trainer, predict: Predict, started: float
    ) -> dict[str, Any]:
        """Predicts with the best checkpoint, and writes results.json on the chief."""
        prediction_started = time.monotonic()
        model_dir, best = trainer.model_dir, trainer.checkpointer.best
        best_path = checkpointer_lib.best_path(model_dir)
        if best_path is not None:
            # Those that were evaluated when it was found to be the best.
            checkpointer_lib.restore_parts(
                best_path, self.config.train.eval_weights, model=trainer.model
            )
        with (
            contextlib.nullcontext() if best_path else trainer.eval_weights(),
            preemption.StopRequest(self.signals.stop) as request,
            trainer.watch_prediction("the prediction with the best checkpoint"),
        ):
            try:
                calibration, scores = self._predict_all(
                    predict, model_dir, trainer.is_chief
                )
            except InterruptedError as error:
                raise preemption.Stopped(request.exit_code, trainer.step) from error
            strategies.leave_together(self.strategy)
            init_checkpoint = self.pretrained.path
            if trainer.is_chief:
                init_checkpoint = run_dir.read_task(model_dir)["init_checkpoint"]
            results = {
                **self._describe(),
                "init_checkpoint": init_checkpoint,
                "calibration": calibration,
                # Below num_steps if patience ended the run.
                "last_step": trainer.step,
                "best_step": best["step"] if best else trainer.step,
                "best_value": best["metric"] if best else None,
                "scores": scores,
                "seconds": _seconds(trainer, started, prediction_started),
            }
            if trainer.is_chief:
                results_writer.write_results(model_dir, results)
        return results

    def _describe(self) -> dict[str, Any]:
        """Returns the entries of results.json that are known before training."""
        config, selection = self.config, self.task_data.selection
        return {
            "task": config.task.name,
            "kind": self.task.kind,
            "labels": list(self.task.labels),
            "seed": config.train.seed,
            "initial_weights": config.task.initial_weights,
            "num_steps": config.train.num_steps,
            "best_metric": config.train.best_metric,
            "selected_on": selection.name if selection else "",
            "num_examples": {
                split.name: len(split.examples)
                for split in (self.task_data.train, *self.task_data.eval_splits)
            },
            "left_out": list(self.task_data.notes),
            results_writer.MAJORITY: results_writer.majority_of(
                {split.name: split.examples for split in self.task_data.eval_splits}
            ),
        }

    def _initialize(self, model: task_model.TaskModel) -> list[str]:
        if self.config.task.initial_weights == "random":
            return ["all weights are random: task.initial_weights=random"]
        return initialization.restore_encoder(model, self.pretrained)

    def _describe_data(self, batcher: batches_lib.FeatureBatcher) -> str:
        run = self.config.train
        passes = run.num_steps * run.batch_size / batcher.num_items
        lengths = " or ".join(str(length) for length in batcher.lengths)
        return (
            f"{self.config.task.name}, seed {run.seed}: "
            f"{len(self.task_data.train.examples):,} training examples as "
            f"{batcher.num_items:,} items of {lengths} tokens "
            f"({batcher.padding(run):.1%} padding), {passes:.1f} epochs"
        )

    def _make_predict(self, model) -> Predict:
        """Returns a function that predicts a split; None if asked to end."""

        @functools.cache
        def make_predict(split_name: str) -> prediction.Predict:
            return prediction.make_predict(
                self.strategy,
                model,
                _batcher(splits[split_name], self.task, self.pad_id),
                self.config.train.eval_batch_size,
                self.config.train.jit_compile,
                self.signals,
            )

        splits = {split.name: split for split in self.task_data.eval_splits}
        if self.task_data.selection is not None:
            splits[self.task_data.selection.name] = self.task_data.selection

        def predict(split: splits_lib.TaskSplit) -> predictions_lib.Predictions | None:
            found = make_predict(split.name)()
            if found is None:
                return None
            return self.task.postprocess(split.examples, split.features, found)

        return predict

    def _make_evaluation(self, predict: Predict) -> trainer_lib.Evaluation | None:
        """Returns the evaluation on the split that selects the checkpoint, if any."""
        split = self.task_data.selection
        if split is None:
            return None

        def evaluate() -> dict[str, float] | None:
            predictions = predict(split)
            if predictions is None:
                return None
            return self.task.compute_metrics(split.examples, predictions)

        return trainer_lib.Evaluation(
            evaluate,
            split.name,
            at_start=False,
            patience=self.config.task.patience,
            describe=_scores_line,
        )

    def _predict_all(
        self, predict: Predict, model_dir: str, is_chief: bool
    ) -> tuple[dict[str, float], results_writer.MetricsBySplit]:
        """Predicts and writes all splits; returns calibration and scores.

        Raises:
          InterruptedError: the process was asked to end.
        """
        selection, known = self.task_data.selection, {}
        calibration: dict[str, float] = {}
        if selection is not None:
            known[selection.name] = _whole(predict(selection))
            calibration = self.task.calibrate(selection.examples, known[selection.name])
            if is_chief and calibration:
                run_dir.add_calibration(model_dir, calibration)
        scores: results_writer.MetricsBySplit = {}
        for split in self.task_data.eval_splits:
            predictions = known.get(split.name) or _whole(predict(split))
            if not is_chief:
                continue
            found = results_writer.write_split(
                model_dir, self.task, split.name, split.examples, predictions
            )
            if found:
                scores[split.name] = found
        return calibration, scores


def _whole(found: predictions_lib.Predictions | None) -> predictions_lib.Predictions:
    if found is None:
        raise InterruptedError(
            "the predictions were interrupted; the same command resumes"
        )
    return found


def _scores_line(scores: dict[str, float]) -> str:
    return ", ".join(
        f"{name.replace('_', ' ')} {value:.4f}" for name, value in scores.items()
    )
