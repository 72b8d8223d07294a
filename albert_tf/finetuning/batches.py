"""Padded batches of features, shuffled by a seed, with static shapes."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from albert_tf.core import config as config_lib
from albert_tf.data import input_pipeline
from albert_tf.finetuning import item_order
from albert_tf.tasks import features as features_lib
from albert_tf.tasks.squad import windows
from albert_tf.training import row_lengths

# Lengths are rounded up to a multiple of this.
_LENGTH_UNIT = 16
_SPANS = ("span", "answerable_span")

Batch = dict[str, np.ndarray]


class FeatureBatcher:
    """Makes padded batches of features.

    An item is one element of a batch: a row, or all choices of an example.

    Attributes:
      num_items: number of items.
      lengths: ascending lengths; a training batch is padded to one of them.
      length: S, the last of them: that of the longest row, rounded up.
    """

    def __init__(
        self,
        features: features_lib.Features,
        kind: str,
        pad_id: int,
        max_length: int,
        is_fixed_length: bool = False,
        num_lengths: int = 1,
    ):
        """Creates a batcher.

        Args:
          features: at least one row.
          kind: a key of `task_model.HEADS`.
          pad_id: the id of <pad>.
          max_length: maximal tokens of a row, `task.max_seq_length`.
          is_fixed_length: whether to pad all rows to `max_length`.
          num_lengths: how many lengths there are at most.
        """
        self._features = features
        self._kind = kind
        self._pad_id = pad_id
        self._rows_per_item = 1
        if kind == "multiple_choice":
            self._rows_per_item = int(np.sum(features.example_index == 0))
        self.num_items = features.num_rows // self._rows_per_item
        rows = np.diff(features.offsets).reshape(-1, self._rows_per_item)
        self._item_lengths = rows.max(1)  # [num_items]
        self._item_tokens = rows.sum(1)  # [num_items]
        longest = -(-int(rows.max()) // _LENGTH_UNIT) * _LENGTH_UNIT
        self.length = max_length if is_fixed_length else min(longest, max_length)
        candidates = [*range(_LENGTH_UNIT, self.length, _LENGTH_UNIT), self.length]
        self.lengths = item_order.choose_lengths(
            self._item_lengths, candidates, num_lengths
        )

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

    def order(self, run: config_lib.TrainConfig) -> item_order.ItemOrder:
        """Returns the order of training: by length if there are several lengths."""
        by_length = self._item_lengths if len(self.lengths) > 1 else None
        return item_order.ItemOrder(self.num_items, run.batch_size, run.seed, by_length)

    def length_index(self, items: np.ndarray) -> int:
        """Returns which of the lengths a batch of these items is padded to."""
        longest = self._item_lengths[items].max()
        return int(np.searchsorted(self.lengths, longest))

    def padding(self, run: config_lib.TrainConfig) -> float:
        """Returns the share of padding in the tokens of the first epoch's batches."""
        order = self.order(run)
        num_steps = max(1, self.num_items // run.batch_size)
        batches = np.stack([order.take(step) for step in range(num_steps)])
        lengths = np.take(self.lengths, [self.length_index(items) for items in batches])
        num_padded = run.batch_size * self._rows_per_item * int(lengths.sum())
        return 1 - int(self._item_tokens[batches].sum()) / num_padded


def train_input_fn(
    batcher: FeatureBatcher, run: config_lib.TrainConfig, first_step: int
) -> input_pipeline.InputFn:
    """Returns an input function of infinite training batches from `first_step` on.

    They do not depend on the devices, which only divide them. If there are several
    lengths, they have `row_lengths.LENGTH_INDEX`.

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

        def batch(items: np.ndarray, replica: int) -> Batch:
            values = batcher.batch(items[replica * size : (replica + 1) * size])
            if len(batcher.lengths) > 1:
                # That of all replicas: none waits for a longer batch of another.
                index = batcher.length_index(items)
                values[row_lengths.LENGTH_INDEX] = np.full([size], index, np.int32)
            return values

        def batches() -> Iterator[Batch]:
            order = batcher.order(run)
            step = first_step
            while True:
                items = order.take(step)
                for replica in here:
                    yield batch(items, replica)
                step += 1

        first_items = np.zeros([run.batch_size], np.int64)
        return _dataset(batches, _signature(batch(first_items, 0), size))

    return input_fn


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

        return _dataset(batches, _signature(batcher.batch([0]), batch_size))

    return input_fn


def _signature(batch: Batch, batch_size: int) -> dict[str, tf.TensorSpec]:
    """The shapes and dtypes of batches like this one, but of another size."""
    return {
        name: tf.TensorSpec([batch_size, *values.shape[1:]], values.dtype)
        for name, values in batch.items()
    }


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
