"""Training and evaluation loops that stay on the devices.

A loop runs until its steps are done, the process was asked to end, or a step failed;
all hosts see the same values and leave the loop at the same step.
"""

from collections.abc import Callable

import tensorflow as tf
import tf_keras

from albert_tf.core import config as config_lib
from albert_tf.data import input_pipeline
from albert_tf.devices import strategies
from albert_tf.training import loss_scale, objectives, step_log

Scalars = objectives.Scalars


class TrainState(tf.Module):
    """The state of a run besides model and optimizer; saved with them.

    With it a run that restarts between two rows of metrics writes the same rows, and
    all workers know what was done without reading what the chief wrote.

    sums: float64 [sums], those of the objective, over the steps since metrics were last
      recorded.
    row_step: int64 scalar, the step of that record; 0 at first.
    evaluated_step: int64 scalar, the step of the last evaluation; -1 at first.
    mean_loss: float32 scalar, the running mean of the loss; infinite at first.
    num_skipped: int32 scalar, the number of skipped steps.
    num_streams: int32 scalar, the number of streams that make a batch.
    gradient_norm: float32 scalar, of the last step that was taken, before clipping.
    """

    def __init__(self, objective: objectives.Objective, num_streams: int = 1):
        super().__init__(name="loop_state")
        self._objective = objective
        with tf.device("/cpu:0"):
            zeros = tf.zeros([len(objective.sum_names)], tf.float64)
            self.sums = _variable(zeros, "sums")
            self.row_step = _variable(tf.constant(0, tf.int64), "row_step")
            self.evaluated_step = _variable(tf.constant(-1, tf.int64), "evaluated_step")
            self.mean_loss = _variable(float("inf"), "mean_loss")
            self.num_skipped = _variable(0, "num_skipped")
            self.num_streams = _variable(num_streams, "num_streams")
            self.gradient_norm = _variable(0.0, "gradient_norm")

    @property
    def sum_names(self) -> tuple[str, ...]:
        """The names of the sums."""
        return self._objective.sum_names

    def take_sums(self, step: int) -> tuple[dict[str, float], int]:
        """Returns the sums by name and their number of steps, and resets both.

        Args:
          step: the present step.
        """
        values = dict(zip(self.sum_names, self.sums.numpy().tolist(), strict=True))
        num_steps = step - int(self.row_step)
        self.sums.assign(tf.zeros_like(self.sums))
        self.row_step.assign(step)
        return values, num_steps

    def restart(self, step: int, num_streams: int) -> None:
        """Forgets what belongs to the records that were read up to `step`.

        Only the number of skipped steps and the last gradient norm stay.
        """
        self.take_sums(step)
        self.mean_loss.assign(float("inf"))
        self.num_streams.assign(num_streams)


class Signals(tf.Module):
    """Signals between the host and a running loop.

    stop: float32 scalar, set above 0 by the host to end the loop.
    heartbeat: int64 scalar, set by the loop: -1 before it began, then 2 n while it
      waits for the batch of its n-th step, and 2 n + 1 while it takes that step; in an
      evaluation, n during its n-th batch.
    """

    def __init__(self):
        super().__init__(name="signals")
        with tf.device("/cpu:0"):
            self.stop = _variable(0.0, "stop")
            self.heartbeat = _variable(tf.constant(-1, tf.int64), "heartbeat")


def _variable(value, name: str) -> tf.Variable:
    return tf.Variable(value, trainable=False, name=name)


def make_train_loop(
    strategy,
    step_fn,
    state: TrainState,
    signals: Signals,
    max_skipped: int,
    scale: loss_scale.LossScale | None = None,
) -> Callable[..., Scalars]:
    """Returns a function that takes steps without leaving the devices.

    The host starts a step without waiting for the one before. What a step needs of
    that stays on the devices (`step_log`), where a failed run takes no further step
    by itself; the host learns of it when it next reads the log.

    Args:
      strategy: where to run.
      step_fn: the result of `train_step.make_train_step`.
      state: changed by the loop.
      signals: read and set by the loop.
      max_skipped: the number of bad steps to skip in all; the loop ends at the next
        one.
      scale: the loss scale of float16, changed by the loop.

    Returns:
      A function that takes an iterator of batches and the number of steps, at least 1,
      and returns scalars: `num_steps` (int32) up to the last one or the one that
      failed, `bad_loss` and `bad_norm` (float32) of the last bad step, `failed` and
      `stopped` (bool), and `input_seconds` (float64) of waiting for batches.
    """
    log = step_log.StepLog(strategy, state.sum_names, max_skipped, scale)
    steps = _LoggedSteps(strategy, step_fn, signals, log)

    def take_logged(iterator, num_steps, carried):
        done = carried["num_steps"]
        num_rows = tf.minimum(num_steps - done, step_log.NUM_ROWS)
        row, asked, seconds = steps.take(
            iterator, num_rows, done, log.first(state), carried["asked"]
        )
        outcome = log.read(state, row, carried)
        return {
            **outcome,
            "num_steps": done + outcome["num_steps"],
            "asked": asked,
            "input_seconds": carried["input_seconds"] + seconds,
        }

    @tf.function(autograph=False)
    def train_loop(iterator, num_steps):
        carried = {
            "num_steps": tf.constant(0),
            "bad_loss": tf.constant(0.0),
            "bad_norm": tf.constant(0.0),
            "failed": tf.constant(False),
            "asked": steps.none_asked,
            "input_seconds": tf.constant(0.0, tf.float64),
        }
        (carried,) = tf.while_loop(
            lambda c: (
                (c["num_steps"] < num_steps) & ~c["failed"] & (c["asked"][0] == 0.0)
            ),
            lambda c: (take_logged(iterator, num_steps, c),),
            (carried,),
            parallel_iterations=1,
        )
        asked = carried.pop("asked")
        return {**carried, "stopped": tf.reduce_any(tf.stack(asked) > 0.0)}

    return train_loop


