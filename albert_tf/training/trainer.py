"""Trainer: one run from its newest checkpoint to its last step.

    trainer = Trainer(config, "run", objective, build_model)
    trainer.restore()
    trainer.train(input_fn_at, Evaluation(evaluate))

Pre-training, fine-tuning and the benchmarks differ in what they pass to it.
"""

import contextlib
import dataclasses
import math
import os
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import tensorflow as tf
import tf_keras

from albert_tf.checkpoints import branching
from albert_tf.checkpoints import checkpointer as checkpointer_lib
from albert_tf.core import config as config_lib
from albert_tf.core import failures, provenance
from albert_tf.core import stages as stages_lib
from albert_tf.data import input_pipeline, schema
from albert_tf.devices import strategies
from albert_tf.optim import averaging, layer_decay, optimizers
from albert_tf.probing import settings
from albert_tf.training import (
    compute_dtype,
    forecast,
    guard,
    hangs,
    loops,
    loss_scale,
    metrics_log,
    objectives,
    preemption,
    profiling,
    saving,
    stage_steps,
    throughput,
    train_step,
    trust_ratios,
    watchdog,
)

Metrics = dict[str, float]

# For so long the chief is the only one that ends a run that hangs. Longer than it takes
# the chief to notice, and to write which step it was.
_WORKER_GRACE_SECONDS = 60.0


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """An evaluation between steps, and how it is recorded.

    Attributes:
      evaluate: returns metrics by name, or None if the process was asked to end. If
        `train.best_metric` is among them, the checkpoint with the best is kept.
      split: the name of what is evaluated, in metrics.jsonl.
      at_start: whether to evaluate before the first step too.
      patience: the run ends after this many evaluations without a better
        `train.best_metric`, which `evaluate` must return then; 0 for no early stopping.
      describe: formats the metrics as a line.
      find_alarm: judges by the rows of metrics.jsonl whether the run learns.
    """

    evaluate: Callable[[], Metrics | None]
    split: str = schema.HELDOUT
    at_start: bool = True
    patience: int = 0
    describe: Callable[[Metrics], str] = str
    find_alarm: Callable[[guard.Rows], guard.Alarm | None] = lambda rows: None


