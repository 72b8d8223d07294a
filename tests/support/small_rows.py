"""Rows of each kind of task, drawn without texts, and what trains on them."""

import numpy as np

from albert_tf.core import config
from albert_tf.devices import strategies
from albert_tf.finetuning import batches
from albert_tf.model import pretraining_model, task_model
from albert_tf.optim import optimizers
from albert_tf.tasks import features as features_lib
from albert_tf.training import loops, objectives, train_step
from tests.support import small_run

KINDS = {
    "classification": {"num_classes": 3, "dropout_rate": 0.0},
    "regression": {"dropout_rate": 0.0},
    "token_classification": {"num_classes": 5, "dropout_rate": 0.0},
    "span": {},
    "answerable_span": {"num_starts": 3, "num_ends": 2, "dropout_rate": 0.0},
    "multiple_choice": {"dropout_rate": 0.0},
}
NUM_CHOICES = 3
LENGTH = 24


def make(kind: str, num_items: int = 40) -> features_lib.Features:
    """Rows of 9 to 20 tokens, the first four of them in segment 0, with labels."""
    rng = np.random.default_rng(4)
    num_choices = NUM_CHOICES if kind == "multiple_choice" else 1
    num_rows = num_items * num_choices
    lengths = rng.integers(9, 21, num_rows)
    ids = [rng.integers(5, 4000, length).tolist() for length in lengths]
    per_row: dict[str, np.ndarray] = {}
    per_token: dict[str, np.ndarray] = {}
    if kind == "classification":
        per_row["label_ids"] = rng.integers(0, 3, num_rows).astype(np.int32)
    elif kind == "regression":
        per_row["targets"] = rng.uniform(0, 5, num_rows).astype(np.float32)
    elif kind == "multiple_choice":
        chosen = rng.integers(0, num_choices, num_items).astype(np.int32)
        per_row["label_ids"] = np.repeat(chosen, num_choices)
    elif kind == "token_classification":
        # Of some rows every word counts, of others one alone.
        labels = rng.integers(0, 5, lengths.sum()).astype(np.int32)
        places = np.concatenate([np.arange(length) for length in lengths])
        rows = np.repeat(np.arange(num_rows), lengths)
        per_token["token_label_ids"] = np.where(
            (rows % 2 == 0) | (places == 1), labels, -1
        )
    else:
        starts = rng.integers(4, lengths - 2)
        ends = rng.integers(starts, lengths - 1)
        if kind == "answerable_span":
            is_impossible = rng.integers(0, 2, num_rows).astype(np.int32)
            starts, ends = starts * (1 - is_impossible), ends * (1 - is_impossible)
            per_row["is_impossible"] = is_impossible
        per_row["start_positions"] = starts.astype(np.int32)
        per_row["end_positions"] = ends.astype(np.int32)
    return features_lib.build(
        ids,
        [4] * num_rows,
        np.repeat(np.arange(num_items), num_choices).tolist(),
        per_row,
        per_token,
    )


class Training:
    """A model, its loop and its batches, as `fine_tuning` puts them together.

    Attributes:
      strategy: where it runs.
      config: the recipe.
      model: the model.
      batcher: of the rows.
      batches: an iterator.
      signals: of the loop.
      loop: takes steps.
    """

    def __init__(self, strategy, kind: str, *overrides: str):
        self.strategy = strategy
        self.config: config.Config = small_run.small_config(
            "model.num_layers=1",
            "optimizer.name=adamw",
            "optimizer.learning_rate=0.01",
            *overrides,
        )
        run = self.config.train
        with strategy.scope():
            self.model = task_model.build_task_model(
                self.config.model,
                kind,
                run.seed,
                pretraining_model.compute_form(run),
                **KINDS[kind],
            )
            adam = optimizers.create(
                self.config.optimizer,
                run.num_steps,
                self.model.compute.fuse_elementwise,
            )
            adam.build(self.model.trainable_variables)
        num_lengths = self.config.task.num_lengths
        self.batcher = batches.FeatureBatcher(
            make(kind), kind, 0, LENGTH, num_lengths=num_lengths
        )
        objective = objectives.TaskObjective(kind, self.batcher.lengths)
        self.batches = iter(
            strategies.distribute_dataset(
                strategy, batches.train_input_fn(self.batcher, run, 0)
            )
        )
        self.signals = loops.Signals()
        self.loop = loops.make_train_loop(
            strategy,
            train_step.make_train_step(self.model, adam, self.config, objective),
            loops.TrainState(objective),
            self.signals,
            0,
        )