class _LoggedSteps:
    """Steps that the host starts one after another, until their log is full.

    none_asked: what `take` needs while no process was asked to end. Several processes
      must end at the same step. They agree on it by a sum over the replicas: that of
      the step before the last one, so that one step can be waiting.
    """

    def __init__(self, strategy, step_fn, signals: Signals, log: step_log.StepLog):
        self._strategy, self._step_fn = strategy, step_fn
        self._signals, self._log = signals, log
        self._is_agreed = strategies.has_several_processes()
        self.none_asked = (tf.constant(0.0),) * (1 + self._is_agreed)

    def take(self, iterator, num_rows, done, first, asked):
        """Takes steps up to `num_rows`, or until it is asked to end.

        Args:
          iterator: gives batches.
          num_rows: int32 scalar, at most that of the log.
          done: int32 scalar, the number of steps before, for the heartbeat.
          first: as `step_log.StepLog.take` takes it.
          asked: float32 scalars, above 0 if a process was asked to end: the first
            decides.

        Returns:
          The number of steps, `asked` after them, and float64 seconds of waiting for
          batches.
        """

        def step(row, asked, input_seconds):
            stop, seconds = self._take_one(iterator, done, row, first)
            return row + 1, (*asked[1:], stop), input_seconds + seconds

        return tf.while_loop(
            lambda row, asked, _: (row < num_rows) & (asked[0] == 0.0),
            step,
            (tf.constant(0), asked, tf.constant(0.0, tf.float64)),
            parallel_iterations=1,
        )

    def _take_one(self, iterator, done, row, first):
        """Returns whether this process, or any, was asked to end; and seconds."""
        signals = self._signals
        signals.heartbeat.assign(2 * tf.cast(done + row, tf.int64))
        features, seconds = _next_batch(iterator)
        with tf.control_dependencies([seconds]):
            signals.heartbeat.assign_add(1)
            stop = signals.stop.read_value()
        arguments = row, first, features, stop
        if self._is_agreed:
            return (
                strategies.run_on_replicas(self._strategy, self._on_replica, arguments),
                seconds,
            )
        self._strategy.run(self._on_replica, arguments)
        return stop, seconds

    def _on_replica(self, *arguments):
        stop = self._log.take(self._step_fn, *arguments)
        return stop if self._is_agreed else None


def _next_batch(iterator):
    """The next batch, and float64 seconds of waiting for it."""
    began = tf.timestamp()
    with tf.control_dependencies([began]):
        features = next(iterator)
    with tf.control_dependencies(tf.nest.flatten(features, expand_composites=True)):
        return features, tf.timestamp() - began


def make_evaluation_sums(
    strategy,
    model: tf_keras.Model,
    config: config_lib.Config,
    objective: objectives.Objective,
    signals: Signals,
) -> Callable[[input_pipeline.InputFn, int], Callable[[], dict[str, float] | None]]:
    """Returns a function that makes evaluations, all of the same shapes, of one graph.

    It takes `input_fn`, whose batches have `example_weights` as
    `input_pipeline.eval_input_fn` makes them, and `num_batches` of all replicas
    together. What it returns evaluates the model: it returns the objective's sums by
    name, or None if the process was asked to end.

    Args:
      strategy: the devices that train.
      model: the model.
      config: its `train.jit_compile` says what is compiled.
      objective: gives the sums.
      signals: its `stop` ends an evaluation.
    """
    names = objective.sum_names
    forward = tf.function(
        lambda features: objective.batch_sums(
            model, features, None, features["example_weights"]
        ),
        jit_compile=strategies.compiles_with_xla(config.train.jit_compile),
        autograph=False,
    )

    def eval_step(features, stop):
        sums = forward(features)
        numbers = tf.stack([*(sums[name] for name in names), stop])
        return strategies.sum_over_replicas(numbers)

    def step(iterator, sums):
        signals.heartbeat.assign_add(1)
        features = next(iterator)
        return sums + tf.cast(
            strategies.run_on_replicas(
                strategy, eval_step, (features, signals.stop.read_value())
            ),
            tf.float64,
        )

    @tf.function(autograph=False)
    def eval_loop(iterator, num_rounds):
        return tf.while_loop(
            lambda index, sums: (index < num_rounds) & (sums[-1] == 0),
            lambda index, sums: (index + 1, step(iterator, sums)),
            (tf.constant(0), tf.zeros([len(names) + 1], tf.float64)),
            parallel_iterations=1,
        )[1]

    def make_sums(input_fn: input_pipeline.InputFn, num_batches: int):
        dataset = strategies.distribute_dataset(strategy, input_fn)
        num_rounds = tf.constant(-(-num_batches // strategy.num_replicas_in_sync))

        def compute() -> dict[str, float] | None:
            *sums, stop = eval_loop(iter(dataset), num_rounds).numpy().tolist()
            return None if stop else dict(zip(names, sums, strict=True))

        return compute

    return make_sums
