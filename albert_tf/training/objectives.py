"""Objectives: the loss that training minimizes, and its metrics.

An objective gives sums over a batch; they are added up over the parts of a batch, over
devices and over steps, and divided once.
"""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import tensorflow as tf

from albert_tf.model import pretraining_model, task_model
from albert_tf.training import losses, task_losses

Features = dict[str, tf.Tensor]
Scalars = dict[str, tf.Tensor]


class Objective(Protocol):
    """A loss and its metrics.

    Attributes:
      sum_names: the names of the sums.
      lengths: those that `row_lengths.at_own_length` may cut a batch to.
    """

    @property
    def sum_names(self) -> tuple[str, ...]:
        """The names of the sums, in a fixed order, none of them `loss`."""

    @property
    def lengths(self) -> Sequence[int]:
        """Ascending lengths of rows; empty if all batches have the same."""

    def weights(self, features: Features) -> list[tf.Tensor]:
        """Returns the divisors of the sums over a batch: float32 scalars."""

    def batch_sums(
        self, model: Any, features: Features, dropout_seed, example_weights=None
    ) -> Scalars:
        """Returns the sums of a batch by name, float32 scalars.

        Args:
          model: the model.
          features: the batch.
          dropout_seed: int32 [2] or None.
          example_weights: float32 [B], 0 at examples that pad the batch; None if there
            are no such examples.
        """

    def mean(self, sums: Scalars, weights: Sequence[tf.Tensor]) -> tf.Tensor:
        """Returns the loss: float32 scalar.

        Args:
          sums: of a batch or a part of it.
          weights: of the global batch.
        """

    def metrics(self, sums: dict[str, float]) -> dict[str, float]:
        """Returns means by name, without those of zero weight."""

    def train_metrics(self, sums: dict[str, float]) -> dict[str, float]:
        """Returns the metrics of a row of training."""


PRETRAINING_SUMS = (
    "mlm_loss",
    "mlm_correct",
    "mlm_weight",
    "pair_loss",
    "pair_correct",
    "pair_weight",
    "num_tokens",
)
# Prefixes of the metrics of the pair, by `data.pair_loss`.
_PAIR_METRICS = {"sop": "sentence_order", "nsp": "next_sentence"}


class PretrainingObjective:
    """Masked words and the pair of segments (ALBERT paper, section 3.1).

    The loss is in nats: a masked token, plus a pair if `pair_loss`, one of
    `config.PAIR_LOSSES`, is not "none".
    """

    sum_names = PRETRAINING_SUMS
    lengths = ()

    def __init__(self, pair_loss: str):
        self._pair_metric = _PAIR_METRICS.get(pair_loss)

    def weights(self, features: Features) -> list[tf.Tensor]:
        """Returns the numbers of masked tokens and of pairs that have a label."""
        num_pairs = tf.reduce_sum(losses.has_pair(features["next_sentence_labels"]))
        return [
            tf.reduce_sum(features["masked_lm_weights"]),
            num_pairs * float(self._pair_metric is not None),
        ]

    def batch_sums(
        self,
        model: pretraining_model.PretrainingModel,
        features: Features,
        dropout_seed,
        example_weights=None,
    ) -> Scalars:
        """Returns the `PRETRAINING_SUMS` of a batch, losses in nats."""
        found = model.scores(features, dropout_seed)
        mlm = losses.masked_lm(
            found.mlm.scores,
            found.mlm.bias,
            features["masked_lm_ids"],
            features["masked_lm_weights"],
            model.compute.fuse_elementwise,
        )
        labels = features["next_sentence_labels"]
        weights = tf.ones_like(labels, tf.float32)
        if example_weights is not None:
            # Packed rows have several labels each.
            weights *= _with_rank(example_weights, labels.shape.rank)
        pair = losses.sentence_pair(found.pair_logits, labels, weights)
        sums = (*mlm, *pair, _num_tokens(features))
        return dict(zip(self.sum_names, sums, strict=True))

    def mean(self, sums: Scalars, weights: Sequence[tf.Tensor]) -> tf.Tensor:
        """Returns nats per masked token, plus nats per pair if any pair has a label."""
        mlm_weight, pair_weight = weights
        mlm_loss = sums["mlm_loss"] / (mlm_weight + losses.WEIGHT_EPSILON)
        return mlm_loss + tf.math.divide_no_nan(sums["pair_loss"], pair_weight)

    def train_metrics(self, sums: dict[str, float]) -> dict[str, float]:
        """Returns the metrics, and the share of tokens that are masked."""
        masked_share = sums["mlm_weight"] / max(sums["num_tokens"], 1.0)
        return {**self.metrics(sums), "masked_share": masked_share}

    def metrics(self, sums: dict[str, float]) -> dict[str, float]:
        """Returns mean losses and accuracies.

        Those of zero weight are omitted, as when each step of a row was skipped.
        """
        values = {}
        for prefix, name in (("mlm", "mlm"), ("pair", self._pair_metric)):
            weight = sums[f"{prefix}_weight"]
            if name and weight > 0:
                values[f"{name}_loss"] = sums[f"{prefix}_loss"] / weight
                values[f"{name}_accuracy"] = sums[f"{prefix}_correct"] / weight
        return values