class Trainer:
    """Owns model, optimizer, state, checkpoints, loops, signals and metrics of a run.

    Attributes:
      config: the recipe.
      strategy: the devices.
      model: the model.
      optimizer: its optimizer, with the schedule.
      average: the average of its weights, or None without `train.ema_decay`.
      objective: what training minimizes.
      loss_scale: that of float16, or None.
      state: what the loop carries from step to step.
      signals: between host and loop; `signals.stop` ends the run.
      is_chief: whether this process writes checkpoints and metrics.
      stages: those of the recipe; one if it names none.
      step: steps so far, skipped ones included.
      first_step: the step at which the run began; above 0 if it is a branch.
      restored_step: the step of the restored checkpoint, or None.
      checkpointer: saves the run; made by `restore`.
    """

    checkpointer: checkpointer_lib.Checkpointer

    def __init__(
        self,
        config: config_lib.Config,
        model_dir: str,
        objective: objectives.Objective,
        build_model: Callable[[], tf_keras.Model],
        strategy: tf.distribute.Strategy | None = None,
        signals: loops.Signals | None = None,
        num_streams: int = 1,
        meter: throughput.Meter | None = None,
        layer_rate_decay: float = 1.0,
    ):
        """Builds model, optimizer and state on the devices.

        Args:
          config: the recipe.
          model_dir: directory of checkpoints, metrics and summaries.
          objective: what to minimize.
          build_model: returns the model; called in the strategy's scope.
          strategy: the devices; default: those that "auto" finds.
          signals: given where several runs of a process end together.
          num_streams: the number of streams of records that make a batch.
          meter: counts FLOPs; default: one that counts steps and tokens only.
          layer_rate_decay: factor of the learning rate from a layer to the one below.
        """
        self.config, self.model_dir, self.objective = config, model_dir, objective
        self.stages = stages_lib.split(config)
        self.strategy = strategy or strategies.create_strategy()
        self.is_chief = strategies.is_chief(self.strategy)
        self.loss_scale: loss_scale.LossScale | None = None
        self._dtype_note = compute_dtype.check(
            config.train.compute_dtype, self.strategy
        )
        if config.train.compute_dtype == loss_scale.DTYPE:
            self.loss_scale = loss_scale.LossScale(config.train.loss_scale_steps)
        # ---- Model and optimizer ----
        with self.strategy.scope():
            self.model = build_model()
            self.optimizer = optimizers.create(
                config.optimizer,
                config.train.num_steps,
                compiled=self.model.compute.fuse_elementwise,
                rate_scales=layer_decay.rate_scales(self.model, layer_rate_decay),
                stages=self.stages,
                compute_dtype=self.model.compute.dtype,
            )
            self.optimizer.build(self.model.trainable_variables)
            self.average: averaging.MovingAverage | None = None
            if config.train.ema_decay:
                self.average = averaging.MovingAverage(
                    self.model, config.train.ema_decay
                )
                self.optimizer.keep_average(self.average)
        # ---- State ----
        self.state = loops.TrainState(objective, num_streams)
        self.signals = signals or loops.Signals()
        self.step = self.first_step = 0
        self.restored_step: int | None = None
        self._num_streams = num_streams
        self._meter = meter or throughput.Meter([0.0] * len(self.stages), 0.0)

    @property
    def stage(self) -> stages_lib.Stage:
        """The stage of the step that was the last one; the first before all steps."""
        return stages_lib.leading_to(self.stages, self.step)

    def make_checkpointer(self, model_dir: str) -> checkpointer_lib.Checkpointer:
        """Returns a checkpointer of this run's model, optimizer, average and state."""
        parts = {
            checkpointer_lib.MODEL: self.model,
            "optimizer": self.optimizer,
            "loop": self.state,
        }
        if self.average is not None:
            parts[checkpointer_lib.AVERAGE] = self.average.tree
        if self.loss_scale is not None:
            parts[checkpointer_lib.LOSS_SCALE] = self.loss_scale
        return checkpointer_lib.Checkpointer(
            model_dir,
            self.config.train.keep_checkpoints,
            parts,
            self.is_chief,
            # `train.ema_decay` and float16 may be set later.
            optional=(checkpointer_lib.AVERAGE, checkpointer_lib.LOSS_SCALE),
        )

    def restore(
        self,
        use_previous: bool = False,
        branch: branching.Branch | None = None,
    ) -> list[str]:
        """Restores the newest checkpoint of `model_dir`, if there is one.

        Args:
          use_previous: whether to take an older one if the newest is damaged.
          branch: where the run begins, if it continues another one from there.

        Returns:
          Lines about checkpoints that were skipped, and about the average.

        Raises:
          ValueError: the checkpoint is damaged, or of another model, a later step or
            other streams; or it is missing, and a run was here.
        """
        self.checkpointer = self.make_checkpointer(self.model_dir)
        self.first_step = branch.step if branch else 0
        self.restored_step, notes = self.checkpointer.restore(
            use_previous, self.first_step
        )
        self.step = self.first_step
        if self.restored_step is not None:
            self.step = self.restored_step
        else:
            metrics_log.check_new(self.model_dir, self.first_step)
            if branch:
                notes += self._begin_branch(branch)
        if self.average is not None:
            if checkpointer_lib.AVERAGE in self.checkpointer.lacking:
                self.average.restart()
                notes.append(
                    "the average of the weights starts at those of the checkpoint"
                )
            if branch:
                self.average.count_from(branch.records_begin_at)
                if branch.restarts_records and self.restored_step is None:
                    notes.append("branch: the average of the weights starts again")
        num_steps = self.config.train.num_steps
        if self.step > num_steps:
            raise ValueError(
                f"train.num_steps must not be less than the checkpoint's step "
                f"{self.step}; received {num_steps}. Give more steps or another "
                "--model_dir"
            )
        restored_streams = int(self.state.num_streams)
        if restored_streams != self._num_streams:
            raise ValueError(
                f"this run's batches come from {restored_streams} streams of records, "
                f"and now would come from {self._num_streams}: pass --set "
                f"train.num_streams={restored_streams}, which must be a multiple of "
                "the number of hosts, or give another --model_dir"
            )
        strategies.check_same_step(self.strategy, self.step)
        return notes

    def _begin_branch(self, branch: branching.Branch) -> list[str]:
        """Restores all from another run's checkpoint, and resets what is of its own.

        Returns:
          Lines about what this run does not keep of it.
        """
        left = self.checkpointer.read(branch.path, leaves_settings=True)
        self.state.evaluated_step.assign(-1)
        if branch.restarts_records:
            self.state.restart(self.step, self._num_streams)
            if self.average is not None:
                # Else it would be that of the other records for many steps.
                self.average.restart()
        return [
            f"branch: the {name.replace('_', ' ')} of the other run is omitted"
            for name in left
        ]

    def make_train_step(self) -> Callable[..., train_step.Scalars]:
        """Returns the next step, which each replica takes on its part of a batch."""
        return train_step.make_train_step(
            self.model,
            self.optimizer,
            stages_lib.after(self.stages, self.step).config,
            self.objective,
        )

    def make_loop(self) -> tf.types.experimental.PolymorphicFunction:
        """Returns the compiled loop over the steps of the next step's stage."""
        return loops.make_train_loop(
            self.strategy,
            self.make_train_step(),
            self.state,
            self.signals,
            self.config.train.max_skipped_steps,
            self.loss_scale,
        )

    def train(
        self,
        input_fn_at: Callable[[int], input_pipeline.InputFn],
        evaluation: Evaluation | None = None,
        on_checked: Callable[[], None] = lambda: None,
        notes: Iterable[str] = (),
        profile_steps: tuple[int, int] | None = None,
        check_held: Callable[[], None] = lambda: None,
        probe: Callable[[], Metrics | None] | None = None,
    ) -> Metrics:
        """Trains from `step` to the last step, and saves.

        Args:
          input_fn_at: takes a number of steps; returns the input function whose first
            batch is the one after these.
          evaluation: what to evaluate between steps, if anything.
          on_checked: called once everything is checked, before anything is written.
          notes: lines for the log.
          profile_steps: the first and the last step to profile, if any.
          check_held: called before a checkpoint or a row is written; does not return
            if another run has taken the directory.
          probe: called every `train.probe_every_steps` steps, on the chief; returns
            metrics by name, or None if the process was asked to end.

        Returns:
          The metrics of the last evaluation; empty without one.

        Raises:
          FloatingPointError: a step failed, and no more may be skipped.
          guard.NoProgressError: `train.on_no_progress` ended the run, which is saved.
          OSError: checkpoints could not be written for `train.save_retry_seconds`.
          preemption.Stopped: the process was asked to end; all is saved.
        """
        # ---- Data and loop ----
        self._input_fn_at, self._evaluation = input_fn_at, evaluation
        self._check_held = check_held
        self._probe = probe
        self._begin_stage()
        on_checked()
        if self.average is not None and self.step == 0:
            self.average.restart()  # the weights may be another run's
        self._hangs = hangs.HangRecord(self.model_dir, self.is_chief)
        self._hangs.passed(self.step)
        # ---- Log ----
        self._begin_log(notes)
        summaries = os.path.join(self.model_dir, "summaries")
        self._profiler = profiling.StepProfiler(profile_steps, summaries)
        request = preemption.StopRequest(self.signals.stop)
        self._watchdog = self._make_watchdog()
        self._saver = self._make_saver()
        self._best = self.checkpointer.best
        self._is_ended = False
        # ---- Steps ----
        with (
            self._log,
            request,
            self._watchdog,
            contextlib.closing(self._saver),
            contextlib.closing(self._profiler),
        ):
            stopped, metrics = self._take_all_steps()
            # ---- End ----
            with self._watchdog.task("the last metrics"):
                self._log.close()
            strategies.check_same_step(self.strategy, self.step)
            strategies.leave_together(self.strategy)
        if stopped:
            raise preemption.Stopped(request.exit_code, self.step)
        if self._is_ended and self.step < self.config.train.num_steps:
            raise guard.NoProgressError(self.step)
        self._hangs.passed(self.step + 1)
        return metrics

    @contextlib.contextmanager
    def watch_prediction(self, name: str) -> Iterator[None]:
        """Watches a prediction after `train`, and ends the process if it hangs."""
        with self._make_watchdog() as watch, watch.prediction(name, self.step):
            yield
        self._hangs.passed(self.step + 2)

    def _make_watchdog(self) -> watchdog.Watchdog:
        run = self.config.train
        # The chief records what hangs, and must not lose the other workers before.
        grace_seconds = 0.0 if self.is_chief else _WORKER_GRACE_SECONDS
        return watchdog.Watchdog(
            self.signals.heartbeat,
            run.stall_seconds,
            run.hang_seconds + grace_seconds,
            self._log.warn,
            self._end_hanging,
        )

    def _make_saver(self) -> saving.Saver:
        # Again when a checkpoint is complete: the machine may be suspended meanwhile.
        self.checkpointer.check_held = self._check_held
        return saving.Saver(
            self.checkpointer,
            self.config.train.save_retry_seconds,
            self._watchdog,
            lambda: float(self.signals.stop) > 0,
            self._log.warn,
            self._check_held,
        )

    def _take_all_steps(self) -> tuple[bool, Metrics]:
        """Evaluates, saves and trains in turn.

        Returns:
          Whether the process was asked to end, and the last metrics.
        """
        run = self.config.train
        metrics: Metrics = {}
        stopping, is_saved = False, self.restored_step is not None
        while True:
            best = None
            if not stopping and self._is_evaluation_due():
                with self._saving_in_outage(is_saved):
                    values, best = self._evaluate(self.step)
                stopping = values is None
                metrics = values or metrics
                self._watch()
            if not stopping and self._is_probe_due():
                stopping = not self._take_probe()
            is_last = self.step == run.num_steps
            # Without the evaluation of this step, patience cannot be judged.
            is_last |= not stopping and self._is_out_of_patience()
            is_last |= self._is_ended
            is_save_due = self._is_due(run.save_every_steps) or is_last
            is_first = self.step == self.first_step
            is_save_due = self._saver.is_due() or is_save_due or is_first
            if not is_saved and (is_save_due or best is not None or stopping):
                # The first is complete before any row of a later step, so that rows
                # without a checkpoint show that it was lost.
                wait = stopping or is_last or is_first
                self._saver.save(self.step, best, wait=wait)
            elif best is not None:
                self._saver.mark_best(self.step, best)
            if is_last or stopping:
                return stopping, metrics
            if self._steps.stage is not stages_lib.after(self.stages, self.step):
                self._begin_stage()
                self._say_stage()
            self._profiler.start_at(self.step)
            outcome = self._take_steps()
            self._profiler.stop_at(self.step)
            if outcome["failed"]:
                self._fail(outcome)
            stopping, is_saved = outcome["stopped"], False
            if any(self._is_due(every) for every in self._periods):
                self._record_row()

    def _begin_stage(self) -> None:
        """Makes the batches and the loop of the next step's stage."""
        stage = stages_lib.after(self.stages, self.step)
        self._steps = stage_steps.StageSteps(
            stage,
            self.step,
            self.strategy,
            self.make_loop(),
            self._input_fn_at,
            self._meter,
        )
        if self.step == stage.first_step:
            # The mean loss of the batches before is no measure of these.
            self.state.mean_loss.assign(float("inf"))

    def _say_stage(self) -> None:
        if self.config.train.stages:
            stage, count = self._steps.stage, len(self.stages)
            self._log.say(f"stage {stage.number} of {count}: {stage.describe()}")

    def _begin_log(self, notes: Iterable[str]) -> None:
        num_steps = self.config.train.num_steps
        self._log = metrics_log.MetricsLog(
            self.model_dir, self.step, num_steps, self.is_chief
        )
        parameters = self.optimizer.describe(self.model.trainable_variables)
        for line in (strategies.describe(self.strategy), parameters, *notes):
            self._log.say(line)
        if self._dtype_note:
            self._log.say(self._dtype_note)
        self._say_stage()
        self._forecast = forecast.Forecast(
            self.stages, self._meter, self.signals.heartbeat, self._log
        )
        self._forecast.say_least(self.step)
        if self.step == num_steps:
            self._log.say(f"step {self.step} is the last one: nothing left to train")
        elif self.is_chief:
            provenance.record_start(self.model_dir, self.step)
        self._trust_ratios = trust_ratios.make_trust_ratios(
            self.strategy, self.model, self.optimizer
        )
        self._is_first_row = True

    # ---- What is due ----

    @property
    def _periods(self) -> tuple[int, ...]:
        run = self.config.train
        periods = run.steps_per_loop, run.save_every_steps, run.eval_every_steps
        return (*periods, run.probe_every_steps) if run.probe_every_steps else periods

    def _is_due(self, every: int) -> bool:
        """Returns whether a period or a stage ends."""
        return self.step % every == 0 or self.step == self.stage.last_step

    def _is_evaluation_due(self) -> bool:
        if self._evaluation is None:
            return False
        if self.step == self.first_step:
            return self._evaluation.at_start
        return self._is_due(self.config.train.eval_every_steps)

    def _is_probe_due(self) -> bool:
        """Decides by the rows, so that one which was recorded is not repeated."""
        is_end = self._is_ended or self.step == self.first_step
        every = self.config.train.probe_every_steps
        if self._probe is None or not (is_end or self._is_due(every)):
            return False
        return not self._log.find(settings.PROBE, self.step)

    def _is_out_of_patience(self) -> bool:
        """Decides from what is saved, so that a restart decides the same."""
        best = self._best
        if self._evaluation is None or not self._evaluation.patience or best is None:
            return False
        patience = self._evaluation.patience
        steps = patience * self.config.train.eval_every_steps
        if self.step - best["step"] < steps:
            return False
        self._log.say(
            f"step {self.step} is the last one: {patience} evaluations were not better "
            f"than that of step {best['step']}"
        )
        return True

    def _next_stop(self) -> int:
        """The next step at which the host has something to do."""
        stops = [self.step + every - self.step % every for every in self._periods]
        others = [*self._profiler.stops, (self._hangs.step_to_skip or 0) - 1]
        stops += [stop for stop in others if stop > self.step]
        return min(self._steps.stage.last_step, *stops)

    # ---- What is done ----

    def _take_steps(self) -> dict[str, Any]:
        """Runs the loop to the next stop; returns its outcome as Python numbers."""
        first, skipped = self.step, int(self.state.num_skipped)
        overflows = self._num_overflows
        may_skip = skipped < self.config.train.max_skipped_steps
        if may_skip and first + 1 == self._hangs.step_to_skip:
            return self._skip_step()
        with (
            self._watchdog.steps(first),
            self._forecast.steps(self._steps.stage, first),
        ):
            values = self._steps.take(self._next_stop() - first)
        self.step += values["num_steps"]
        total = int(self.state.num_skipped)
        if total > skipped and not values["failed"]:
            self._log.say(
                f"{total - skipped} of the steps {first + 1} to {self.step} skipped: "
                f"{stage_steps.complaint(values)}; {total} in all"
            )
        if self.loss_scale and self._num_overflows > overflows:
            line = self.loss_scale.describe(overflows, first + 1, self.step)
            self._log.say(line)
        return values

    @property
    def _num_overflows(self) -> int:
        return int(self.loss_scale.num_overflows) if self.loss_scale else 0

    def _evaluate(self, step: int) -> tuple[Metrics | None, float | None]:
        """Evaluates, unless that was recorded before a restart.

        Returns:
          The metrics, or None if the process was asked to end; and the value of
          `train.best_metric` if it is the best so far, or None.
        """
        evaluation = self._evaluation
        if evaluation is None:
            return {}, None
        split = evaluation.split
        if int(self.state.evaluated_step) == step:
            return self._log.find(split, step), None
        with (
            self._watchdog.evaluation(step),
            self.eval_weights(),
            self._forecast.evaluation(),
        ):
            values = evaluation.evaluate()
        if values is None:
            return None, None
        self.state.evaluated_step.assign(step)
        # A process that was killed before it saved may have recorded it.
        if not self._log.find(split, step):
            self._record(split, values)
        self._log.say(f"step {step}, held out: {evaluation.describe(values)}")
        name = self.config.train.best_metric
        metric = values.get(name)
        if metric is None and evaluation.patience:
            raise ValueError(
                f"evaluate must return the metric that patience judges, {name} "
                f"(train.best_metric); received {', '.join(values) or 'none'}. Return "
                "it too, or omit patience"
            )
        if metric is None:
            return values, None
        if self._is_better(metric, self._best):
            self._best = {"step": step, "metric": metric}
        # An earlier one may be better, but could not be saved.
        is_best = self._is_better(metric, self.checkpointer.best)
        return values, metric if is_best else None

    def eval_weights(self) -> contextlib.AbstractContextManager[None]:
        """Gives the model the weights that `train.eval_weights` names, for a while."""
        if self.average is None or self.config.train.eval_weights == "trained":
            return contextlib.nullcontext()
        return self.average.in_model()

    def _watch(self) -> None:
        """Says if the run does not learn, and decides whether that ends it."""
        evaluation = self._evaluation
        alarm = evaluation and evaluation.find_alarm(self._log.rows)
        self._is_ended = bool(alarm) and self.config.train.on_no_progress == "end"
        if alarm and (alarm.step == self.step or self._is_ended):
            self._log.say(alarm.line)

    def _take_probe(self) -> bool:
        """Probes the model; returns whether that was not interrupted."""
        with self._watchdog.evaluation(self.step), self.eval_weights():
            values = self._probe() if self._probe else None
        if values is not None:
            self._record(settings.PROBE, values)
            self._log.say(f"step {self.step}, probe: accuracy {values['accuracy']:.4f}")
        return values is not None

    @contextlib.contextmanager
    def _saving_in_outage(self, is_saved: bool) -> Iterator[None]:
        """Saves the state, which is whole, if the body cannot reach a storage."""
        try:
            yield
        except (OSError, tf.errors.OpError) as error:
            if failures.is_outage(error) and not is_saved:
                self._saver.save(self.step, wait=True)
            raise

    def _is_better(self, metric: float, best: dict[str, Any] | None) -> bool:
        if best is None or not math.isfinite(best["metric"]):
            return True
        if stages_lib.leading_to(self.stages, best["step"]) is not self.stage:
            return True  # it was measured on other records
        sign = 1.0 if self.config.train.best_metric.endswith("loss") else -1.0
        return sign * metric < sign * best["metric"]

    def _record_row(self) -> None:
        sums, num_steps = self.state.take_sums(self.step)
        num_skipped = int(self.state.num_skipped)
        values = {
            **self.objective.train_metrics(sums),
            **self._meter.take(sums["num_tokens"], num_steps, self.stage.number),
            "learning_rate": float(self.optimizer.learning_rate.numpy()),
            **self._trust_ratios(num_skipped + self._num_overflows),
            "gradient_norm": float(self.state.gradient_norm),
            "skipped_steps": num_skipped,
        }
        if self.loss_scale:
            values |= self.loss_scale.metrics()
        self._record(schema.TRAIN, values)
        self._log.progress(self.step, values)
        if self._is_first_row:
            self._is_first_row = False
            variables = self.model.trainable_variables
            if line := self.optimizer.describe_unreached(variables):
                self._log.say(line)

    def _record(self, split: str, values: Metrics) -> None:
        if self.config.train.stages:
            values = {"stage": self.stage.number, **values}
        with self._watchdog.task(f"the writing of metrics at step {self.step}"):
            self._check_held()
            self._log.record(split, self.step, values)

    def _fail(self, outcome: dict[str, Any]) -> None:
        path = self._steps.keep_batch(self.step, self.model_dir)
        self._saver.close()
        # The devices may have counted steps that they did not take.
        self.optimizer.iterations.assign(self.step)
        num_skipped = int(self.state.num_skipped) - 1
        good = tf.train.latest_checkpoint(self.model_dir)
        raise FloatingPointError(
            stage_steps.failure(self.stage, self.step, outcome, num_skipped, path, good)
        )

    def _skip_step(self) -> dict[str, Any]:
        """Skips the step at which the run hung twice; returns its outcome."""
        self.optimizer.iterations.assign_add(1)
        self.state.num_skipped.assign_add(1)
        self.step += 1
        self._log.say(
            f"step {self.step} is skipped: the run hung there twice; "
            f"{int(self.state.num_skipped)} in all"
        )
        return self._steps.skip_to(self.step)

    def _end_hanging(self, place: watchdog.Place, seconds: float) -> None:
        """Ends the process, because nothing else can end what hangs in it."""
        may_skip = int(self.state.num_skipped) < self.config.train.max_skipped_steps
        code, advice = self._hangs.add(place, may_skip)
        self._log.warn(f"error: {place.line(seconds)}. The process ends; {advice}")
        preemption.exit_now(code)
