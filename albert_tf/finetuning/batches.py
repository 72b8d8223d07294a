"""Padded batches of features, shuffled by a seed, with static shapes."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from albert_tf.core import config as config_lib
from albert_tf.data import input_pipeline
from albert_tf.tasks import features as features_lib
from albert_tf.tasks.squad import windows

# Lengths are rounded up to a multiple of this.
_LENGTH_UNIT = 16
_SPANS = ("span", "answerable_span")

Batch = dict[str, np.ndarray]


class FeatureBatcher:
    """Makes padded batches of features.

    An item is one element of a batch: a row, or all choices of an example.

    Attributes:
      num_items: number of items.
      length: S, the padded length of a row: that of the longest row, rounded up.
    """

    def __init__(
        self,
        features: features_lib.Features,
        kind: str,
        pad_id: int,
        max_length: int,
        is_fixed_length: bool = False,
    ):
        """Creates a batcher.

        Args:
          features: at least one row.
          kind: a key of `task_model.HEADS`.
          pad_id: the id of <pad>.
          max_length: maximal tokens of a row, `task.max_seq_length`.
          is_fixed_length: whether to pad all rows to `max_length`.
        """
        self._features = features
        self._kind = kind
        self._pad_id = pad_id
        self._rows_per_item = 1
        if kind == "multiple_choice":
            self._rows_per_item = int(np.sum(features.example_index == 0))
        self.num_items = features.num_rows // self._rows_per_item
        longest = int(np.max(np.diff(features.offsets)))
        rounded = -(-longest // _LENGTH_UNIT) * _LENGTH_UNIT
        self.length = max_length if is_fixed_length else min(rounded, max_length)

    def batch(self, items: Sequence[int] | np.ndarray) -> Batch:
        """Makes a batch of some items.

        Args:
          items: indices of B items.

        Returns:
          `input_ids`, `input_mask` and `segment_ids` int32 [B, S] ([B, C, S] for
          choices), `p_mask` float32 [B, S] for spans (1 at positions where no answer
          may start or end: padding, the question, separators), and the labels of the
          features: [B], or `token_label_ids` int32 [B, S].
        """
        features, size = self._features, self._rows_per_item
        numbers = (np.asarray(items)[:, None] * size + np.arange(size)).ravel()
        shape: tuple[int, ...] = (len(numbers), self.length)
        begins = features.offsets[numbers][:, None]  # [rows, 1]
        lengths = features.offsets[numbers + 1][:, None] - begins
        places = np.arange(self.length)[None]  # [1, S]
        is_token = places < lengths  # [rows, S]
        where = np.where(is_token, begins + places, 0)
        num_first = features.num_first[numbers][:, None]
        is_second = is_token & (places >= num_first)
        batch = {
            "input_ids": np.where(is_token, features.ids[where], self._pad_id),
            "input_mask": is_token,
            "segment_ids": is_second,
        }
        if self._rows_per_item > 1:
            shape = (len(items), size, self.length)
        batch = {k: v.astype(np.int32).reshape(shape) for k, v in batch.items()}
        if self._kind in _SPANS:
            batch["p_mask"] = windows.p_mask(
                lengths[:, 0], num_first[:, 0], self.length
            ).astype(np.float32)
        for name, values in features.per_token.items():
            batch[name] = np.where(is_token, values[where], -1).astype(np.int32)
        for name, values in features.per_row.items():
            batch[name] = values[numbers[::size]]
        return batch

    def signature(self, batch_size: int) -> dict[str, tf.TensorSpec]:
        """The shapes and dtypes of a batch."""
        return {
            name: tf.TensorSpec([batch_size, *values.shape[1:]], values.dtype)
            for name, values in self.batch([0]).items()
        }


def train_input_fn(
    batcher: FeatureBatcher, run: config_lib.TrainConfig, first_step: int
) -> input_pipeline.InputFn:
    """Returns an input function of infinite training batches from `first_step` on.

    Each epoch has its own order, drawn from the seed and the number of the epoch;
    batches may span two epochs. They do not depend on the devices, which only divide
    them.

    Returns:
      A function of an input context, whose dataset has the batches of one replica after
      another.
    """

    def input_fn(context: tf.distribute.InputContext) -> tf.data.Dataset:
        num_replicas = context.num_replicas_in_sync
        divisor = num_replicas * run.accumulation_steps
        if run.batch_size % divisor:
            raise ValueError(
                "train.batch_size must be a multiple of the number of devices times "
                f"train.accumulation_steps; received {run.batch_size} and {divisor}"
            )
        size = run.batch_size // num_replicas
        here = _replicas_here(context)

        def batches() -> Iterator[Batch]:
            order = _Order(batcher.num_items, run.seed)
            step = first_step
            while True:
                items = order.take(step * run.batch_size, run.batch_size)
                for replica in here:
                    yield batcher.batch(items[replica * size : (replica + 1) * size])
                step += 1

        return _dataset(batches, batcher.signature(size))

    return input_fn


class _Order:
    """Shuffled items of successive epochs."""

    def __init__(self, num_items: int, seed: int):
        self._num_items = num_items
        self._seed = seed
        self._epoch = -1
        self._order = np.zeros([0], np.int64)

    def take(self, first: int, count: int) -> np.ndarray:
        """Returns `count` items, beginning with item number `first` of all epochs."""
        items: list[np.ndarray] = []
        end = first + count
        while first < end:
            epoch, place = divmod(first, self._num_items)
            if epoch != self._epoch:
                generator = np.random.default_rng([self._seed, epoch])
                self._order = generator.permutation(self._num_items)
                self._epoch = epoch
            items.append(self._order[place : place + end - first])
            first += len(items[-1])
        return np.concatenate(items)


def eval_input_fn(
    batcher: FeatureBatcher, batch_size: int
) -> Callable[[tf.distribute.InputContext], tf.data.Dataset]:
    """Returns an input function of all items once, in order.

    Replica r takes batch r of each round; the last batches are filled with item 0.
    """

    def input_fn(context: tf.distribute.InputContext) -> tf.data.Dataset:
        num_replicas = context.num_replicas_in_sync

        def batches() -> Iterator[Batch]:
            for first in range(0, batcher.num_items, batch_size * num_replicas):
                for replica in _replicas_here(context):
                    items = first + replica * batch_size + np.arange(batch_size)
                    yield batcher.batch(np.where(items < batcher.num_items, items, 0))

        return _dataset(batches, batcher.signature(batch_size))

    return input_fn


def _replicas_here(context: tf.distribute.InputContext) -> range:
    """The indices of the replicas that this host feeds."""
    num_here = context.num_replicas_in_sync // context.num_input_pipelines
    first = context.input_pipeline_id * num_here
    return range(first, first + num_here)


def _dataset(make: Callable[[], Iterator[Batch]], signature: Any) -> tf.data.Dataset:
    options = tf.data.Options()
    options.autotune.enabled = False  # its thread may take most of a minute to end
    dataset = tf.data.Dataset.from_generator(make, output_signature=signature)
    return dataset.prefetch(4).with_options(options)
