"""Evaluation of pre-training on the held-out records of the stage at hand."""

from collections.abc import Callable, Sequence

import tensorflow as tf
import tf_keras

from albert_tf.core import stages as stages_lib
from albert_tf.data import input_pipeline
from albert_tf.data import sources as sources_lib
from albert_tf.training import loops, objectives

Metrics = dict[str, float]


class HeldOut:
    """Evaluates a model on held-out records, those of one stage at a time.

    If a stage draws from several sources, each is evaluated, and its metrics have its
    name: "mlm_loss/wiki". The metrics without a name are those of all of them together.
    """

    def __init__(
        self,
        run: Sequence[sources_lib.StageRecords],
        strategy: tf.distribute.Strategy,
        model: tf_keras.Model,
        objective: objectives.Objective,
        signals: loops.Signals,
    ):
        """Takes the run's records, and what `loops.make_evaluation_sums` does.

        Args:
          run: the stages and their records.
          strategy: the devices that train.
          model: the model.
          objective: gives the sums and the metrics.
          signals: its `stop` ends an evaluation.
        """
        self._run = run
        self._strategy, self._model = strategy, model
        self._objective, self._signals = objective, signals
        # Of the present stage, by name; made when they are needed.
        self._stage: stages_lib.Stage | None = None
        self._sums: dict[str, Callable[[], Metrics | None]] = {}

    def evaluate(self, stage: stages_lib.Stage) -> Metrics | None:
        """Returns the metrics on a stage's records; None if asked to end.

        They are empty if nothing was held out of them.
        """
        if stage is not self._stage:
            self._stage, self._sums = stage, self._make_sums(stage)
        total: Metrics = {}
        by_source: Metrics = {}
        for name, compute in self._sums.items():
            sums = compute()
            if sums is None:
                return None
            total = {key: total.get(key, 0.0) + value for key, value in sums.items()}
            if len(self._sums) > 1:
                metrics = self._objective.metrics(sums)
                by_source |= {f"{key}/{name}": value for key, value in metrics.items()}
        return self._objective.metrics(total) | by_source if total else {}

    def describe(self, stage: stages_lib.Stage, metrics: Metrics) -> str:
        """Formats the metrics on a stage's records as a line."""
        if not metrics:
            return "this stage has no held-out records"
        accuracies = (
            f"{name.replace('mlm', 'MLM').replace('_', ' ')} {value:.4f}"
            for name, value in metrics.items()
            if name.endswith("_accuracy")
        )
        entropy = self._run[stage.number - 1].unigram_entropy
        by_source = [
            f"{name.partition('/')[2]} {value:.4f}"
            for name, value in metrics.items()
            if name.startswith("mlm_loss/")
        ]
        of_each = f" ({', '.join(by_source)})" if by_source else ""
        return (
            f"MLM loss {metrics['mlm_loss']:.4f}{of_each} nats (token frequencies "
            f"alone: {entropy:.4f}), {', '.join(accuracies)}"
        )

    def _make_sums(
        self, stage: stages_lib.Stage
    ) -> dict[str, Callable[[], Metrics | None]]:
        compute = loops.make_evaluation_sums(
            self._strategy, self._model, stage.config, self._objective, self._signals
        )
        found = {}
        for source in self._run[stage.number - 1].held_out():
            input_fn, num_batches = input_pipeline.eval_input_fn(
                source.data_dir, source.manifest, stage.config
            )
            found[source.name] = compute(input_fn, num_batches)
        return found
