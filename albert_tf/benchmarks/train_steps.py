"""Train steps with and without the input pipeline, and in the loop and without it."""

import statistics
from collections.abc import Callable

import tensorflow as tf

from albert_tf.benchmarks import figures, rounds, setup
from albert_tf.benchmarks import input_pipeline as input_pipeline_benchmark
from albert_tf.core import config as config_lib
from albert_tf.core import config_io
from albert_tf.data import input_pipeline, schema
from albert_tf.devices import strategies
from albert_tf.model import stateless_random
from albert_tf.training import train_step
from albert_tf.training import trainer as trainer_lib

# The targets: fractions of a step.
MAX_INPUT_SHARE = 0.03
MAX_LOOP_OVERHEAD = 0.02

# What is compared.
PIPED = "the loop with the input pipeline"
REPEATED = "the loop with a batch from memory"
STEP = "the train step called from Python"
BARE = "a step without guards or metrics"

_SMALL = (
    "model.embedding_size=8",
    "model.hidden_size=8",
    "model.num_layers=1",
    "model.num_heads=1",
    "model.num_groups=1",
    "model.num_inner_groups=1",
    "model.intermediate_size=8",
)


class LoopSteps:
    """Calls a new train loop with batches of a dataset; records the time it waits."""

    def __init__(self, trainer: trainer_lib.Trainer, input_fn: input_pipeline.InputFn):
        self._loop = trainer.make_loop()
        dataset = strategies.distribute_dataset(trainer.strategy, input_fn)
        self._batches = iter(dataset)
        self.input_seconds: list[float] = []

    def __call__(self, num_steps: int) -> None:
        """Runs steps in one call of the loop."""
        outcome = self._loop(self._batches, tf.constant(num_steps))
        self.input_seconds.append(float(outcome["input_seconds"]) / num_steps)
        taken = int(outcome["num_steps"])
        if taken != num_steps:
            raise ValueError(
                f"the loop must run all {num_steps} steps that it was called for; it "
                f"ran {taken}. Change the settings, or fix the loop"
            )


def small_config(config: config_lib.Config) -> config_lib.Config:
    """The recipe with a tiny model, so that the loop's overhead is visible."""
    return config_io.override(config, _SMALL)


def measure(
    config: config_lib.Config,
    data_dir: str,
    manifest: schema.Manifest,
    num_rounds: int,
    seconds: float,
) -> list[figures.Figure]:
    """Steps per second, the input's share of a step, and the loop's overhead.

    Unless a machine is idle, what input and loop add to a step of the recipe is less
    than the variation of such steps. So the same is measured with a tiny model in the
    same loop with the same input, and given as a fraction of the recipe's step.

    Args:
      config: what to train.
      data_dir: records.
      manifest: theirs.
      num_rounds: how often each is timed.
      seconds: approximate duration of one measurement.
    """
    trainer = setup.build(config)
    full, waiting = compare(trainer, data_dir, manifest, num_rounds, seconds)
    trainer = setup.build(small_config(config))
    small, _ = compare(trainer, data_dir, manifest, num_rounds, seconds)
    alone = input_pipeline_benchmark.seconds_of_step(
        data_dir, manifest, config, seconds
    )
    return to_figures(full, waiting, small, alone)


def compare(
    trainer: trainer_lib.Trainer,
    data_dir: str,
    manifest: schema.Manifest,
    num_rounds: int,
    seconds: float,
) -> tuple[dict[str, list[rounds.StepTimes]], list[float]]:
    """The times by name, and the seconds a step waits for input, round by round."""
    input_fn = input_pipeline.train_input_fn(data_dir, manifest, trainer.config)
    first = strategies.distribute_dataset(trainer.strategy, input_fn)
    batch = next(iter(first))
    # All replicas get the same part: only the time matters.
    part = strategies.local_values(trainer.strategy, batch)[0]
    same = tf.data.Dataset.from_tensors(part).repeat()
    piped, repeated = LoopSteps(trainer, input_fn), LoopSteps(trainer, lambda _: same)
    times = rounds.time_steps(
        {
            PIPED: piped,
            REPEATED: repeated,
            STEP: _caller(trainer, batch, trainer.make_train_step()),
            BARE: _caller(trainer, batch, _bare_step(trainer)),
        },
        num_rounds,
        seconds,
    )
    # Each measurement is a call of warm-up steps and one that was timed.
    return times, piped.input_seconds[-2 * num_rounds :][1::2]