class TaskObjective:
    """The loss of a task (ALBERT paper, section 4.1).

    Its batches hold, besides the texts, what the loss of the kind asks for:
    `label_ids` int32 [B], `token_label_ids` int32 [B, S] (-1: none), `targets`
    float32 [B], or `start_positions`, `end_positions` and `is_impossible` int32 [B].
    """

    sum_names = ("task_loss", "task_correct", "task_weight", "num_tokens")

    def __init__(self, kind: str, lengths: Sequence[int] = ()):
        """Creates an objective.

        Args:
          kind: a key of `task_model.HEADS`.
          lengths: as in `row_lengths.at_own_length`.
        """
        self._kind = kind
        self.lengths = tuple(lengths)

    def weights(self, features: Features) -> list[tf.Tensor]:
        """Returns the number of examples, or of words that have labels."""
        return [tf.reduce_sum(self._weights(features))]

    def batch_sums(
        self,
        model: task_model.TaskModel,
        features: Features,
        dropout_seed,
        example_weights=None,
    ) -> Scalars:
        """Returns loss, correct answers, weight and tokens of a batch."""
        outputs = model(features, dropout_seed=dropout_seed)
        weights = self._weights(features)
        if example_weights is not None:
            weights *= _with_rank(example_weights, weights.shape.rank)
        labels = [features[name] for name in _LABELS[self._kind]]
        sums = _LOSSES[self._kind](*_scores(self._kind, outputs), *labels, weights)
        return dict(zip(self.sum_names, (*sums, _num_tokens(features)), strict=True))

    def mean(self, sums: Scalars, weights: Sequence[tf.Tensor]) -> tf.Tensor:
        """Returns nats per example or word, or squared units of the targets."""
        return tf.math.divide_no_nan(sums["task_loss"], weights[0])

    def metrics(self, sums: dict[str, float]) -> dict[str, float]:
        """Returns `loss`, and `accuracy` if answers are right or wrong."""
        weight = sums["task_weight"]
        if weight <= 0:
            return {}
        values = {"loss": sums["task_loss"] / weight}
        if self._kind != "regression":
            values["accuracy"] = sums["task_correct"] / weight
        return values

    def train_metrics(self, sums: dict[str, float]) -> dict[str, float]:
        """Returns the metrics."""
        return self.metrics(sums)

    def _weights(self, features: Features) -> tf.Tensor:
        """Returns float32 [B], or [B, S] if each word has a label."""
        if self._kind == "token_classification":
            return tf.cast(features["token_label_ids"] >= 0, tf.float32)
        return tf.ones_like(features[_LABELS[self._kind][0]], tf.float32)


_LABELS: dict[str, tuple[str, ...]] = {
    "classification": ("label_ids",),
    "regression": ("targets",),
    "token_classification": ("token_label_ids",),
    "span": ("start_positions", "end_positions"),
    "answerable_span": ("start_positions", "end_positions", "is_impossible"),
    "multiple_choice": ("label_ids",),
}
_LOSSES: dict[str, Callable[..., losses.Sums]] = {
    "classification": task_losses.classification,
    "regression": task_losses.regression,
    "token_classification": task_losses.classification,
    "span": task_losses.span,
    "answerable_span": task_losses.answerable_span,
    "multiple_choice": task_losses.classification,
}
_CLASSES = ("classification", "token_classification", "multiple_choice")


def _scores(kind: str, outputs) -> tuple[tf.Tensor, ...]:
    """Returns the outputs of a head that the loss reads."""
    return (outputs.logits,) if kind in _CLASSES else tuple(outputs)


def _with_rank(example_weights, rank: int):
    """Returns float32 [B] as [B, 1, ...] of a rank."""
    return tf.reshape(example_weights, [-1] + [1] * (rank - 1))


def _num_tokens(features: Features) -> tf.Tensor:
    if "sequence_numbers" in features:
        return tf.math.count_nonzero(features["sequence_numbers"], dtype=tf.float32)
    return tf.cast(tf.reduce_sum(features["input_mask"]), tf.float32)