def to_figures(
    full: dict[str, list[rounds.StepTimes]],
    waiting: list[float],
    small: dict[str, list[rounds.StepTimes]],
    input_alone: float,
) -> list[figures.Figure]:
    """The figures of two comparisons.

    Args:
      full: the times with the recipe's model, by name.
      waiting: seconds that a step waits for input, in the rounds of `PIPED`.
      small: the times with the tiny model.
      input_alone: seconds that the input alone takes for a batch.
    """
    found = []
    for name, times in full.items():
        rates = [1.0 / one.seconds for one in times]
        found.append(figures.median_figure("steps", name, rates, "steps/s"))
    step_seconds = statistics.median(_seconds(full[PIPED]))
    shares = [
        wait / step for wait, step in zip(waiting, _seconds(full[PIPED]), strict=True)
    ]
    for group, pairs, limit in (
        ("input", ((PIPED, REPEATED),), MAX_INPUT_SHARE),
        ("loop", ((REPEATED, STEP), (REPEATED, BARE)), MAX_LOOP_OVERHEAD),
        ("both", ((PIPED, BARE),), MAX_INPUT_SHARE + MAX_LOOP_OVERHEAD),
    ):
        if group == "input":
            name = "waiting, as the loop counts it"
            found.append(_share(group, name, shares, limit))
            name = "alone, relative to a step, as if nothing overlapped"
            found.append(_share(group, name, [input_alone / step_seconds], limit))
        for one, other in pairs:
            name = f"compared with {other}"
            found += _compared(group, full[one], full[other], name, limit)
            found += _compared_small(
                group, small[one], small[other], name, step_seconds, limit
            )
    return found


def _compared(group, one, other, name: str, limit: float) -> list[figures.Figure]:
    by_clock = figures.excess(_seconds(one), _seconds(other))
    by_cores = figures.excess(_core_seconds(one), _core_seconds(other))
    return [
        _share(group, name, by_clock, limit),
        _share(group, f"{name}, core time", by_cores, limit),
    ]


def _compared_small(
    group, one, other, name: str, step_seconds: float, limit: float
) -> list[figures.Figure]:
    added = figures.differences(_seconds(one), _seconds(other))
    milliseconds = [value * 1e3 for value in added]
    shares = [value / step_seconds for value in added]
    return [
        figures.median_figure(group, f"{name}, tiny model", milliseconds, "ms"),
        _share(group, f"{name}, tiny model, of the recipe's step", shares, limit),
    ]


def _share(group: str, name: str, samples, limit: float) -> figures.Figure:
    return figures.median_figure(group, name, samples, "%", at_most=limit)


def _seconds(times: list[rounds.StepTimes]) -> list[float]:
    return [one.seconds for one in times]


def _core_seconds(times: list[rounds.StepTimes]) -> list[float]:
    return [one.core_seconds for one in times]


def _bare_step(trainer: trainer_lib.Trainer) -> Callable[..., train_step.Scalars]:
    """A minimal step: gradients, clipping, optimizer; no guards."""
    config = trainer.config
    compiled = tf.function(
        train_step.compute_gradients,
        jit_compile=strategies.compiles_with_xla(config.train.jit_compile),
        autograph=False,
    )

    def bare_step(features, _, mean_loss):
        del mean_loss
        weights = trainer.objective.weights(features)
        key = tf.stack(
            [config.train.seed, tf.cast(trainer.optimizer.iterations, tf.int32)]
        )
        gradients, sums = train_step.accumulate_gradients(
            lambda part, seed: compiled(
                trainer.objective, trainer.model, part, seed, *weights
            ),
            features,
            config.train.accumulation_steps,
            stateless_random.fold_in(key, strategies.replica_id()),
        )
        gradients = strategies.sum_over_replicas(gradients)
        gradients, _ = tf.clip_by_global_norm(gradients, config.optimizer.clip_norm)
        trainer.optimizer.apply_gradients(
            zip(gradients, trainer.model.trainable_variables, strict=True),
            skip_gradients_aggregation=True,
        )
        # The sum of all: TensorFlow would not compute accuracies that are not used.
        return {"loss": tf.add_n(list(sums.values()))}

    return bare_step


def _caller(trainer: trainer_lib.Trainer, batch, step_fn) -> Callable[[int], None]:
    """Returns a function that calls a step from Python, with one batch."""

    # The batch is an argument: work on a constant could be folded away.
    @tf.function(autograph=False)
    def step(features):
        arguments = features, tf.constant(0.0), tf.constant(float("inf"))
        return strategies.run_on_replicas(trainer.strategy, step_fn, arguments)["loss"]

    def take_steps(num_steps: int) -> None:
        for _ in range(num_steps):
            loss = step(batch)
        float(loss)  # when the last one is done

    return take_steps
